package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
)

// before calls hook once, before the manager applies an object of a kind.
func before(kind string, hook func()) interceptor.Funcs {
	var done atomic.Bool
	return interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			if o, ok := object.(interface{ GetKind() string }); ok && o.GetKind() == kind && done.CompareAndSwap(false, true) {
				hook()
			}
			return c.Apply(ctx, object, options...)
		},
	}
}

// A leader that was paused goes on for seconds beside the new one: what it read is old, and it must not write.
func TestAnApplyOfWhatWasReadEarlierIsRefused(t *testing.T) {
	w := given(t)
	g := w.running()
	w.stop()
	w.hooks = before("Deployment", func() {
		edit(w, w.deployment(g), func(d *appsv1.Deployment) { d.Annotations["somebody"] = "was here" })
	})
	since := w.mark()
	w.start()
	w.admit(g, w.accept(imageOf(2)), 2)
	w.runs(g, imageOf(2))
	var got []int
	for _, e := range w.writes(since) {
		if e.Resource == "deployments" {
			got = append(got, e.Code)
		}
	}
	if len(got) < 2 || got[0] != 409 || got[len(got)-1] != 200 {
		t.Errorf("the Deployment was applied with %v, want a conflict first and then success", got)
	}
	if w.deployment(g).Annotations["somebody"] != "was here" {
		t.Error("what somebody else wrote meanwhile is lost")
	}
}

// The spec is edited after the pass has read it: what the pass records is refused, and nothing is applied.
func TestARecordOfASpecThatWasReadEarlierIsRefused(t *testing.T) {
	w := given(t)
	g := w.running()
	w.stop()
	var done atomic.Bool
	w.hooks = interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			if object.GetName() == g.Name && done.CompareAndSwap(false, true) {
				edit(w, g, func(g *v1alpha1.GatewayInstance) { g.Spec.Config["gateway.toml"] = "b" })
			}
			return c.SubResource(name).Patch(ctx, object, patch, options...)
		},
	}
	since := w.mark()
	w.start()
	w.admit(g, w.accept(imageOf(2)), 2)
	eventually.Succeeds(t, patience, func() error {
		if sent := w.writes(since); len(sent) == 0 || sent[0].Code != 409 || sent[0].Resource != "gatewayinstances" {
			return fmt.Errorf("sent %v, want a conflict first", sent)
		}
		return nil
	})
	// The edit is applied on what the gateway has, because the window has admitted it as it was before.
	now := w.becomes(g, v1alpha1.ReasonReplicasAvailable)
	if now.Status.Revision.Attempt != 1 || w.deployment(g).Spec.Template.Spec.Containers[0].Image != imageOf(1) {
		t.Errorf("it took what was decided for an earlier spec: %+v", now.Status.Revision)
	}
	w.admit(g, w.accept(imageOf(2)), 2)
	w.runs(g, imageOf(2))
}

// A leader that was paused may see a gateway of long ago beside objects of now: it must not take those back.
func TestWhatAnOldViewOfTheGatewayWantsIsNotApplied(t *testing.T) {
	w := given(t)
	g := w.running()
	w.setReady(g, corev1.ConditionFalse)
	old := w.becomes(g, v1alpha1.ReasonReplicasUnavailable)
	edit(w, g, func(g *v1alpha1.GatewayInstance) { g.Spec.Config["gateway.toml"] = "b" })
	w.becomes(g, v1alpha1.ReasonReplicasAvailable)
	w.stop()

	var looks atomic.Int64
	w.hooks = interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if into, ok := object.(*v1alpha1.GatewayInstance); ok && looks.Add(1) <= 5 {
				old.DeepCopyInto(into)
				return nil
			}
			return c.Get(ctx, key, object, options...)
		},
	}
	since := w.mark()
	w.start()
	eventually.Succeeds(t, patience, func() error {
		if n := looks.Load(); n <= 5 {
			return fmt.Errorf("%d passes, the first 5 over the old view", n)
		}
		return nil
	})
	w.becomes(g, v1alpha1.ReasonReplicasAvailable)
	for _, e := range w.writes(since) {
		t.Errorf("sent %s", e)
	}
}

// Somebody makes an object of the name between the look and the apply: it is not taken over.
func TestAnObjectThatAppearsMeanwhileIsNotTakenOver(t *testing.T) {
	w := given(t)
	w.stop()
	w.hooks = before("ConfigMap", func() {
		w.make(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "edge", Namespace: w.tenant}, Data: map[string]string{"gateway.toml": "theirs"}})
	})
	w.start()
	w.stable(w.accept(imageOf(1)), 1)
	g := w.gateway("edge")
	w.stalls(g, v1alpha1.ReasonForeignObject)
	now := &corev1.ConfigMap{}
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(g), now); err != nil {
		t.Fatal(err)
	}
	if now.Data["gateway.toml"] != "theirs" || len(now.OwnerReferences) > 0 {
		t.Errorf("it was taken over: %+v", now)
	}
}

