package rollout

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

func TestGivenNoAcceptedRevisionThenNothingIsPlanned(t *testing.T) {
	s := given(t, "", gateway("edge-0"), gateway("edge-1", runs("v1", 3), ready))
	s.plan()
	s.isState("", "no revision has been accepted yet")
	if s.in.Status.Attempt != 0 || s.in.Status.Fleet.Total != 2 || s.in.Status.Fleet.Ready != 1 {
		t.Errorf("got %s", encode(s.in.Status))
	}
}

func TestGivenNoGatewaysThenTheRevisionIsStableAtOnce(t *testing.T) {
	s := given(t, "v1")
	s.plan()
	s.isState(v1alpha1.RolloutComplete, "no gateway follows this release; a new one gets v1")
	if s.in.Status.Stable != "v1" || s.in.Status.StableAttempt != 1 {
		t.Errorf("got %s", encode(s.in.Status))
	}
	s.isStill()
}

func TestGivenAFirstRevisionWhenAllAreNewThenTheyUseNoBudget(t *testing.T) {
	s := given(t, "v1", gateway("edge-0"), gateway("edge-1"), gateway("edge-2"), gateway("edge-3"))
	s.plan()
	s.isState(v1alpha1.RolloutProgressing)
	s.isWindow(4)
	if entry := s.entry("edge-2"); entry.WasReady || !entry.Install || entry.Attempt != 1 || entry.Generation != 1 {
		t.Errorf("got %+v", entry)
	}
	s.converge()
	s.isState(v1alpha1.RolloutComplete, "4 of 4 gateways run v1")
}

func TestGivenAFirstRevisionWhenItFailsThenItCountsAndNothingIsStable(t *testing.T) {
	s := given(t, "v1", gateway("edge-0"), gateway("edge-1"), gateway("edge-2"))
	s.plan()
	s.take()
	s.later(2 * time.Minute)
	s.plan()
	s.isState(v1alpha1.RolloutFailed, "attempt 1 failed: 3 of 3 gateways did not come back (maxFailures 1)", "tenant-a/edge-0: 0/1 ready")
	if s.in.Status.Stable != "" || s.in.Status.Fleet.Failed != 3 {
		t.Errorf("got %s", encode(s.in.Status))
	}
	// The next revision finds them down, and not excused.
	s.in.Accepted = "v2"
	s.plan()
	s.isWindow(3)
	if entry := s.entry("edge-0"); entry.WasReady || !entry.Install {
		t.Errorf("got %+v", entry)
	}
}

func TestGivenAnEditThenTheBudgetMoves(t *testing.T) {
	s := completed(t, 5)
	s.in.Accepted = "v2"
	s.plan()
	s.isState(v1alpha1.RolloutProgressing, "0 of 2 admitted gateways converged", "not heard of since it was admitted at 2026-05-01T10:00:00Z")
	s.isWindow(2)
	for _, name := range s.window() {
		if entry := s.entry(name); !entry.WasReady || entry.Install || entry.Attempt != 2 || !entry.AdmittedAt.Time.Equal(s.in.Now) {
			t.Errorf("got %+v", entry)
		}
	}
	s.wakesAfter(-1)
	s.converge()
	s.isState(v1alpha1.RolloutComplete, "5 of 5 gateways run v2")
	if s.in.Status.Stable != "v2" || s.in.Status.StableAttempt != 2 || s.in.Status.Fleet.Updated != 5 {
		t.Errorf("got %s", encode(s.in.Status))
	}
}

func TestGivenANewTargetInMidRolloutThenTheWindowStaysWhereItIs(t *testing.T) {
	s := completed(t, 5)
	s.in.Accepted = "v2"
	s.plan()
	before := s.window()
	s.take(before[0])
	s.later(55 * time.Second)
	s.in.Accepted = "v3"
	s.plan()
	if !slices.Equal(s.window(), before) {
		t.Errorf("the window was %v and is %v", before, s.window())
	}
	for _, name := range before {
		if entry := s.entry(name); entry.Attempt != 3 || !entry.WasReady || !entry.AdmittedAt.Time.Equal(s.in.Now) {
			t.Errorf("got %+v", entry)
		}
	}
	// The old report is not taken for one of the new attempt, and the new attempt has its own deadline.
	s.comeUp(before[0])
	s.later(30 * time.Second)
	s.plan()
	s.isWindow(2)
	s.take()
	s.plan()
	s.wakesAfter(31 * time.Second)
	s.converge()
	s.isState(v1alpha1.RolloutComplete, "5 of 5 gateways run v3")
}

func TestGivenAnotherTagOfTheSameDigestThenNothingChanges(t *testing.T) {
	s := completed(t, 5)
	s.isStill() // the revision's name, which is all that is known here, is the same
}

func TestGoingBackToStable(t *testing.T) {
	s := completed(t, 6)
	s.in.Accepted = "v2"
	s.plan()
	moved := s.window()
	s.take()
	s.later(2 * time.Minute)
	s.plan()
	s.isState(v1alpha1.RolloutFailed)
	s.in.Accepted = "v1"
	s.plan()
	slices.Sort(moved)
	if !slices.Equal(s.window(), moved) {
		t.Errorf("the window is %v, want those that were moved: %v", s.window(), moved)
	}
	s.converge()
	s.isState(v1alpha1.RolloutComplete, "6 of 6 gateways run v1")
	untouched := 0
	for _, m := range s.in.Fleet {
		if m.Record.Attempt == 1 {
			untouched++
		}
	}
	if untouched != 4 {
		t.Errorf("%d gateways were left alone, want 4", untouched)
	}
}

func TestGoingBackBeforeAnybodyMoved(t *testing.T) {
	s := completed(t, 3)
	s.in.Accepted = "v2"
	s.plan()
	s.in.Accepted = "v1"
	s.plan()
	s.isWindow(2) // they may have taken v2 already; they have to report
	s.take()
	if !s.member(s.window()[0]).Ready {
		t.Error("a gateway that goes on with what it runs was taken down")
	}
	s.plan()
	s.isState(v1alpha1.RolloutComplete)
}

func TestTimesAreThoseTheAPIStores(t *testing.T) {
	s := completed(t, 1)
	s.in.Now = s.in.Now.Add(700 * time.Millisecond)
	s.in.Accepted = "v2"
	s.plan()
	if at := s.entry("edge-0").AdmittedAt; at != (metav1.Time{Time: at.Truncate(time.Second)}) || at.After(s.in.Now) {
		t.Errorf("admitted at %v, now %v", at, s.in.Now)
	}
}
