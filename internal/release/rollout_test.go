package release_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
)

func intOrString(n int) intstr.IntOrString { return intstr.FromInt32(int32(n)) }

func TestAnEditReachesTheFleetThroughTheWindow(t *testing.T) {
	b := newBench(t)
	first := b.hub.PushImage(t, "team/gateway", "1.0")
	second := b.hub.PushImage(t, "team/gateway", "1.1")
	r := b.release(b.hub.Reference("team/gateway", "1.0"), b.profile().Name)
	for range 3 {
		b.gateway(r)
	}
	b.start()

	b.reaches(r, complete(r, b.hub.Host+"/team/gateway@"+first.String()))
	if !strings.HasPrefix(r.Status.Revision, r.Name+"-") || r.Status.Rollout.Fleet.Updated != 3 {
		t.Errorf("status %+v", r.Status)
	}
	attempt := r.Status.Rollout.Attempt

	edit(b, r, func(r *v1alpha1.GatewayRelease) { r.Spec.Image = b.hub.Reference("team/gateway", "1.1") })
	most := 0
	b.reaches(r, func() error {
		most = max(most, len(r.Status.Rollout.InFlight))
		return complete(r, b.hub.Host+"/team/gateway@"+second.String())()
	})
	if most > 1 {
		t.Errorf("%d gateways were under way at once, the budget is 1", most)
	}
	if r.Status.Rollout.Attempt <= attempt {
		t.Errorf("attempt %d after %d", r.Status.Rollout.Attempt, attempt)
	}

	stored, err := b.revision(r.Status.Revision)
	if err != nil {
		t.Fatal(err)
	}
	if stored.Tag != "1.1" || stored.Image.String() != r.Status.Image {
		t.Errorf("stored revision: %+v", stored)
	}
	eventually.Succeeds(t, within, func() error {
		events := b.events(r)
		for _, want := range []string{
			"Normal Resolved resolved to " + r.Status.Image,
			fmt.Sprintf("Normal RolloutStarted attempt %d moves 3 gateways to %s", r.Status.Rollout.Attempt, r.Status.Revision),
			"Normal RolloutComplete ",
		} {
			if !slices.ContainsFunc(events, func(e string) bool { return strings.HasPrefix(e, want) }) {
				return fmt.Errorf("no event %q among %q", want, events)
			}
		}
		return nil
	})
}

func TestAnotherTagOfTheSameDigestMovesNothing(t *testing.T) {
	b := newBench(t)
	digest := b.hub.PushImage(t, "team/gateway", "1.0")
	b.hub.MoveTag(t, "team/gateway", "stable", digest)
	r := b.release(b.hub.Reference("team/gateway", "1.0"), b.profile().Name)
	b.gateway(r)
	b.start()
	image := b.hub.Host + "/team/gateway@" + digest.String()
	b.reaches(r, complete(r, image))
	before, mark := r.Status, b.mark()
	edit(b, r, func(r *v1alpha1.GatewayRelease) { r.Spec.Image = b.hub.Reference("team/gateway", "stable") })
	b.reaches(r, complete(r, image))
	if r.Status.Revision != before.Revision || r.Status.Rollout.Attempt != before.Rollout.Attempt {
		t.Errorf("revision %s attempt %d, want still %s %d", r.Status.Revision, r.Status.Rollout.Attempt, before.Revision, before.Rollout.Attempt)
	}
	for _, write := range b.writes(mark) {
		if !strings.Contains(write, "gatewayreleases.gatehouse.dev/status") {
			t.Errorf("it also wrote: %s", write)
		}
	}
}

func TestAPausedReleaseWaitsAndSaysSo(t *testing.T) {
	b := newBench(t)
	b.hub.PushImage(t, "team/gateway", "1.0")
	second := b.hub.PushImage(t, "team/gateway", "1.1")
	r := b.release(b.hub.Reference("team/gateway", "1.0"), b.profile().Name)
	b.gateway(r)
	b.start()
	b.reaches(r, summary(r, "Available"))
	b.reaches(r, condition(r, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRolloutComplete))
	edit(b, r, func(r *v1alpha1.GatewayRelease) {
		r.Spec.Image, r.Spec.Rollout.Paused = b.hub.Reference("team/gateway", "1.1"), true
	})
	b.reaches(r, all(
		summary(r, "Available"),
		condition(r, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonRolloutPaused),
		condition(r, v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonRolloutPaused),
		absent(r, v1alpha1.ConditionStalled),
	))
	edit(b, r, func(r *v1alpha1.GatewayRelease) { r.Spec.Rollout.Paused = false })
	b.reaches(r, complete(r, b.hub.Host+"/team/gateway@"+second.String()))
}

func TestAFailedRolloutIsStalledAndTheWayBackIsAnEdit(t *testing.T) {
	b := newBench(t)
	good := b.hub.PushImage(t, "team/gateway", "1.0")
	bad := b.hub.PushImage(t, "team/gateway", "1.1")
	b.broken[b.hub.Host+"/team/gateway@"+bad.String()] = true
	r := b.release(b.hub.Reference("team/gateway", "1.0"), b.profile().Name, func(r *v1alpha1.GatewayRelease) {
		r.Spec.Rollout.ProgressDeadline = &metav1.Duration{Duration: time.Second}
		zero := intOrString(0)
		r.Spec.Rollout.MaxFailures = &zero
	})
	for range 3 {
		b.gateway(r)
	}
	b.start()
	b.reaches(r, complete(r, b.hub.Host+"/team/gateway@"+good.String()))
	edit(b, r, func(r *v1alpha1.GatewayRelease) { r.Spec.Image = b.hub.Reference("team/gateway", "1.1") })
	b.reaches(r, all(
		summary(r, "Available"),
		condition(r, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonRolloutFailed),
		condition(r, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonRolloutFailed),
		absent(r, v1alpha1.ConditionReconciling),
	))
	if r.Status.Rollout.Fleet.Failed != 1 || r.Status.Rollout.Fleet.Updated > 1 {
		t.Errorf("fleet %+v: want one failed and two that were never moved", r.Status.Rollout.Fleet)
	}
	edit(b, r, func(r *v1alpha1.GatewayRelease) { r.Spec.Image = b.hub.Reference("team/gateway", "1.0") })
	b.reaches(r, complete(r, b.hub.Host+"/team/gateway@"+good.String()))
}
