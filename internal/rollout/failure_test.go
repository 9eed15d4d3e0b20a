package rollout

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

func TestAGatewayThatDoesNotConvergeInTimeFreesItsSlotAndCounts(t *testing.T) {
	s := completed(t, 3)
	s.in.Spec.MaxUnavailable = ptr(intstr.FromInt32(1))
	s.in.Accepted = "v2"
	s.plan()
	first := s.window()[0]
	s.take()
	s.plan()
	s.isState(v1alpha1.RolloutProgressing, "waiting for tenant-a/"+first+": 0/1 ready since 2026-05-01T10:00:00Z (ReplicasUnavailable)")
	s.wakesAfter(61 * time.Second)
	s.later(60 * time.Second)
	s.isStill()
	s.later(time.Second)
	s.plan()
	s.isWindow(1)
	if next := s.window()[0]; next == first {
		t.Errorf("%s is still in the window", first)
	}
	s.isState(v1alpha1.RolloutProgressing, "1 did not come back (maxFailures 1): tenant-a/"+first+": 0/1 ready")
	if s.in.Status.Fleet.Failed != 1 {
		t.Errorf("got %s", encode(s.in.Status))
	}
}

func TestMaxFailures(t *testing.T) {
	for _, c := range []struct {
		maxFailures    intstr.IntOrString
		fleet, failing int
		want           v1alpha1.RolloutState
	}{
		{intstr.FromInt32(0), 10, 0, v1alpha1.RolloutComplete},
		{intstr.FromInt32(0), 10, 1, v1alpha1.RolloutFailed},
		{intstr.FromInt32(1), 10, 1, v1alpha1.RolloutComplete},
		{intstr.FromInt32(1), 10, 2, v1alpha1.RolloutFailed},
		{intstr.FromString("20%"), 10, 2, v1alpha1.RolloutComplete},
		{intstr.FromString("20%"), 9, 2, v1alpha1.RolloutFailed},
		{intstr.FromString("0%"), 10, 1, v1alpha1.RolloutFailed},
	} {
		t.Run(fmt.Sprintf("%s with %d of %d", c.maxFailures.String(), c.failing, c.fleet), func(t *testing.T) {
			s := completed(t, c.fleet)
			s.in.Spec.MaxUnavailable = ptr(intstr.FromString("100%"))
			s.in.Spec.MaxFailures = &c.maxFailures
			s.in.Accepted = "v2"
			s.plan()
			s.take()
			s.comeUp(s.window()[c.failing:]...)
			s.later(2 * time.Minute)
			s.plan()
			s.isState(c.want)
			if int(s.in.Status.Fleet.Failed) != c.failing {
				t.Errorf("failed %d, want %d", s.in.Status.Fleet.Failed, c.failing)
			}
			if done := s.in.Status.Stable == "v2"; done != (c.want == v1alpha1.RolloutComplete) {
				t.Errorf("stable %s in state %s", s.in.Status.Stable, c.want)
			}
			s.isStill()
		})
	}
}

func TestGivenMoreFailuresThanMayBeThenNothingIsAdmittedUntilOneRecovers(t *testing.T) {
	s := completed(t, 6)
	s.in.Accepted = "v2"
	s.plan()
	first := s.window()
	s.take()
	s.later(2 * time.Minute)
	s.plan()
	s.isState(v1alpha1.RolloutFailed, "attempt 2 failed: 2 of 6 gateways did not come back (maxFailures 1)")
	s.isWindow(0)

	s.comeUp(first[0])
	s.plan()
	s.isState(v1alpha1.RolloutFailed) // Ready, but not for long enough to be believed
	s.wakesAfter(11 * time.Second)
	s.later(11 * time.Second)
	s.plan()
	s.isState(v1alpha1.RolloutProgressing, "1 did not come back")
	s.isWindow(2)
}

