package contract

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
	"github.com/gatehouse-dev/gatehouse/test/registry"
)

// Fails when an error that only a new spec can cure is tried again: passes are counted, and what the registry is asked.
func TestC12WhatOnlyANewSpecCanCureIsNotRetried(t *testing.T) {
	m := running(t)
	f := fleet.New(t, product, fleet.Options{})
	f.Converged(t, f.V1)
	m.Rest(t, soon)
	at := mark(t)
	for _, malformed := range []string{f.Registry.Host + "/UPPER:v1", "no-tag", f.Registry.Host + "/a b:v1"} {
		f.SetImage(t, malformed)
		f.ReleaseSays(t, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonInvalidImage)
		before := m.Rest(t, soon)
		asked := len(f.Registry.Requests())
		eventually.Holds(t, 1500*time.Millisecond, func() error { // the back-off begins at a tenth of a second
			if now := m.Passes(t); now.Release != before.Release {
				return fmt.Errorf("%s: %v more passes", malformed, now.Release-before.Release)
			}
			return nil
		})
		if more := len(f.Registry.Requests()) - asked; more > 0 {
			t.Errorf("%s: the registry was asked %d times", malformed, more)
		}
	}
	if image := f.Release(t).Status.Image; image != f.Pinned(f.V1) {
		t.Errorf("what was accepted has become %q", image)
	}
	// The correction is what runs already: nobody but the release has anything to write.
	f.SetImage(t, f.Image("v1"))
	f.Converged(t, f.V1)
	m.Rest(t, soon)
	for _, event := range sent(t, at) {
		if event.Resource != "gatewayreleases" && event.Resource != "events" {
			t.Errorf("sent: %s", event)
		}
	}
}

// Fails when what may pass is given up, or is tried without a pause.
func TestC12WhatMayPassIsRetriedWithBackOff(t *testing.T) {
	t.Parallel()
	running(t)
	hub := registry.Start(t)
	hub.Break(registry.Answer(503))
	f := fleet.New(t, product, fleet.Options{Registry: hub})
	release := f.ReleaseSays(t, v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonRegistryUnavailable)
	eventually.Succeeds(t, soon, func() error {
		if n := len(hub.Requests()); n < 2 {
			return fmt.Errorf("asked %d times", n)
		}
		return nil
	})
	at := mark(t)
	asked := len(hub.Requests())
	eventually.Holds(t, 3*time.Second, func() error {
		if more := len(hub.Requests()) - asked; more > 3 {
			return fmt.Errorf("asked %d times more", more)
		}
		return nil
	})
	// It is said once, and not again at every try.
	silent(t, at, func(e cluster.AuditEvent) bool { return e.Name == f.Name })
	if now := f.Release(t); now.ResourceVersion != release.ResourceVersion && now.Status.Summary != release.Status.Summary {
		t.Errorf("the summary flaps: %q, then %q", release.Status.Summary, now.Status.Summary)
	}
	hub.Heal()
	f.ConvergedWithin(t, f.V1, 2*fleet.Patience)
}

// quota allows a namespace so many of a resource.
func quota(namespace, of, amount string) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "quota"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourceName(of): resource.MustParse(amount)}},
	}
}

// enforced makes a quota and waits until the API server goes by it.
func enforced(t *testing.T, f *fleet.Fleet, q *corev1.ResourceQuota) {
	t.Helper()
	f.Make(t, q)
	eventually.Succeeds(t, soon, func() error {
		var now corev1.ResourceQuota
		f.Get(t, metaKey(q), &now)
		if len(now.Status.Hard) == 0 {
			return fmt.Errorf("quota %s/%s is not counted yet", q.Namespace, q.Name)
		}
		return nil
	})
}

