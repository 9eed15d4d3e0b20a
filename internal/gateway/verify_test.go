package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/revision"
	"github.com/gatehouse-dev/gatehouse/internal/rollout"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	testregistry "github.com/gatehouse-dev/gatehouse/test/registry"
	"github.com/gatehouse-dev/gatehouse/test/signatures/cosign"
)

// court is a world in which images are judged: a registry, and a tenant with a key of its own and a neighbour without.
type court struct {
	*world
	hub *testregistry.Registry
	key *cosign.Key
}

// patiently has nobody ask again before an event tells.
func patiently(w *world) { w.patient = true }

const repository = "gateways/openshell"

func judgedWorld(t *testing.T, changes ...func(*world)) *court {
	t.Helper()
	w := made(t)
	for _, change := range changes {
		change(w)
	}
	w.judged, w.neighbour = true, kubernetes.Namespace(t, "neighbour")
	w.release = edit(w, w.release, func(r *v1alpha1.GatewayRelease) {
		r.Spec.Verification = v1alpha1.VerificationIfConfigured
		r.Spec.Rollout = v1alpha1.RolloutSpec{MaxUnavailable: ptr.To(intstr.FromInt32(1)), MinReadySeconds: ptr.To[int32](0)}
	})
	key, err := cosign.NewKey(cosign.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	c := &court{world: w, hub: testregistry.Start(t), key: key}
	t.Cleanup(func() {
		for _, namespace := range []string{w.tenant, w.neighbour} {
			for _, kind := range []client.Object{&v1alpha1.NamespacedExecutor{}, &v1alpha1.GatewayInstance{}} {
				if err := w.DeleteAllOf(context.WithoutCancel(t.Context()), kind, client.InNamespace(namespace)); err != nil {
					t.Error(err)
				}
			}
		}
	})
	w.start()
	return c
}

// revision pushes an image, and stores the release's revision with it.
func (c *court) revision(tag string) (revision.Revision, string) {
	c.Helper()
	pinned := c.hub.Host + "/" + repository + "@" + c.hub.PushImage(c, repository, tag).String()
	return c.accept(pinned), pinned
}

// sign signs an image by the tenant's key.
func (c *court) sign(pinned string) {
	c.Helper()
	parsed, err := image.ParsePinned(pinned)
	if err != nil {
		c.Fatal(err)
	}
	digest := parsed.Digest()
	signature, err := (&cosign.Signer{Key: c.key}).Sign(cosign.Payload(c.hub.Host+"/"+repository, digest))
	if err != nil {
		c.Fatal(err)
	}
	artifact := cosign.Tagged(digest, signature)
	for _, blob := range artifact.Blobs {
		c.hub.PushBlob(c, repository, blob.MediaType, blob.Content)
	}
	var manifest ocispec.Manifest
	if err := json.Unmarshal(artifact.Manifest, &manifest); err != nil {
		c.Fatal(err)
	}
	c.hub.PushTagged(c, repository, artifact.Tag, manifest)
}

// demand makes the tenant's own Executor, which trusts its key alone, and waits until it serves.
func (c *court) demand(changes ...func(*v1alpha1.NamespacedExecutor)) *v1alpha1.NamespacedExecutor {
	c.Helper()
	e := &v1alpha1.NamespacedExecutor{
		ObjectMeta: metav1.ObjectMeta{Name: "own", Namespace: c.tenant},
		Spec: v1alpha1.NamespacedExecutorSpec{
			VerificationSpec: v1alpha1.VerificationSpec{
				Scopes: []v1alpha1.Scope{v1alpha1.Scope(c.hub.Host + "/gateways/*")},
				Verifiers: []v1alpha1.Verifier{{Name: "reviewers", Cosign: &v1alpha1.CosignVerifier{
					TransparencyLog: v1alpha1.Ignored,
					Keys:            []v1alpha1.CosignKey{{Name: "k1", PEMSource: v1alpha1.PEMSource{Material: v1alpha1.Material{Inline: string(c.key.PublicPEM())}}}},
				}}},
			},
			Stores: []v1alpha1.NamespacedStore{{Name: "registry", Registry: &v1alpha1.RegistryStore{RegistryAccess: v1alpha1.RegistryAccess{PlainHTTP: true}}}},
		},
	}
	for _, change := range changes {
		change(e)
	}
	c.make(e)
	c.served(e)
	return e
}

// served waits until the manager serves an Executor, in whatever state it is.
func (c *court) served(e *v1alpha1.NamespacedExecutor) {
	c.Helper()
	eventually.Succeeds(c, patience, func() error {
		if c.live.Served(client.ObjectKeyFromObject(e)) == nil {
			return fmt.Errorf("%s is not served yet", e.Name)
		}
		return nil
	})
}

func (c *court) neighbourly(g *v1alpha1.GatewayInstance) { g.Namespace = c.neighbour }

// plan moves the release's window once, as its own controller would.
func (c *court) plan(accepted revision.Revision) error {
	release := &v1alpha1.GatewayRelease{}
	if err := c.Get(c.Context(), client.ObjectKeyFromObject(c.release), release); err != nil {
		return err
	}
	in := rollout.Input{
		Release: release.Name, UID: release.UID, Version: release.ResourceVersion, Spec: release.Spec.Rollout,
		Status: release.Status.Rollout, Accepted: accepted.Name(), Now: time.Now(),
	}
	for _, namespace := range []string{c.tenant, c.neighbour} {
		fleet := &v1alpha1.GatewayInstanceList{}
		if err := c.List(c.Context(), fleet, client.InNamespace(namespace)); err != nil {
			return err
		}
		for i := range fleet.Items {
			in.Fleet = append(in.Fleet, rollout.MemberOf(&fleet.Items[i]))
		}
	}
	planned := rollout.Next(in).Status
	if equality.Semantic.DeepEqual(&planned, release.Status.Rollout) {
		return nil
	}
	release.Status.Rollout = &planned
	if err := c.Status().Update(c.Context(), release); err != nil && !apierrors.IsConflict(err) {
		return err
	}
	return nil
}

// completes plans until the rollout is complete and its message says all of these.
func (c *court) completes(accepted revision.Revision, says ...string) *v1alpha1.RolloutStatus {
	c.Helper()
	release := &v1alpha1.GatewayRelease{}
	eventually.Succeeds(c, 2*patience, func() error {
		if err := c.plan(accepted); err != nil {
			return err
		}
		if err := c.Get(c.Context(), client.ObjectKeyFromObject(c.release), release); err != nil {
			return err
		}
		now := release.Status.Rollout
		if now.State != v1alpha1.RolloutComplete || now.Target != accepted.Name() {
			return fmt.Errorf("rollout %s to %s: %s", now.State, now.Target, now.Message)
		}
		for _, part := range says {
			if !strings.Contains(now.Message, part) {
				return fmt.Errorf("message %q does not say %q", now.Message, part)
			}
		}
		return nil
	})
	return release.Status.Rollout
}

// pending waits until a gateway says why it does not take what it is given, and returns the message.
func (c *court) pending(g *v1alpha1.GatewayInstance, reason string) string {
	c.Helper()
	message := ""
	eventually.Succeeds(c, patience, func() error {
		now := c.see(g)
		found := meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionReconciling)
		if found == nil || found.Reason != reason {
			return fmt.Errorf("conditions %+v", now.Status.Conditions)
		}
		message = found.Message
		return nil
	})
	return message
}

