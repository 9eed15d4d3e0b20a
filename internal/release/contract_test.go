package release_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
)

// quiet waits until the controller has nothing to do: no pass for a while.
func (c *controller) quiet() float64 {
	c.b.Helper()
	var last float64
	since := time.Now()
	eventually.Succeeds(c.b.T, within, func() error {
		now, _ := c.value("gatehouse_reconcile_total")
		if now != last {
			last, since = now, time.Now()
		}
		if last == 0 || time.Since(since) < 700*time.Millisecond {
			return fmt.Errorf("%v passes, the last %s ago", last, time.Since(since))
		}
		return nil
	})
	return last
}

func TestC3AConvergedReleaseIsNotWritten(t *testing.T) {
	b := newBench(t)
	b.hub.PushImage(t, "team/gateway", "1.0")
	r := b.release(b.hub.Reference("team/gateway", "1.0"), b.profile().Name, interval(time.Second))
	invalid := b.release("no tag", "none")
	b.gateway(r)
	c := b.start()
	b.reaches(r, condition(r, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRolloutComplete))
	b.reaches(invalid, condition(invalid, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonInvalidImage))
	seen, _ := c.value("gatehouse_reconcile_total")
	mark := b.mark()

	// Time passes, and the tag is resolved again and again.
	eventually.Succeeds(t, within, func() error { return passes(c, seen+3) })
	// Somebody labels the release and asks for a pass.
	edit(b, r, func(r *v1alpha1.GatewayRelease) {
		r.Labels = map[string]string{"touched": "yes"}
		r.Annotations = map[string]string{v1alpha1.AnnotationReconcileRequestedAt: "now"}
	})
	eventually.Succeeds(t, within, func() error { return passes(c, seen+5) })
	// The controller starts anew.
	c.stop()
	c = b.start()
	eventually.Succeeds(t, within, func() error { return passes(c, 5) })

	if writes := b.writes(mark); len(writes) > 0 {
		t.Errorf("it wrote:\n%s", strings.Join(writes, "\n"))
	}
}

func TestC5AStalePassPublishesNothing(t *testing.T) {
	b := newBench(t)
	first, second := b.hub.PushImage(t, "team/gateway", "1.0"), b.hub.PushImage(t, "team/gateway", "1.1")
	r := b.release(b.hub.Reference("team/gateway", "1.0"), b.profile().Name)
	var edited atomic.Bool
	b.start(func(next client.Client) client.Client {
		return interceptor.NewClient(next.(client.WithWatch), interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
				release, ok := object.(*v1alpha1.GatewayRelease)
				if ok && release.Status.Image != "" && edited.CompareAndSwap(false, true) {
					// The spec changes between the read and the write of the pass that has its verdict.
					edit(b, release.DeepCopy(), func(r *v1alpha1.GatewayRelease) { r.Spec.Image = b.hub.Reference("team/gateway", "1.1") })
				}
				return c.SubResource(sub).Patch(ctx, object, patch, options...)
			},
		})
	})
	mark := b.mark()
	seen := map[string]bool{}
	b.reaches(r, func() error {
		seen[r.Status.Image] = true
		return complete(r, b.hub.Host+"/team/gateway@"+second.String())()
	})
	if seen[b.hub.Host+"/team/gateway@"+first.String()] {
		t.Error("a verdict on a spec that had been replaced was published")
	}
	if writes := b.writes(mark); !slices.ContainsFunc(writes, func(w string) bool {
		return strings.Contains(w, "gatewayreleases.gatehouse.dev/status") && strings.HasSuffix(w, ": 409")
	}) {
		t.Errorf("no status write met a conflict:\n%s", strings.Join(writes, "\n"))
	}
}

func TestC8ItsOwnWritesDoNotWakeIt(t *testing.T) {
	b := newBench(t)
	b.hub.PushImage(t, "team/gateway", "1.0")
	r := b.release(b.hub.Reference("team/gateway", "1.0"), b.profile().Name, interval(0))
	c := b.start()
	b.reaches(r, condition(r, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRolloutComplete))
	gateway := b.gateway(r)
	b.reaches(r, func() error {
		if r.Status.Rollout.Fleet.Updated != 1 {
			return fmt.Errorf("fleet %+v", r.Status.Rollout.Fleet)
		}
		return condition(r, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRolloutComplete)()
	})
	before := c.quiet()
	if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(r), r); err != nil {
		t.Fatal(err)
	}

	// A write of its status is no reason for a pass, and a gateway that says nothing new is none either.
	r.Status.Summary = "Available "
	if err := b.client.Status().Update(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(gateway), gateway); err != nil {
		t.Fatal(err)
	}
	gateway.Status.Phase = v1alpha1.GatewayDegraded
	if err := b.client.Status().Update(t.Context(), gateway); err != nil {
		t.Fatal(err)
	}
	if after := c.quiet(); after != before {
		t.Errorf("%v passes for writes of status", after-before)
	}
}