// A leader stands still when it creates something of a gateway. Another one creates it, and goes on with the gateway: what
// the first has sent arrives then, and takes nothing back.
func TestACreateThatArrivesLateIsRefused(t *testing.T) {
	for kind, resource := range map[string]string{"Deployment": "deployments", "ConfigMap": "configmaps"} {
		t.Run(kind, func(t *testing.T) {
			w := made(t)
			stands, goesOn := make(chan struct{}), make(chan struct{})
			w.hooks = before(kind, func() {
				close(stands)
				<-goesOn
			})
			w.start()
			resume := sync.OnceFunc(func() { close(goesOn) })
			t.Cleanup(resume)
			w.stable(w.accept(imageOf(1)), 1)
			g := w.gateway("edge")
			select {
			case <-stands:
			case <-time.After(patience):
				t.Fatalf("no %s was created", kind)
			}

			heir := *w
			heir.hooks, heir.agent = interceptor.Funcs{}, "heir-of-"+w.agent
			heir.start()
			heir.runs(g, imageOf(1))
			edit(&heir, g, func(g *v1alpha1.GatewayInstance) { g.Spec.Config["gateway.toml"] = "b" })
			heir.becomes(g, v1alpha1.ReasonReplicasAvailable)
			heir.admit(g, heir.accept(imageOf(2)), 2)
			heir.runs(g, imageOf(2))
			as := func() string {
				config := &corev1.ConfigMap{}
				if err := w.Get(t.Context(), client.ObjectKeyFromObject(g), config); err != nil {
					t.Fatal(err)
				}
				return fmt.Sprintf("Deployment of generation %d, ConfigMap of version %s", w.deployment(g).Generation, config.ResourceVersion)
			}
			left := as()
			since := w.mark()
			resume()

			eventually.Succeeds(t, patience, func() error {
				for _, e := range w.writes(since) {
					if e.Resource == resource && e.Code == 409 {
						return nil
					}
				}
				return fmt.Errorf("sent %v, want a conflict over the %s", w.writes(since), kind)
			})
			w.becomes(g, v1alpha1.ReasonReplicasAvailable)
			if now := as(); now != left {
				t.Errorf("what was %s is %s", left, now)
			}
		})
	}
}

// A leader stands still when it deletes what a gateway does not ask for any more. The gateway asks for it again, and another
// leader has made it anew or set it back since: what the first has sent arrives then, and takes nothing away.
func TestADeleteThatArrivesLateIsRefused(t *testing.T) {
	for name, meanwhile := range map[string]func(*world, *policyv1.PodDisruptionBudget){
		"made anew": func(w *world, budget *policyv1.PodDisruptionBudget) { w.delete(budget) },
		"set back":  func(w *world, budget *policyv1.PodDisruptionBudget) { edit(w, client.Object(budget), tamper) },
	} {
		t.Run(name, func(t *testing.T) {
			w := given(t)
			g := w.running(two)
			budget := &policyv1.PodDisruptionBudget{}
			if err := w.Get(t.Context(), client.ObjectKeyFromObject(g), budget); err != nil {
				t.Fatal(err)
			}
			w.stop()
			stands, goesOn := make(chan struct{}), make(chan struct{})
			var once sync.Once
			w.hooks = interceptor.Funcs{
				Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
					once.Do(func() {
						close(stands)
						<-goesOn
					})
					return c.Delete(ctx, object, options...)
				},
			}
			since := w.mark()
			w.start()
			resume := sync.OnceFunc(func() { close(goesOn) })
			t.Cleanup(resume)
			scale(w, g, 1)
			select {
			case <-stands:
			case <-time.After(patience):
				t.Fatal("nothing was deleted")
			}
			scale(w, g, 2)

			heir := *w
			heir.hooks, heir.agent = interceptor.Funcs{}, "heir-of-"+w.agent
			heir.start()
			heir.becomes(g, v1alpha1.ReasonReplicasAvailable)
			meanwhile(&heir, budget)
			now := &policyv1.PodDisruptionBudget{}
			eventually.Succeeds(t, patience, func() error {
				if err := w.Get(t.Context(), client.ObjectKeyFromObject(g), now); err != nil {
					return err
				}
				if now.ResourceVersion == budget.ResourceVersion || now.Spec.MaxUnavailable.String() != budget.Spec.MaxUnavailable.String() {
					return fmt.Errorf("the heir has not been at it yet: %+v", now)
				}
				return nil
			})
			resume()
			eventually.Succeeds(t, patience, func() error {
				for _, e := range w.writes(since) {
					if e.Verb != "delete" {
						continue
					}
					if e.Code != 409 {
						t.Fatalf("a late delete was answered %d", e.Code)
					}
					return nil
				}
				return errors.New("the delete has not arrived")
			})
		})
	}
}