// What a tenant demands of signatures holds for its own gateways, on top of what the release demands: they are left out
// and named, everybody else moves, and they go through the window when they may.
func TestATenantsOwnExecutorIsHeeded(t *testing.T) {
	const signed = "until the tenant's signature is there"
	for name, settle := range map[string]func(c *court, second string, e *v1alpha1.NamespacedExecutor){
		signed:                          func(c *court, second string, _ *v1alpha1.NamespacedExecutor) { c.sign(second) },
		"until its Executor is deleted": func(c *court, _ string, e *v1alpha1.NamespacedExecutor) { c.delete(e) },
		"until it only audits": func(c *court, _ string, e *v1alpha1.NamespacedExecutor) {
			edit(c.world, e, func(e *v1alpha1.NamespacedExecutor) { e.Spec.Mode = v1alpha1.ModeAudit })
		},
		"until the release demands no signatures": func(c *court, _ string, _ *v1alpha1.NamespacedExecutor) {
			edit(c.world, c.release, func(r *v1alpha1.GatewayRelease) { r.Spec.Verification = v1alpha1.VerificationDisabled })
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := judgedWorld(t, func(w *world) { w.patient = name != signed })
			first, firstImage := c.revision("1")
			c.sign(firstImage)
			e := c.demand()
			g := c.gateway("edge")
			other := c.gateway("other", c.neighbourly)
			c.completes(first)
			c.runs(g, firstImage)

			second, secondImage := c.revision("2")
			window := c.completes(second, "1 of 2 gateways run "+second.Name(), "1 may not take it: "+c.tenant+"/edge: 1/1 ready", "(VerificationFailed)")
			c.runs(other, secondImage)
			message := c.stalls(g, v1alpha1.ReasonVerificationFailed)
			for _, part := range []string{"revision " + second.Name() + " is not given", secondImage, "NamespacedExecutor " + c.tenant + "/own: no signature by reviewers", "What runs keeps running"} {
				if !strings.Contains(message, part) {
					t.Errorf("message %q does not say %q", message, part)
				}
			}
			now := c.see(g)
			if now.Status.Image != firstImage || now.Status.Revision.Name != first.Name() || now.Status.Phase != v1alpha1.GatewayRunning {
				t.Errorf("status %+v", now.Status)
			}
			c.loses(g) // what runs is kept as it should be

			settle(c, secondImage, e)
			c.becomes(g, v1alpha1.ReasonReplicasAvailable)
			if d := c.deployment(g); d.Spec.Template.Spec.Containers[0].Image != firstImage {
				t.Error("it was applied past the window")
			}
			if after := c.completes(second, "2 of 2 gateways run "+second.Name()); after.Attempt <= window.Attempt {
				t.Errorf("attempt %d after %d", after.Attempt, window.Attempt)
			}
			c.runs(g, secondImage)
			if n := c.verifications("gatehouse_gateway_verifications_total", "Failed"); n < 1 {
				t.Errorf("%v refusals by the tenant are counted", n)
			}
		})
	}
}

