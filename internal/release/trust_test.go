package release_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/executor"
	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
)

// Trust is taken away while one gateway has taken the new revision and another has been admitted to it. It goes no
// further, what runs keeps running, and when trust is back the rollout goes on.
func TestTrustThatIsTakenAwayInMidRollout(t *testing.T) {
	type world struct {
		*bench
		ca       *corev1.Secret
		e, other *v1alpha1.Executor
	}
	tests := []struct {
		name        string
		take, again func(w *world)
		why         string
	}{
		{
			"the authority's certificate is replaced",
			func(w *world) {
				edit(w.bench, w.ca, func(s *corev1.Secret) { s.Data["ca.crt"] = w.signer().authority.PEM() })
			},
			nil, "no signature by release-signers",
		},
		{
			"the authority's Secret is deleted",
			func(w *world) { w.remove(w.ca) },
			func(w *world) { w.create(again(w.ca)) }, "no signature by release-signers",
		},
		{
			"the Executor is deleted",
			func(w *world) { w.remove(w.e) },
			func(w *world) { w.create(again(w.e)) }, "no Executor matches ",
		},
		{
			"the scope is narrowed",
			func(w *world) {
				edit(w.bench, w.e, func(e *v1alpha1.Executor) { e.Spec.Scopes = []v1alpha1.Scope{v1alpha1.Scope(w.hub.Host + "/other/*")} })
			},
			func(w *world) {
				edit(w.bench, w.e, func(e *v1alpha1.Executor) { e.Spec.Scopes = []v1alpha1.Scope{v1alpha1.Scope(w.hub.Host + "/team/*")} })
			}, "no Executor matches ",
		},
		{
			"another Executor with a narrower scope demands another signer",
			func(w *world) {
				w.other = w.executor("team/gateway", w.signer().trust())
			},
			func(w *world) { w.remove(w.other) }, "no signature by release-signers",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := &world{bench: newBench(t)}
			s := w.signer()
			first, second := s.signed("1.0"), s.signed("1.1")
			w.ca = s.trust()
			trusted := w.ca.DeepCopy().Data
			w.e = w.executor("team/*", w.ca)
			r := w.release(w.hub.Reference("team/gateway", "1.0"), w.profile().Name, requiredSignature, func(r *v1alpha1.GatewayRelease) {
				two := intOrString(2)
				r.Spec.Rollout.MaxUnavailable = &two
			})
			for range 5 {
				w.gateway(r)
			}
			w.start()
			w.reaches(r, all(complete(r, w.pinned(first)), verifiedBy(r, w.e)))

			// Two are admitted; one takes the target.
			w.deaf = true
			edit(w.bench, r, func(r *v1alpha1.GatewayRelease) { r.Spec.Image = w.hub.Reference("team/gateway", "1.1") })
			w.reaches(r, func() error { return inFlight(r, 2) })
			w.deaf = false
			taker := w.named(r.Status.Rollout.InFlight[0].Name)
			if err := w.obeyOne(taker); err != nil {
				t.Fatal(err)
			}
			w.deaf = true

			test.take(w)
			w.reaches(r, all(unverified(r, v1alpha1.ReasonNoLongerVerified, w.pinned(second), test.why), bothWithheld(r)))
			if s := r.Status; s.Rollout.State != v1alpha1.RolloutPaused || !strings.HasPrefix(s.Rollout.Message, "held: "+s.Revision+" is withheld") {
				t.Errorf("rollout %s: %s", s.Rollout.State, s.Rollout.Message)
			}
			w.deaf = false
			late := w.gateway(r)
			w.holds(r, func() error {
				return errors.Join(w.count(second, 1), w.count(first, 4), w.runs(late, ""), w.runs(taker, w.pinned(second)))
			})

			if test.again == nil {
				edit(w.bench, w.ca, func(s *corev1.Secret) { s.Data = trusted })
			} else {
				test.again(w)
			}
			w.reaches(r, all(complete(r, w.pinned(second)), condition(r, v1alpha1.ConditionVerified, metav1.ConditionTrue, v1alpha1.ReasonVerified), withheld(r)))
			if err := w.count(second, 6); err != nil {
				t.Error(err)
			}
		})
	}
}