// Fails when a refused apply is logged and passed over: it must be reported, and tried again until it is let through.
func TestC13ARefusedApplyIsReportedAndRetried(t *testing.T) {
	running(t)
	f := fleet.New(t, product, fleet.Options{Gateways: 1, Release: func(r *v1alpha1.GatewayRelease) { r.Spec.Rollout.Paused = true }})
	q := quota(f.Namespaces[0], "count/deployments.apps", "0")
	enforced(t, f, q)
	at := mark(t)
	f.EditRelease(t, func(r *v1alpha1.GatewayRelease) { r.Spec.Rollout.Paused = false })

	gateway := f.GatewaySays(t, 0, v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonApplyFailed)
	if message := fleet.Message(gateway.Status.Conditions, v1alpha1.ConditionReady); !strings.Contains(message, "Deployment") || !strings.Contains(message, "quota") {
		t.Errorf("the message %q names neither the object nor where to look", message)
	}
	eventually.Succeeds(t, soon, func() error {
		tries := sent(t, at, cluster.OfResource("apps", "deployments"), func(e cluster.AuditEvent) bool { return e.Namespace == f.Namespaces[0] })
		if len(tries) < 2 {
			return fmt.Errorf("tried %d times", len(tries))
		}
		return nil
	})
	if err := f.Client.Delete(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	f.Converged(t, f.V1)
}

// Fails when a gateway whose pods cannot be made is called fine, or its reason is not said.
func TestC13WhatKeepsPodsFromBeingMadeIsReported(t *testing.T) {
	running(t)
	f := fleet.New(t, product, fleet.Options{})
	f.Converged(t, f.V1)
	q := quota(f.Namespaces[0], "pods", "1") // as many as run: none can be added
	enforced(t, f, q)
	v2 := f.Push(t, "v2")
	f.SetImage(t, f.Image("v2"))
	gateway := f.GatewaySays(t, 0, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNotProgressing)
	if message := fleet.Message(gateway.Status.Conditions, v1alpha1.ConditionReady); !strings.Contains(message, "FailedCreate") {
		t.Errorf("the message %q does not say why", message)
	}
	if err := f.Client.Delete(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	// Kubernetes' own back-off decides when the pod is made; a look at the Deployment wakes it.
	f.ConvergedWithin(t, v2, 2*fleet.Patience)
}

// Fails when a registry that does not answer holds up releases that have nothing to do with it: more of them than there
// are workers.
func TestC14ARegistryThatHangsBlocksNobodyElse(t *testing.T) {
	t.Parallel()
	running(t)
	for name, fault := range map[string]registry.Fault{"hangs": registry.Hang(), "drips a byte a second": registry.Drip(time.Second)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dead := registry.Start(t)
			dead.Break(fault)
			const stuck = 20
			var waiting []*fleet.Fleet
			for range stuck {
				waiting = append(waiting, fleet.New(t, product, fleet.Options{Registry: dead}))
			}
			for _, f := range waiting[:3] {
				f.ReleaseSays(t, v1alpha1.ConditionResolved, metav1.ConditionFalse, "")
			}
			healthy := fleet.New(t, product, fleet.Options{})
			started := time.Now()
			healthy.Converged(t, healthy.V1)
			t.Logf("a healthy release took %s", time.Since(started))
			if took := time.Since(started); took > 15*time.Second {
				t.Errorf("a healthy release took %s beside %d that wait for a registry", took, stuck)
			}
			v2 := healthy.Push(t, "v2")
			healthy.SetImage(t, healthy.Image("v2"))
			healthy.ConvergedWithin(t, v2, soon)

			// Each question has a deadline, and its end is reported.
			eventually.Succeeds(t, fleet.Patience, func() error {
				release := waiting[0].Release(t)
				if summary := release.Status.Summary; !strings.HasPrefix(summary, "Resolving: ") || !strings.Contains(summary, dead.Host) {
					return fmt.Errorf("the summary is %q", summary)
				}
				return nil
			})
			for _, f := range waiting[1:] {
				if release := f.Release(t); release.Status.Image != "" {
					t.Errorf("%s: accepted %q", f.Name, release.Status.Image)
				}
			}
		})
	}
}

// Fails when the body of an answer is read without a limit: the process would die of it, or be slow for all.
func TestC14AnAnswerIsReadUpToALimit(t *testing.T) {
	m := running(t)
	hub := registry.Start(t)
	hub.Break(registry.Giant(256 << 20))
	f := fleet.New(t, product, fleet.Options{Registry: hub})
	f.ReleaseSays(t, v1alpha1.ConditionResolved, metav1.ConditionFalse, v1alpha1.ReasonRegistryUnavailable)
	metrics, err := m.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if resident := metrics.Sum("process_resident_memory_bytes", nil); resident > 200<<20 {
		t.Errorf("the manager holds %.0f MiB after an answer of 256", resident/(1<<20))
	}
}