func TestAGatewayThatConvergedAndIsUnreadyAgainCountsWhileTheRolloutRuns(t *testing.T) {
	s := completed(t, 6)
	s.in.Spec.MaxFailures = ptr(intstr.FromInt32(0))
	s.in.Accepted = "v2"
	s.plan()
	first := s.window()
	s.take()
	s.comeUp(first...)
	s.later(20 * time.Second)
	s.plan()
	s.isWindow(2)
	s.goDown(first[0])
	s.plan()
	s.isState(v1alpha1.RolloutFailed, "1 of 6 gateways did not come back (maxFailures 0): tenant-a/"+first[0])
}

func TestAGatewayThatFlapsIsNotBelievedEachTimeItIsReady(t *testing.T) {
	s := completed(t, 6)
	s.in.Spec.MaxFailures = ptr(intstr.FromInt32(0))
	s.in.Spec.MaxUnavailable = ptr(intstr.FromInt32(1))
	s.in.Accepted = "v2"
	s.plan()
	first := s.window()[0]
	s.take()
	for range 30 { // ready for five seconds of ten
		s.goDown(first)
		s.later(5 * time.Second)
		s.plan()
		s.comeUp(first)
		s.later(5 * time.Second)
		s.plan()
		if updated := s.in.Status.Fleet.Updated; updated != 1 {
			t.Fatalf("%d gateways have been moved: %s", updated, encode(s.in.Status))
		}
	}
	s.isState(v1alpha1.RolloutFailed, "tenant-a/"+first+": Ready since")
}

func TestGivenACompletedRolloutWhenGatewaysGoDownThenItStaysComplete(t *testing.T) {
	s := completed(t, 6)
	s.in.Accepted = "v2"
	s.plan()
	s.converge()
	s.goDown("edge-0", "edge-1", "edge-2", "edge-3", "edge-4", "edge-5")
	s.plan()
	s.isState(v1alpha1.RolloutComplete)
	if s.in.Status.Fleet.Ready != 0 || s.in.Status.Attempt != 2 {
		t.Errorf("got %s", encode(s.in.Status))
	}
}

func TestGivenARevisionOnWhichNothingConvergedThenItSaysSoAndIsNotComplete(t *testing.T) {
	s := completed(t, 1) // its one failure may be
	s.in.Accepted = "v2"
	s.plan()
	s.take()
	s.later(2 * time.Minute)
	s.plan()
	s.isState(v1alpha1.RolloutFailed, "attempt 2 failed: nothing has converged: tenant-a/edge-0: 0/1 ready")
	if s.in.Status.Stable != "v1" {
		t.Errorf("stable is %s", s.in.Status.Stable)
	}
	s.comeUp("edge-0")
	s.plan()
	s.wakesAfter(11 * time.Second)
	s.later(11 * time.Second)
	s.plan()
	s.isState(v1alpha1.RolloutComplete)
}

func TestWhoeverIsOnTheTargetMayShowThatItWorks(t *testing.T) {
	s := completed(t, 2)
	s.in.Spec.MaxUnavailable = ptr(intstr.FromInt32(1))
	s.in.Accepted = "v2"
	s.plan()
	moved := s.window()[0]
	s.take()
	s.in.Accepted = "v1"
	s.plan()
	s.take()
	s.later(2 * time.Minute)
	stayed := map[string]string{"edge-0": "edge-1", "edge-1": "edge-0"}[moved]
	s.comeUp(stayed) // it has never left v1, and was unready for a moment
	s.plan()
	s.isState(v1alpha1.RolloutFailed, "nothing has converged")
	s.wakesAfter(11 * time.Second)
	s.later(11 * time.Second)
	s.plan()
	s.isState(v1alpha1.RolloutComplete, "1 did not come back (maxFailures 1): tenant-a/"+moved)
}

func TestABadRevisionAfterABadOneFindsItsVictimsNotExcused(t *testing.T) {
	s := completed(t, 6)
	for _, bad := range []string{"v2", "v3", "v4"} {
		s.in.Accepted = bad
		s.plan()
		s.isWindow(2)
		s.take()
		s.later(2 * time.Minute)
		s.plan()
		s.isState(v1alpha1.RolloutFailed, "2 of 6 gateways did not come back")
		if down := s.in.Status.Fleet.Total - s.in.Status.Fleet.Ready; down != 2 {
			t.Fatalf("%s: %d gateways are down", bad, down)
		}
	}
}