// A gateway that runs nothing yet is held to it as well.
func TestANewGatewayWaitsForItsTenantsSignature(t *testing.T) {
	c := judgedWorld(t)
	first, firstImage := c.revision("1")
	e := c.demand()
	g := c.gateway("edge")
	c.gateway("other", c.neighbourly)
	c.completes(first, "1 of 2 gateways run "+first.Name(), "1 may not take it: "+c.tenant+"/edge: 0/1 ready")
	c.stalls(g, v1alpha1.ReasonVerificationFailed)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(g), &appsv1.Deployment{}); !apierrors.IsNotFound(err) {
		t.Errorf("a Deployment: %v", err)
	}
	// It is a stable revision by now, and still not the tenant's; a new pass finds the same.
	edit(c.world, g, func(g *v1alpha1.GatewayInstance) { g.Spec.Config["gateway.toml"] = "b" })
	c.stalls(g, v1alpha1.ReasonVerificationFailed)
	edit(c.world, e, func(e *v1alpha1.NamespacedExecutor) {
		e.Spec.Scopes = []v1alpha1.Scope{v1alpha1.Scope(c.hub.Host + "/elsewhere/*")}
	})
	c.completes(first, "2 of 2 gateways run "+first.Name())
	c.runs(g, firstImage)
}