// Gatehouse is killed at any of its writes, before or after it: another one reaches the same end, and rolls once.
func TestStoppedAtAnyWrite(t *testing.T) {
	stopped := errors.New("stopped")
	for write := range 3 {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("write %d, after it %v", write+1, after), func(t *testing.T) {
				w := given(t)
				g := w.running()
				w.stop()
				var writes atomic.Int64
				dying := func(send func() error) error {
					n := int(writes.Add(1)) - 1
					if n < write {
						return send()
					}
					if n == write && after {
						_ = send()
					}
					return stopped
				}
				w.hooks = interceptor.Funcs{
					Apply: func(ctx context.Context, c client.WithWatch, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
						return dying(func() error { return c.Apply(ctx, object, options...) })
					},
					SubResourcePatch: func(ctx context.Context, c client.Client, name string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
						return dying(func() error { return c.SubResource(name).Patch(ctx, object, patch, options...) })
					},
				}
				w.start()
				w.admit(g, w.accept(imageOf(2)), 2)
				eventually.Succeeds(t, patience, func() error {
					if writes.Load() <= int64(write) {
						return errors.New("it has not come to that write yet")
					}
					return nil
				})
				w.stop()
				w.hooks = interceptor.Funcs{}
				w.start()
				now := w.runs(g, imageOf(2))
				if now.Status.Revision.Attempt != 2 || now.Status.Phase != v1alpha1.GatewayRunning {
					t.Errorf("status %+v", now.Status)
				}
				if d := w.deployment(g); d.Annotations["deployment.kubernetes.io/revision"] != "2" {
					t.Errorf("pods were rolled to revision %s", d.Annotations["deployment.kubernetes.io/revision"])
				}
			})
		}
	}
}

// It was down when the window admitted it, and uses no budget. By the time it would move it serves: it stays, and says that
// it serves; when the window gives it the same as one that uses the budget, it moves.
func TestAGatewayThatServesTakesNothingThatIsForOneThatDoesNot(t *testing.T) {
	w := given(t)
	g := w.running()
	w.setReady(g, corev1.ConditionFalse)
	w.becomes(g, v1alpha1.ReasonReplicasUnavailable)
	w.stop()
	w.setReady(g, corev1.ConditionTrue)
	eventually.Succeeds(t, patience, func() error {
		if status := w.deployment(g).Status; status.AvailableReplicas != 1 {
			return fmt.Errorf("the Deployment is not available: %+v", status)
		}
		return nil
	})
	second := w.accept(imageOf(2))
	w.admit(g, second, 2)
	w.window(func(r *v1alpha1.RolloutStatus) { r.InFlight[0].WasReady = false })
	w.start()
	now := w.becomes(g, v1alpha1.ReasonReplicasAvailable)
	if now.Status.Revision.Attempt != 1 || w.deployment(g).Spec.Template.Spec.Containers[0].Image != imageOf(1) {
		t.Errorf("it took %+v, and served", now.Status.Revision)
	}
	w.admit(g, second, 2)
	w.runs(g, imageOf(2))
}

// A cache that is behind has not met a release that is there, or holds a profile as it was when it allowed less: nobody is
// told of it.
func TestWhatACacheIsMissingIsNotBlamedOnPeople(t *testing.T) {
	for name, lie := range map[string]func(object client.Object) error{
		"the release": func(object client.Object) error {
			if _, ok := object.(*v1alpha1.GatewayRelease); ok {
				return apierrors.NewNotFound(schema.GroupResource{Resource: "gatewayreleases"}, "r")
			}
			return nil
		},
		"the profile": func(object client.Object) error {
			if _, ok := object.(*v1alpha1.GatewayProfile); ok {
				return apierrors.NewNotFound(schema.GroupResource{Resource: "gatewayprofiles"}, "p")
			}
			return nil
		},
		"the allowance": func(object client.Object) error {
			if profile, ok := object.(*v1alpha1.GatewayProfile); ok {
				profile.Spec.AllowedNamespaces = &v1alpha1.AllowedNamespaces{Names: []string{"another"}}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := given(t)
			g := w.running()
			w.stop()
			var looks atomic.Int64
			w.hooks = interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
					if _, pass := object.(*v1alpha1.GatewayInstance); pass {
						looks.Add(1)
						return c.Get(ctx, key, object, options...)
					}
					if profile, ok := object.(*v1alpha1.GatewayProfile); ok { // not the one in the cache
						seen := &v1alpha1.GatewayProfile{}
						if err := c.Get(ctx, key, seen); err != nil {
							return err
						}
						seen.DeepCopyInto(profile)
					} else if err := c.Get(ctx, key, object, options...); err != nil {
						return err
					}
					return lie(object)
				},
			}
			since := w.mark()
			w.start()
			seen := int64(0)
			for range 3 {
				eventually.Succeeds(t, patience, func() error {
					if n := looks.Load(); n <= seen {
						return fmt.Errorf("%d passes, want more than %d", n, seen)
					}
					return nil
				})
				seen = looks.Load()
				edit(w, g, func(g *v1alpha1.GatewayInstance) {
					g.Annotations = map[string]string{v1alpha1.AnnotationReconcileRequestedAt: fmt.Sprint(seen)}
				})
			}
			w.becomes(g, v1alpha1.ReasonReplicasAvailable)
			for _, e := range w.writes(since) {
				t.Errorf("sent %s", e)
			}
		})
	}
}