// A stable revision that no longer verifies is given to no new gateway; those that run it go on. What the spec asks for
// may be another one, that does.
func TestAStableRevisionThatNoLongerVerifies(t *testing.T) {
	b := newBench(t)
	old, other := b.signer(), b.signer()
	first, second := old.signed("1.0"), other.signed("1.1")
	ca := old.trust()
	e := b.executor("team/*", ca)
	r := b.release(b.hub.Reference("team/gateway", "1.0"), b.profile().Name, requiredSignature)
	runs := b.gateway(r)
	b.start()
	b.reaches(r, all(complete(r, b.pinned(first)), verifiedBy(r, e)))

	edit(b, ca, func(s *corev1.Secret) { s.Data["ca.crt"] = other.authority.PEM() })
	b.reaches(r, all(unverified(r, v1alpha1.ReasonNoLongerVerified, b.pinned(first)), bothWithheld(r)))
	late := b.gateway(r)
	b.holds(r, func() error { return errors.Join(b.runs(late, ""), b.runs(runs, b.pinned(first))) })

	edit(b, r, func(r *v1alpha1.GatewayRelease) { r.Spec.Image = b.hub.Reference("team/gateway", "1.1") })
	b.reaches(r, all(complete(r, b.pinned(second)), verifiedBy(r, e), withheld(r)))
	if err := b.count(second, 2); err != nil {
		t.Error(err)
	}

	// The way back to what ran before is verified as well.
	edit(b, r, func(r *v1alpha1.GatewayRelease) { r.Spec.Image = b.hub.Reference("team/gateway", "1.0") })
	b.reaches(r, unverified(r, v1alpha1.ReasonVerificationFailed, b.pinned(first)))
	b.holds(r, func() error { return b.count(second, 2) })
}

// What was changed while nobody was there is seen, whatever events there were.
func TestTrustThatIsTakenAwayWhileNobodyIsThere(t *testing.T) {
	b := newBench(t)
	s := b.signer()
	digest := s.signed("1.0")
	e := b.executor("team/*", s.trust())
	r := b.release(b.hub.Reference("team/gateway", "1.0"), b.profile().Name, requiredSignature)
	b.gateway(r)
	c := b.start()
	b.reaches(r, all(complete(r, b.pinned(digest)), verifiedBy(r, e)))
	c.stop()
	b.remove(e)
	b.start()
	b.reaches(r, all(unverified(r, v1alpha1.ReasonNoLongerVerified, "no Executor matches "), bothWithheld(r)))
}

// A replica whose view of the Executors is behind accepts nothing by it, and blames nobody.
func TestAReplicaThatHasNotSeenAnExecutorAcceptsNothing(t *testing.T) {
	b := newBench(t)
	digest := b.hub.PushImage(t, "team/gateway", "1.0")
	p := b.profile().Name
	strict := b.release(b.hub.Reference("team/gateway", "1.0"), p, requiredSignature)
	lenient := b.release(b.hub.Reference("team/gateway", "1.0"), p, verification(v1alpha1.VerificationIfConfigured))
	e := b.executor("team/*", b.signer().trust())
	b.blind = true
	b.start()
	waits := func(r *v1alpha1.GatewayRelease) func() error {
		return all(
			summary(r, "Verifying"),
			condition(r, v1alpha1.ConditionVerified, metav1.ConditionUnknown, v1alpha1.ReasonVerifying),
			message(r, v1alpha1.ConditionVerified, "Executor "+e.Name+" is not compiled yet"))
	}
	for _, r := range []*v1alpha1.GatewayRelease{strict, lenient} {
		b.reaches(r, waits(r))
		b.holds(r, waits(r))
	}
	b.remove(e)
	b.reaches(strict, unverified(strict, v1alpha1.ReasonNoExecutor, "no Executor matches "+b.pinned(digest)))
	b.reaches(lenient, complete(lenient, b.pinned(digest)))
}