// While nobody can tell, the gateway takes nothing, keeps what it runs and its slot, and says why: for as long as it takes
// where that is not for its tenant to mend, and otherwise until progressDeadline has passed.
func TestWhatCannotBeDecidedIsNotTaken(t *testing.T) {
	const own = "its Executor has no build"
	for name, test := range map[string]struct {
		broken func(c *court)
		healed func(c *court)
		why    string
	}{
		"its registry is down": {
			func(c *court) {
				edit(c.world, c.release, func(r *v1alpha1.GatewayRelease) { r.Spec.Registry = &v1alpha1.RegistryAccess{PlainHTTP: true} })
				c.demand()
				c.hub.Down()
			},
			func(c *court) { c.hub.Up(c) }, "registry 127.0.0.1:",
		},
		// The release has admitted the gateway, and has not looked at the Executors since: its status cannot be all.
		"the cluster's Executor trusts somebody else by now": {
			func(c *court) {
				stranger, err := cosign.NewKey(cosign.ECDSAP256)
				if err != nil {
					c.Fatal(err)
				}
				c.insist(stranger)
			},
			func(c *court) {
				e := &v1alpha1.Executor{ObjectMeta: metav1.ObjectMeta{Name: c.tenant}}
				edit(c.world, e, func(e *v1alpha1.Executor) { e.Spec.Verifiers[0].Cosign.Keys[0].Inline = string(c.key.PublicPEM()) })
			}, "no signature by builders",
		},
		"no Executor of the cluster has it in scope by now": {
			func(c *court) {
				edit(c.world, c.release, func(r *v1alpha1.GatewayRelease) { r.Spec.Verification = v1alpha1.VerificationRequired })
			},
			func(c *court) { c.insist(c.key) }, "no Executor vouches for ",
		},
		own: {
			func(c *court) {
				c.demand(func(e *v1alpha1.NamespacedExecutor) {
					inline(e, "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n")
				})
			},
			func(c *court) {
				own := &v1alpha1.NamespacedExecutor{ObjectMeta: metav1.ObjectMeta{Name: "own", Namespace: c.tenant}}
				edit(c.world, own, func(e *v1alpha1.NamespacedExecutor) { inline(e, string(c.key.PublicPEM())) })
			}, "cannot decide",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := judgedWorld(t)
			first, firstImage := c.revision("1")
			c.stable(first, 1)
			g := c.gateway("edge")
			c.runs(g, firstImage)
			second, secondImage := c.revision("2")
			c.sign(secondImage)
			test.broken(c)
			c.admit(g, second, 2)
			if name != own {
				c.window(func(r *v1alpha1.RolloutStatus) {
					r.InFlight[0].AdmittedAt = metav1.NewTime(time.Now().Add(-24 * time.Hour))
				})
			}
			if message := c.pending(g, v1alpha1.ReasonCannotVerify); !strings.Contains(message, second.Name()) || !strings.Contains(message, test.why) {
				t.Errorf("message %q does not say %q", message, test.why)
			}
			eventually.Holds(t, aWhile, func() error {
				now := c.see(g)
				if now.Status.Revision.Attempt != 1 || now.Status.Image != firstImage || !meta.IsStatusConditionTrue(now.Status.Conditions, v1alpha1.ConditionReady) {
					return fmt.Errorf("status %+v", now.Status)
				}
				return c.planKeeps(second, g)
			})
			c.loses(g)
			test.healed(c)
			c.runs(g, secondImage)
			if now := c.see(g); meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionReconciling) != nil {
				t.Errorf("it still waits: %+v", now.Status.Conditions)
			}
		})
	}
}

