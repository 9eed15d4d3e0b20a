package rollout

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

func TestAGatewayConvergesWhenItHasCertainlyBeenReadyLongEnough(t *testing.T) {
	s := completed(t, 1)
	s.in.Accepted = "v2"
	s.plan()
	s.take()
	s.later(5*time.Second + 900*time.Millisecond)
	s.comeUp("edge-0") // stored as 10:00:05
	s.plan()
	s.isState(v1alpha1.RolloutProgressing, "0 of 1 admitted gateways converged; waiting for tenant-a/edge-0: Ready since 2026-05-01T10:00:05Z")
	s.wakesAfter(10*time.Second + 100*time.Millisecond) // 10:00:16, when ten seconds have passed for certain
	s.later(10 * time.Second)
	s.isStill()
	s.later(100 * time.Millisecond)
	s.plan()
	s.isState(v1alpha1.RolloutComplete)
}

func TestGivenNoMinReadySecondsThenReadyIsConverged(t *testing.T) {
	s := completed(t, 1)
	s.in.Spec.MinReadySeconds = ptr(int32(0))
	s.in.Accepted = "v2"
	s.plan()
	s.take()
	s.comeUp("edge-0")
	s.plan()
	s.isState(v1alpha1.RolloutComplete)
}

func TestAGatewayConvergesOnlyOnItsCurrentGeneration(t *testing.T) {
	s := completed(t, 1)
	s.in.Accepted = "v2"
	s.plan()
	s.take()
	s.comeUp("edge-0")
	s.later(30 * time.Second)
	s.member("edge-0").Observed = false
	s.plan()
	s.isWindow(1)
	s.member("edge-0").Observed = true
	s.plan()
	s.isState(v1alpha1.RolloutComplete)
}

func TestAGatewayThatIsNotHeardOfHoldsItsSlot(t *testing.T) {
	s := completed(t, 3)
	s.in.Spec.MaxUnavailable = ptr(intstr.FromInt32(1))
	s.in.Accepted = "v2"
	s.plan()
	silent := s.window()
	s.later(24 * time.Hour)
	s.isStill()
	s.wakesAfter(-1)
	s.isState(v1alpha1.RolloutProgressing, "waiting for tenant-a/"+silent[0]+": not heard of since it was admitted at 2026-05-01T10:00:00Z")
}

func TestAnEntryIsVoidForAGatewayThatWasEditedBeforeItReported(t *testing.T) {
	s := completed(t, 1)
	s.in.Accepted = "v2"
	s.plan()
	s.member("edge-0").Generation = 7
	s.take()
	if s.member("edge-0").Record.Name != "v1" {
		t.Fatal("a gateway of a later generation took what an earlier one was given")
	}
	s.goDown("edge-0")
	s.plan()
	if entry := s.entry("edge-0"); entry.Generation != 7 || entry.WasReady {
		t.Errorf("it was not admitted again as what it is: %+v", entry)
	}
	s.take()
	s.member("edge-0").Generation = 8
	s.plan()
	if s.entry("edge-0").Generation != 7 {
		t.Errorf("an edit after the report was written: %+v", s.entry("edge-0"))
	}
}

func TestAReportOfAnotherRevisionIsNoConvergence(t *testing.T) {
	s := completed(t, 1)
	s.in.Accepted = "v2"
	s.plan()
	s.in.Spec.Paused = true // or it would be outrun at once
	runs("lost", 9)(s.member("edge-0"))
	s.later(30 * time.Second)
	s.plan()
	s.isWindow(1)
}