func TestC9AGatewayThatMovesWakesBothReleases(t *testing.T) {
	b := newBench(t)
	b.hub.PushImage(t, "team/gateway", "1.0")
	p := b.profile().Name
	from, to := b.release(b.hub.Reference("team/gateway", "1.0"), p), b.release(b.hub.Reference("team/gateway", "1.0"), p)
	gateway := b.gateway(from)
	c := b.start()
	total := func(r *v1alpha1.GatewayRelease, want int32) func() error {
		return func() error {
			if r.Status.Rollout == nil || r.Status.Rollout.Fleet.Total != want {
				return fmt.Errorf("rollout %+v, want a fleet of %d", r.Status.Rollout, want)
			}
			return nil
		}
	}
	b.reaches(from, total(from, 1))
	b.reaches(to, total(to, 0))
	b.reaches(from, condition(from, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRolloutComplete))
	c.quiet()
	edit(b, gateway, func(g *v1alpha1.GatewayInstance) { g.Spec.ReleaseRef.Name = to.Name })
	b.reaches(from, total(from, 0))
	b.reaches(to, total(to, 1))
}

func TestC10ARestartInTheMiddleChangesNothing(t *testing.T) {
	b := newBench(t)
	first, second := b.hub.PushImage(t, "team/gateway", "1.0"), b.hub.PushImage(t, "team/gateway", "1.1")
	r := b.release(b.hub.Reference("team/gateway", "1.0"), b.profile().Name, func(r *v1alpha1.GatewayRelease) {
		r.Spec.Rollout.MinReadySeconds = ptr.To[int32](2)
	})
	for range 2 {
		b.gateway(r)
	}
	c := b.start()
	b.reaches(r, complete(r, b.hub.Host+"/team/gateway@"+first.String()))

	// One gateway is admitted and has taken the new revision; what is awaited is time alone.
	edit(b, r, func(r *v1alpha1.GatewayRelease) { r.Spec.Image = b.hub.Reference("team/gateway", "1.1") })
	b.reaches(r, func() error {
		if r.Status.Rollout.Target != r.Status.Revision || r.Status.Rollout.Fleet.Updated != 1 || len(r.Status.Rollout.InFlight) != 1 {
			return fmt.Errorf("rollout %+v", r.Status.Rollout)
		}
		return nil
	})
	admitted, attempt := r.Status.Rollout.InFlight[0], r.Status.Rollout.Attempt
	c.stop()
	b.start()
	other := false
	b.reaches(r, func() error {
		for _, entry := range r.Status.Rollout.InFlight {
			if entry.UID == admitted.UID && entry.AdmittedAt != admitted.AdmittedAt {
				return fmt.Errorf("admitted again at %s, the first time at %s", entry.AdmittedAt, admitted.AdmittedAt)
			}
			other = other || entry.UID != admitted.UID
		}
		return complete(r, b.hub.Host+"/team/gateway@"+second.String())()
	})
	if r.Status.Rollout.Attempt != attempt || !other {
		t.Errorf("attempt %d after %d, the second gateway admitted: %t", r.Status.Rollout.Attempt, attempt, other)
	}
}

func TestC12WhatIsTerminalIsNotRetried(t *testing.T) {
	b := newBench(t)
	r := b.release("registry.example.com/team/gateway", "none")
	c := b.start()
	b.reaches(r, condition(r, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonInvalidImage))
	var terminal float64
	eventually.Succeeds(t, within, func() error { // a pass is counted after its status is there to be read
		if terminal, _ = c.value("gatehouse_reconcile_total", "controller", "release", "outcome", "terminal"); terminal == 0 {
			return errors.New("no pass has ended yet")
		}
		return nil
	})
	c.quiet()
	if again, _ := c.value("gatehouse_reconcile_total", "controller", "release", "outcome", "terminal"); again != terminal {
		t.Errorf("%v passes more", again-terminal)
	}
}

func TestC13AFailedWriteIsRetried(t *testing.T) {
	b := newBench(t)
	digest := b.hub.PushImage(t, "team/gateway", "1.0")
	r := b.release(b.hub.Reference("team/gateway", "1.0"), b.profile().Name)
	var refusals atomic.Int32
	b.start(func(next client.Client) client.Client {
		return interceptor.NewClient(next.(client.WithWatch), interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
				if _, ok := object.(*appsv1.ControllerRevision); ok && refusals.Add(1) <= 3 {
					return apierrors.NewServiceUnavailable("injected")
				}
				return c.Create(ctx, object, options...)
			},
		})
	})
	b.reaches(r, complete(r, b.hub.Host+"/team/gateway@"+digest.String()))
	if refusals.Load() != 4 {
		t.Errorf("%d attempts to store the revision, want 3 that fail and one that does not", refusals.Load())
	}
}