// A tenant whose Executor cannot decide, and who does not mend that, holds nobody up: its gateways are left out and named
// when progressDeadline has passed, of the next target at once, and go through the window when it can.
func TestATenantThatCannotDecideHoldsNobodyUp(t *testing.T) {
	const deadline = 3 * time.Second
	c := judgedWorld(t, patiently)
	c.release = edit(c.world, c.release, func(r *v1alpha1.GatewayRelease) {
		r.Spec.Rollout.ProgressDeadline = &metav1.Duration{Duration: deadline}
	})
	first, firstImage := c.revision("1")
	g := c.gateway("edge")
	others := []*v1alpha1.GatewayInstance{c.gateway("other-1", c.neighbourly), c.gateway("other-2", c.neighbourly)}
	c.completes(first)
	c.runs(g, firstImage)
	e := c.demand(func(e *v1alpha1.NamespacedExecutor) {
		e.Spec.Verifiers[0].Cosign.Keys[0].Material = v1alpha1.Material{SecretRef: &v1alpha1.KeyReference{Name: "review-key", Key: "cosign.pub"}}
	})

	leftOut := func(of revision.Revision, image string) *v1alpha1.GatewayInstance {
		t.Helper()
		c.completes(of, "2 of 3 gateways run "+of.Name(), "1 may not take it: "+c.tenant+"/edge: 1/1 ready", "(CannotVerify)")
		for _, other := range others {
			c.runs(other, image)
		}
		eventually.Succeeds(t, patience, func() error {
			message := c.stalls(g, v1alpha1.ReasonCannotVerify)
			for _, part := range []string{
				"revision " + of.Name() + " is not given", image, "NamespacedExecutor " + c.tenant + "/own: cannot decide",
				"verifier reviewers: key k1: Secret " + c.tenant + "/review-key not found; create it", "progressDeadline", "What runs keeps running",
			} {
				if !strings.Contains(message, part) {
					return fmt.Errorf("message %q does not say %q", message, part)
				}
			}
			return nil
		})
		now := c.see(g)
		if now.Status.Image != firstImage || now.Status.Revision.Name != first.Name() || now.Status.Phase != v1alpha1.GatewayRunning {
			t.Errorf("status %+v", now.Status)
		}
		return now
	}
	second, secondImage := c.revision("2")
	c.sign(secondImage)
	began := time.Now().Truncate(time.Second)
	before := leftOut(second, secondImage)
	if at := meta.FindStatusCondition(before.Status.Conditions, v1alpha1.ConditionStalled).LastTransitionTime; at.Sub(began) <= deadline {
		t.Errorf("it gave up its slot after %s", at.Sub(began))
	}
	third, thirdImage := c.revision("3")
	c.sign(thirdImage)
	if now := leftOut(third, thirdImage); now.Status.Revision.Attempt != before.Status.Revision.Attempt {
		t.Errorf("it was in the window again: attempt %d after %d", now.Status.Revision.Attempt, before.Status.Revision.Attempt)
	}
	since := c.mark()
	c.stop()
	c.start()
	eventually.Holds(t, aWhile, func() error {
		for _, w := range c.writes(since) {
			if w.Resource == "gatewayinstances" {
				return fmt.Errorf("a restart sent %s", w)
			}
		}
		return nil
	})
	fresh := c.gateway("fresh") // which takes the stable revision without the window
	c.stalls(fresh, v1alpha1.ReasonCannotVerify)

	c.make(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "review-key", Namespace: c.tenant},
		StringData: map[string]string{"cosign.pub": string(c.key.PublicPEM())},
	})
	edit(c.world, e, func(e *v1alpha1.NamespacedExecutor) {
		e.Annotations = map[string]string{v1alpha1.AnnotationReconcileRequestedAt: time.Now().Format(time.RFC3339)}
	})
	c.completes(third, "4 of 4 gateways run "+third.Name())
	for _, moved := range []*v1alpha1.GatewayInstance{g, fresh} {
		if now := c.runs(moved, thirdImage); meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionStalled) != nil {
			t.Errorf("conditions %+v", now.Status.Conditions)
		}
	}
}

// insist has the release require a signature, and makes the cluster's Executor, which trusts a key alone.
func (c *court) insist(key *cosign.Key) {
	c.Helper()
	e := &v1alpha1.Executor{
		ObjectMeta: metav1.ObjectMeta{Name: c.tenant},
		Spec: v1alpha1.ExecutorSpec{
			VerificationSpec: v1alpha1.VerificationSpec{
				Scopes: []v1alpha1.Scope{v1alpha1.Scope(c.hub.Host + "/gateways/*")},
				Verifiers: []v1alpha1.Verifier{{Name: "builders", Cosign: &v1alpha1.CosignVerifier{
					TransparencyLog: v1alpha1.Ignored,
					Keys:            []v1alpha1.CosignKey{{Name: "k1", PEMSource: v1alpha1.PEMSource{Material: v1alpha1.Material{Inline: string(key.PublicPEM())}}}},
				}}},
			},
			Stores: []v1alpha1.Store{{Name: "registry", Registry: &v1alpha1.RegistryStore{RegistryAccess: v1alpha1.RegistryAccess{PlainHTTP: true}}}},
		},
	}
	c.make(e)
	c.Cleanup(func() { _ = c.Delete(context.WithoutCancel(c.Context()), e) })
	eventually.Succeeds(c, patience, func() error {
		if c.live.Served(client.ObjectKeyFromObject(e)) == nil {
			return fmt.Errorf("%s is not served yet", e.Name)
		}
		return nil
	})
	edit(c.world, c.release, func(r *v1alpha1.GatewayRelease) { r.Spec.Verification = v1alpha1.VerificationRequired })
}