// That the last spec it has seen did not compile excuses no replica from seeing the next.
func TestAReplicaThatIsBehindOnABrokenExecutorAcceptsNothing(t *testing.T) {
	b := newBench(t)
	b.hub.PushImage(t, "team/gateway", "1.0")
	r := b.release(b.hub.Reference("team/gateway", "1.0"), b.profile().Name, verification(v1alpha1.VerificationIfConfigured))
	e := b.executor("team/*", b.signer().trust())
	scopes, err := executor.ParseScopes([]v1alpha1.Scope{"elsewhere.test/*"})
	if err != nil {
		t.Fatal(err)
	}
	b.blind = true
	c := b.start()
	c.live.Put(&executor.Served{Name: client.ObjectKeyFromObject(e), UID: e.UID, Scopes: scopes, Attempted: e.Generation - 1, Problem: "it does not compile"})
	waits := all(summary(r, "Verifying"), message(r, v1alpha1.ConditionVerified, "Executor "+e.Name+" is not compiled yet"))
	b.reaches(r, waits)
	b.holds(r, waits)
}

// Verdicts are made anew from time to time, in case that a certificate was revoked. A registry that is down then takes
// nothing back at once, and what it takes back later is admission alone.
func TestAVerdictIsMadeAnew(t *testing.T) {
	b := newBench(t)
	b.maxVerdictAge = 2 * time.Second
	s := b.signer()
	digest := s.signed("1.0")
	e := b.executor("team/*", s.trust())
	r := b.release(b.hub.Reference("team/gateway", "1.0"), b.profile().Name, requiredSignature, interval(0))
	b.gateway(r)
	c := b.start()
	b.reaches(r, all(complete(r, b.pinned(digest)), verifiedBy(r, e)))
	mark := b.mark()
	asked := len(b.hub.Requests())
	eventually.Succeeds(t, within, func() error {
		if passed, _ := c.value("gatehouse_release_verifications_total", "outcome", "Passed"); passed < 3 {
			return fmt.Errorf("verified %v times", passed)
		}
		return nil
	})
	if len(b.hub.Requests()) == asked {
		t.Error("the registry was not asked again")
	}
	if writes := b.writes(mark); len(writes) > 0 {
		t.Errorf("the same verdict was written:\n%s", strings.Join(writes, "\n"))
	}
	b.hub.Down()
	b.reaches(r, all(
		begins(r, "Unverified: "+b.pinned(digest)+": "),
		condition(r, v1alpha1.ConditionVerified, metav1.ConditionUnknown, v1alpha1.ReasonCannotVerify),
		condition(r, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRolloutComplete),
	))
	b.hub.Up(t)
	b.reaches(r, all(complete(r, b.pinned(digest)), verifiedBy(r, e)))
}