func inline(e *v1alpha1.NamespacedExecutor, pem string) {
	e.Spec.Verifiers[0].Cosign.Keys[0].Inline = pem
}

// planKeeps plans, and checks that a gateway still has its slot.
func (c *court) planKeeps(accepted revision.Revision, g *v1alpha1.GatewayInstance) error {
	if err := c.plan(accepted); err != nil {
		return err
	}
	release := &v1alpha1.GatewayRelease{}
	if err := c.Get(c.Context(), client.ObjectKeyFromObject(c.release), release); err != nil {
		return err
	}
	if window := release.Status.Rollout.InFlight; len(window) != 1 || window[0].UID != g.UID {
		return fmt.Errorf("the window is %+v", window)
	}
	return nil
}

// What runs is not judged: neither a stricter Executor nor a restart touches it, or a gateway that was refused.
func TestATenantsExecutorStopsNothingThatRuns(t *testing.T) {
	c := judgedWorld(t, patiently)
	first, firstImage := c.revision("1")
	g := c.gateway("edge")
	other := c.gateway("other", c.neighbourly)
	c.completes(first)
	c.runs(g, firstImage)
	quiet := func(since string, mark func()) {
		t.Helper()
		before := c.mark()
		mark()
		eventually.Holds(t, aWhile, func() error {
			for _, w := range c.writes(before) {
				if w.Resource != "namespacedexecutors" && w.Resource != "controllerrevisions" { // what Executors need
					return fmt.Errorf("%s: sent %s", since, w)
				}
			}
			return nil
		})
	}
	quiet("a stricter Executor", func() { c.demand() })
	c.loses(g)
	c.becomes(g, v1alpha1.ReasonReplicasAvailable)
	restart := func() { c.stop(); c.start() }
	quiet("a restart", restart)

	second, secondImage := c.revision("2")
	c.completes(second, "1 may not take it: "+c.tenant+"/edge")
	c.runs(other, secondImage)
	c.stalls(g, v1alpha1.ReasonVerificationFailed)
	quiet("a restart after a refusal", restart)
	c.hub.Down()
	quiet("a restart after a refusal, without the registry", restart)
	c.hub.Up(t)

	// Another target is another question.
	third, thirdImage := c.revision("3")
	c.sign(thirdImage)
	c.completes(third, "2 of 2 gateways run "+third.Name())
	c.runs(g, thirdImage)
}

// Every image of the pods counts, not the release's alone.
func TestATenantsExecutorJudgesEveryImage(t *testing.T) {
	c := judgedWorld(t)
	beside := c.hub.Host + "/gateways/proxy@" + c.hub.PushImage(t, "gateways/proxy", "1").String()
	c.profile = edit(c.world, c.profile, func(p *v1alpha1.GatewayProfile) {
		p.Spec.Template.Raw = []byte(`{"spec":{"containers":[{"name":"gateway","volumeMounts":[{"name":"tmp","mountPath":"/tmp"}]},{"name":"proxy","image":"` + beside + `"}],"volumes":[{"name":"tmp","emptyDir":{}}]}}`)
	})
	first, firstImage := c.revision("1")
	c.sign(firstImage)
	c.demand()
	c.stable(first, 1)
	g := c.gateway("edge")
	if message := c.stalls(g, v1alpha1.ReasonVerificationFailed); !strings.Contains(message, "container proxy: "+beside) || strings.Contains(message, firstImage) {
		t.Error(message)
	}
}

// A replica that has not seen the first Executor of a namespace yet takes nothing there by that.
func TestTheFirstExecutorOfATenantIsNotMissed(t *testing.T) {
	w := made(t)
	w.release = edit(w, w.release, func(r *v1alpha1.GatewayRelease) { r.Spec.Verification = v1alpha1.VerificationIfConfigured })
	w.start() // without what would tell it of Executors
	w.stable(w.accept(imageOf(1)), 1)
	e := &v1alpha1.NamespacedExecutor{
		ObjectMeta: metav1.ObjectMeta{Name: "own", Namespace: w.tenant},
		Spec: v1alpha1.NamespacedExecutorSpec{VerificationSpec: v1alpha1.VerificationSpec{
			Scopes: []v1alpha1.Scope{"registry.example.com/*"},
			Verifiers: []v1alpha1.Verifier{{Name: "reviewers", Cosign: &v1alpha1.CosignVerifier{
				TransparencyLog: v1alpha1.Ignored,
				Keys: []v1alpha1.CosignKey{{Name: "k1", PEMSource: v1alpha1.PEMSource{Material: v1alpha1.Material{
					SecretRef: &v1alpha1.KeyReference{Name: "review-key", Key: "cosign.pub"},
				}}}},
			}}},
		}},
	}
	w.make(e)
	t.Cleanup(func() { _ = w.Delete(context.WithoutCancel(t.Context()), e) })
	g := w.gateway("edge")
	w.becomes(g, v1alpha1.ReasonVerifying)
	if message := meta.FindStatusCondition(w.see(g).Status.Conditions, v1alpha1.ConditionReady).Message; !strings.Contains(message, "NamespacedExecutor "+w.tenant+"/own is not compiled yet") {
		t.Error(message)
	}
	// For however long that goes on, it holds nobody up: what a tenant edits again and again is never seen either.
	edit(w, w.release, func(r *v1alpha1.GatewayRelease) {
		r.Spec.Rollout.MinReadySeconds, r.Spec.Rollout.ProgressDeadline = ptr.To[int32](0), &metav1.Duration{Duration: time.Second}
	})
	w.stalls(g, v1alpha1.ReasonCannotVerify)
	w.delete(e)
	w.runs(g, imageOf(1))
}

// A person has demanded signatures, and the cache does not tell it. Neither a gateway that was admitted takes what nobody
// vouches for by that, nor a new one.
func TestWhatAReleaseDemandsIsNotMissed(t *testing.T) {
	for _, before := range []v1alpha1.Verification{v1alpha1.VerificationDisabled, v1alpha1.VerificationIfConfigured} {
		t.Run(string(before), func(t *testing.T) {
			w := made(t)
			var behind atomic.Bool
			w.hooks.Get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
				err := c.Get(ctx, key, object, options...)
				if release, ok := object.(*v1alpha1.GatewayRelease); ok && behind.Load() {
					release.Spec.Verification, release.Generation = before, 0 // as of before the edit
				}
				return err
			}
			w.start()
			g := w.running()
			behind.Store(true)
			w.release = edit(w, w.release, func(r *v1alpha1.GatewayRelease) { r.Spec.Verification = v1alpha1.VerificationRequired })
			second := w.accept(imageOf(2))
			w.admit(g, second, 2)
			fresh := w.gateway("fresh")
			w.becomes(fresh, v1alpha1.ReasonVerifying)
			if message := meta.FindStatusCondition(w.see(fresh).Status.Conditions, v1alpha1.ConditionReady).Message; !strings.Contains(message, "release "+w.release.Name+" has been edited") {
				t.Error(message)
			}
			eventually.Holds(t, aWhile, func() error {
				if now := w.see(g); now.Status.Image != imageOf(1) || now.Status.Revision.Attempt != 1 {
					return fmt.Errorf("the one that was admitted took it: %+v", now.Status)
				}
				return nil
			})
			// When it demands none any more, and that is seen, they go on.
			edit(w, w.release, func(r *v1alpha1.GatewayRelease) { r.Spec.Verification = before })
			behind.Store(false)
			w.runs(g, imageOf(2))
			w.runs(fresh, imageOf(1))
		})
	}
}

// A gateway whose namespace demands nothing asks no registry.
func TestWithoutATenantsExecutorNobodyIsAsked(t *testing.T) {
	c := judgedWorld(t)
	first, firstImage := c.revision("1")
	c.demand()
	c.hub.Forget()
	c.stable(first, 1)
	other := c.gateway("other", c.neighbourly)
	c.runs(other, firstImage)
	if asked := c.hub.Requests(); len(asked) > 0 {
		t.Errorf("the registry was asked: %v", asked)
	}
}