// A verified fleet at rest costs nothing: no writes, no requests to the registry, and a restart makes the verdicts anew
// without a word. So does one that is not verified.
func TestC3AVerifiedReleaseIsNotWritten(t *testing.T) {
	b := newBench(t)
	s := b.signer()
	digest := s.signed("1.0")
	second := b.hub.PushImage(t, "team/gateway", "1.1")
	e := b.executor("team/*", s.trust())
	p := b.profile().Name
	fine := b.release(b.hub.Reference("team/gateway", "1.0"), p, requiredSignature)
	b.gateway(fine)
	unsigned := b.release(b.hub.Reference("team/gateway", "1.1"), p, requiredSignature)
	turned := b.release(b.hub.Reference("team/gateway", "1.0"), p, requiredSignature)
	b.gateway(turned)
	c := b.start()
	settled := all(complete(fine, b.pinned(digest)), verifiedBy(fine, e))
	b.reaches(fine, settled)
	refused := unverified(unsigned, v1alpha1.ReasonVerificationFailed, b.pinned(second))
	b.reaches(unsigned, refused)
	b.reaches(turned, complete(turned, b.pinned(digest)))
	edit(b, turned, func(r *v1alpha1.GatewayRelease) { r.Spec.Image = b.hub.Reference("team/gateway", "1.1") })
	b.reaches(turned, unverified(turned, v1alpha1.ReasonVerificationFailed, b.pinned(second)))
	mark := b.mark()

	for range 2 {
		c.stop()
		c = b.start()
		eventually.Succeeds(t, within, func() error {
			passed, _ := c.value("gatehouse_release_verifications_total", "outcome", "Passed")
			failed, _ := c.value("gatehouse_release_verifications_total", "outcome", "Failed")
			if passed < 1 || failed < 1 {
				return fmt.Errorf("%v passed, %v failed", passed, failed)
			}
			return nil
		})
		verdicts, _ := c.value("gatehouse_release_verifications_total", "outcome", "Passed")
		edit(b, fine, func(r *v1alpha1.GatewayRelease) { r.Labels = map[string]string{"touched": fmt.Sprint(mark)} })
		seen, _ := c.value("gatehouse_reconcile_total")
		eventually.Succeeds(t, within, func() error { return passes(c, seen+10) }) // what is refused is tried again
		if again, _ := c.value("gatehouse_release_verifications_total", "outcome", "Passed"); again != verdicts || again != 1 {
			t.Errorf("one image was verified %v times", again)
		}
		if err := errors.Join(b.is(fine, settled), b.is(unsigned, refused)); err != nil {
			t.Error(err)
		}
	}
	if writes := b.writes(mark); len(writes) > 0 {
		t.Errorf("it wrote:\n%s", strings.Join(writes, "\n"))
	}
	if one, _ := c.value("gatehouse_release_verified", "release", fine.Name); one != 1 {
		t.Errorf("gatehouse_release_verified is %v", one)
	}
}

// remove deletes an object.
func (b *bench) remove(object client.Object) {
	b.Helper()
	if err := b.client.Delete(b.Context(), object); err != nil {
		b.Fatal(err)
	}
}

// again is an object that can be created anew.
func again[T client.Object](object T) T {
	made := object.DeepCopyObject().(T)
	made.SetResourceVersion("")
	made.SetUID("")
	return made
}

// count checks how many gateways of the tenant were given an image of team/gateway.
func (b *bench) count(digest image.Digest, want int) error {
	gateways := &v1alpha1.GatewayInstanceList{}
	if err := b.client.List(b.Context(), gateways, client.InNamespace(b.tenant)); err != nil {
		return err
	}
	got := 0
	for i := range gateways.Items {
		if given := gateways.Items[i].Status.Revision; given != nil && given.Image == b.pinned(digest) {
			got++
		}
	}
	if got != want {
		return fmt.Errorf("%d gateways were given %s, want %d", got, digest.Short(), want)
	}
	return nil
}

func (b *bench) named(name string) *v1alpha1.GatewayInstance {
	b.Helper()
	gateway := &v1alpha1.GatewayInstance{}
	if err := b.client.Get(b.Context(), client.ObjectKey{Namespace: b.tenant, Name: name}, gateway); err != nil {
		b.Fatal(err)
	}
	return gateway
}

func inFlight(r *v1alpha1.GatewayRelease, want int) error {
	if got := len(r.Status.Rollout.InFlight); got != want {
		return fmt.Errorf("%d in flight, want %d", got, want)
	}
	return nil
}

// bothWithheld is a check that target and stable are.
func bothWithheld(r *v1alpha1.GatewayRelease) func() error {
	return func() error {
		both := []string{r.Status.Rollout.Stable, r.Status.Rollout.Target}
		slices.Sort(both)
		return withheld(r, slices.Compact(both)...)()
	}
}
