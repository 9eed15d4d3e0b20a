package rollout

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

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

func TestBudget(t *testing.T) {
	for _, c := range []struct {
		maxUnavailable intstr.IntOrString
		fleet, want    int
	}{
		{intstr.FromInt32(3), 100, 3},
		{intstr.FromInt32(3), 2, 2},
		{intstr.FromString("10%"), 100, 10},
		{intstr.FromString("10%"), 19, 1},
		{intstr.FromString("10%"), 4, 1},
		{intstr.FromString("100%"), 7, 7},
		{intstr.FromString("100%"), 600, 500},
		{intstr.FromInt32(900), 600, 500},
		{intstr.FromString("nonsense"), 100, 1},
	} {
		t.Run(fmt.Sprintf("%s of %d", c.maxUnavailable.String(), c.fleet), func(t *testing.T) {
			s := completed(t, c.fleet)
			s.in.Spec.MaxUnavailable = &c.maxUnavailable
			s.in.Accepted = "v2"
			s.plan()
			s.isWindow(c.want)
		})
	}
}

func TestGivenASpecWithoutNumbersThenTheDefaultsHold(t *testing.T) {
	got := settingsFor(v1alpha1.RolloutSpec{}, 50)
	want := settings{budget: 5, maxFailures: 1, minReady: 30 * time.Second, deadline: 10 * time.Minute}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

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

func TestPaused(t *testing.T) {
	t.Run("nothing is admitted and what is under way goes on", func(t *testing.T) {
		s := completed(t, 5)
		s.in.Accepted = "v2"
		s.plan()
		s.in.Spec.Paused = true
		s.plan()
		s.isState(v1alpha1.RolloutPaused, "paused: 0 of 2 admitted gateways converged, 3 not admitted")
		s.converge()
		s.isState(v1alpha1.RolloutPaused, "paused: 2 of 2 admitted gateways converged, 3 not admitted")
		s.wakesAfter(-1)
		s.in.Spec.Paused = false
		s.plan()
		s.isWindow(2)
	})
	t.Run("an edit starts when the pause ends", func(t *testing.T) {
		s := completed(t, 5)
		s.in.Spec.Paused = true
		s.plan()
		s.isState(v1alpha1.RolloutComplete, "5 of 5 gateways run v1; paused")
		s.in.Accepted = "v2"
		s.plan()
		s.isState(v1alpha1.RolloutPaused, "paused: v2 waits to be rolled out")
		if s.in.Status.Target != "v1" || s.in.Status.Attempt != 1 {
			t.Errorf("got %s", encode(s.in.Status))
		}
		s.in.Spec.Paused = false
		s.plan()
		s.isState(v1alpha1.RolloutProgressing)
		s.isWindow(2)
	})
	t.Run("an edit does not move the window", func(t *testing.T) {
		s := completed(t, 5)
		s.in.Accepted = "v2"
		s.plan()
		s.in.Spec.Paused, s.in.Accepted = true, "v3"
		s.plan()
		if s.in.Status.Target != "v2" || s.in.Status.InFlight[0].Attempt != 2 {
			t.Errorf("got %s", encode(s.in.Status))
		}
	})
	t.Run("the last of the window completes it", func(t *testing.T) {
		s := completed(t, 2)
		s.in.Accepted = "v2"
		s.plan()
		s.in.Spec.Paused = true
		s.converge()
		s.isState(v1alpha1.RolloutComplete)
	})
	t.Run("a gateway that joins waits", func(t *testing.T) {
		s := completed(t, 2)
		s.in.Spec.Paused = true
		s.in.Fleet = append(s.in.Fleet, gateway("joiner", runsOf("other", "o1", 9), ready))
		s.plan()
		s.isState(v1alpha1.RolloutPaused, "1 not admitted")
		s.isWindow(0)
	})
	t.Run("a failure is still a failure", func(t *testing.T) {
		s := completed(t, 5)
		s.in.Accepted = "v2"
		s.plan()
		s.take()
		s.in.Spec.Paused = true
		s.later(2 * time.Minute)
		s.plan()
		s.isState(v1alpha1.RolloutFailed)
	})
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

func TestOrder(t *testing.T) {
	s := given(t, "v3",
		gateway("was-unready", runs("v1", 1)),
		gateway("healthy-1", runs("v1", 1), ready),
		gateway("healthy-2", runs("v1", 1), ready),
		gateway("broken", runs("v2", 2), wasReady),
	)
	s.in.Status = &v1alpha1.RolloutStatus{Attempt: 2, Target: "v2", Stable: "v1", StableAttempt: 1}
	s.in.Spec.MaxUnavailable = ptr(intstr.FromInt32(1))
	var order [][]string
	for range 3 {
		s.plan()
		order = append(order, s.window())
		s.take()
		s.comeUp(s.window()...)
		s.later(time.Minute / 2)
	}
	s.plan()
	s.isState(v1alpha1.RolloutComplete)
	// The last healthy one uses the budget; the one that was unready uses none, and goes when nobody healthy is left.
	want := [][]string{{"broken"}, {"healthy-2"}, {"healthy-1", "was-unready"}}
	if !slices.EqualFunc(order, want, slices.Equal) {
		t.Errorf("order %v, want %v", order, want)
	}
}

func TestTheOrderOfAFleetIsItsReleasesOwn(t *testing.T) {
	// Recorded: another version must not choose other gateways in mid-rollout.
	for release, want := range map[types.UID][]string{
		"release-uid": {"edge-4", "edge-1", "edge-0", "edge-3", "edge-2"},
		"another-uid": {"edge-1", "edge-4", "edge-2", "edge-0", "edge-3"},
	} {
		s := completed(t, 5)
		s.in.UID = release
		s.in.Spec.MaxUnavailable = ptr(intstr.FromInt32(1))
		s.in.Accepted = "v2"
		var got []string
		for range 5 {
			s.plan()
			got = append(got, s.window()...)
			s.take()
			s.comeUp(s.window()...)
			s.later(time.Minute / 2)
		}
		if !slices.Equal(got, want) {
			t.Errorf("of %s: %v, want %v", release, got, want)
		}
	}
}

func TestAlreadyUnready(t *testing.T) {
	t.Run("uses no budget, goes last and is no failure", func(t *testing.T) {
		s := completed(t, 6)
		s.goDown("edge-0", "edge-1", "edge-2", "edge-3")
		s.in.Accepted = "v2"
		s.plan()
		s.isWindow(6) // two healthy ones use the budget of two; then nobody healthy is left
		s.take()
		s.comeUp("edge-4", "edge-5")
		s.later(2 * time.Minute)
		s.plan()
		s.isState(v1alpha1.RolloutComplete)
		if f := s.in.Status.Fleet; f.Failed != 0 || f.AlreadyUnready != 4 || f.Updated != 6 {
			t.Errorf("got %+v", f)
		}
	})
	t.Run("is counted wherever it stands", func(t *testing.T) {
		s := completed(t, 6)
		s.goDown("edge-0")
		s.plan()
		if n := s.in.Status.Fleet.AlreadyUnready; n != 1 {
			t.Errorf("completed: %d", n)
		}
		s.in.Accepted = "v2"
		s.plan()
		if n := s.in.Status.Fleet.AlreadyUnready; n != 1 {
			t.Errorf("waiting: %d", n)
		}
		for range 3 {
			s.take()
			s.comeUp(slices.DeleteFunc(s.window(), func(name string) bool { return name == "edge-0" })...)
			s.later(20 * time.Second)
			s.plan()
		}
		if s.entry("edge-0").WasReady || s.in.Status.Fleet.AlreadyUnready != 1 {
			t.Errorf("in the window: %s", encode(s.in.Status))
		}
	})
	t.Run("one that an earlier attempt healed has something to lose", func(t *testing.T) {
		s := given(t, "v3", gateway("healed", runs("v2", 2), ready))
		s.in.Status = &v1alpha1.RolloutStatus{Attempt: 2, Target: "v2", Stable: "v1", StableAttempt: 1}
		s.plan()
		if !s.entry("healed").WasReady {
			t.Errorf("got %+v", s.entry("healed"))
		}
	})
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

func TestAGatewayFromAnotherRelease(t *testing.T) {
	joiner := func(traits ...func(*Member)) Member {
		return gateway("joiner", append([]func(*Member){runsOf("other", "o1", 99), ready}, traits...)...)
	}
	t.Run("reopens a completed rollout as a new attempt", func(t *testing.T) {
		s := completed(t, 3)
		s.goDown("edge-0", "edge-1", "edge-2")
		s.in.Fleet = append(s.in.Fleet, joiner())
		s.plan()
		s.isState(v1alpha1.RolloutProgressing)
		s.isWindow(1)
		if s.in.Status.Attempt != 2 || s.entry("joiner").Attempt != 2 || !s.entry("joiner").WasReady {
			t.Errorf("got %s", encode(s.in.Status))
		}
		s.converge()
		s.isState(v1alpha1.RolloutComplete, "4 of 4")
		if s.in.Status.StableAttempt != 2 {
			t.Errorf("got %s", encode(s.in.Status))
		}
	})
	t.Run("is a failure if it does not come back", func(t *testing.T) {
		s := completed(t, 3)
		s.in.Spec.MaxFailures = ptr(intstr.FromInt32(0))
		s.in.Fleet = append(s.in.Fleet, joiner())
		s.plan()
		s.take()
		s.later(2 * time.Minute)
		s.plan()
		s.isState(v1alpha1.RolloutFailed, "tenant-a/joiner")
	})
	t.Run("uses the budget", func(t *testing.T) {
		s := completed(t, 3)
		s.in.Accepted = "v2"
		s.plan()
		s.in.Fleet = append(s.in.Fleet, joiner())
		s.plan()
		s.isWindow(2)
	})
}

func TestANewGateway(t *testing.T) {
	t.Run("leaves a completed rollout complete", func(t *testing.T) {
		s := completed(t, 3)
		s.in.Fleet = append(s.in.Fleet, gateway("new"))
		s.plan()
		s.isState(v1alpha1.RolloutComplete, "3 of 4 gateways run v1")
		s.isWindow(0)
	})
	t.Run("waits for the window on the stable revision", func(t *testing.T) {
		s := completed(t, 3)
		s.in.Accepted = "v2"
		s.plan()
		s.in.Fleet = append(s.in.Fleet, gateway("new"))
		s.converge()
		s.isState(v1alpha1.RolloutProgressing, "waiting for the first report of tenant-a/new: nothing recorded yet")
		runs("v1", 1)(s.member("new"))
		s.plan()
		s.isWindow(1)
		if entry := s.entry("new"); entry.Install {
			t.Errorf("got %+v", entry)
		}
	})
	t.Run("is not known to run nothing before it says so", func(t *testing.T) {
		s := given(t, "v1", gateway("new", unobserved))
		s.plan()
		s.isState(v1alpha1.RolloutProgressing, "waiting for the first report of tenant-a/new")
		s.isWindow(0)
		s.member("new").Observed = true
		s.plan()
		s.isWindow(1)
	})
}

func TestAGatewayThatIsGoneLeavesTheWindow(t *testing.T) {
	for name, goes := range map[string]func(s *scene, name string){
		"deleted": func(s *scene, name string) {
			s.in.Fleet = slices.DeleteFunc(s.in.Fleet, func(m Member) bool { return m.Name == name })
		},
		"being deleted": func(s *scene, name string) { s.member(name).Leaving = true },
	} {
		t.Run(name, func(t *testing.T) {
			s := completed(t, 4)
			s.in.Accepted = "v2"
			s.plan()
			gone := s.window()[0]
			goes(s, gone)
			s.plan()
			s.isWindow(2)
			if slices.Contains(s.window(), gone) || s.in.Status.Fleet.Total != 3 {
				t.Errorf("got %s", encode(s.in.Status))
			}
		})
	}
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

func TestAGatewayThatComesBackFromAnotherReleaseIsNoFirstInstall(t *testing.T) {
	s := given(t, "v1", gateway("edge-0"))
	s.plan()
	m := s.member("edge-0")
	runsOf("other", "o1", 4)(m)
	ready(m)
	m.Generation = 3
	s.plan()
	if entry := s.entry("edge-0"); entry.Install || !entry.WasReady || entry.Generation != 3 {
		t.Errorf("got %+v", entry)
	}
}

func TestGivenAnEmptyStatus(t *testing.T) {
	t.Run("when every gateway runs the accepted revision then it completes without moving any", func(t *testing.T) {
		s := given(t, "v5", gateway("edge-0", runs("v5", 11), ready), gateway("edge-1", runs("v5", 12)))
		s.plan()
		s.isState(v1alpha1.RolloutComplete)
		s.isWindow(0)
		if s.in.Status.Attempt != 13 || s.in.Status.Stable != "v5" {
			t.Errorf("got %s", encode(s.in.Status))
		}
		s.isStill()
	})
	t.Run("when they run another then they use the budget, above every recorded attempt", func(t *testing.T) {
		s := given(t, "v6",
			gateway("edge-0", runs("v5", 11), ready), gateway("edge-1", runs("v5", 12), ready), gateway("edge-2", runs("v4", 3), ready))
		s.plan()
		s.isWindow(2)
		if s.in.Status.Attempt != 13 || s.in.Status.StableAttempt != 12 || s.in.Status.Stable != "" {
			t.Errorf("got %s", encode(s.in.Status))
		}
	})
	t.Run("when records appear that are newer then a new attempt outruns them", func(t *testing.T) {
		s := given(t, "v6", gateway("edge-0", unobserved), gateway("edge-1", unobserved))
		s.plan()
		runs("v5", 11)(s.member("edge-0"))
		ready(s.member("edge-0"))
		s.plan()
		if s.in.Status.Attempt != 12 || s.in.Status.StableAttempt != 11 || s.entry("edge-0").Attempt != 12 {
			t.Errorf("got %s", encode(s.in.Status))
		}
	})
	t.Run("when the same attempt had another target then a new attempt outruns it", func(t *testing.T) {
		s := completed(t, 2)
		runs("lost", 1)(s.member("edge-1"))
		s.plan()
		if s.in.Status.Attempt != 2 || s.entry("edge-1").Attempt != 2 {
			t.Errorf("got %s", encode(s.in.Status))
		}
	})
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

func TestTimesAreThoseTheAPIStores(t *testing.T) {
	s := completed(t, 1)
	s.in.Now = s.in.Now.Add(700 * time.Millisecond)
	s.in.Accepted = "v2"
	s.plan()
	if at := s.entry("edge-0").AdmittedAt; at != (metav1.Time{Time: at.Truncate(time.Second)}) || at.After(s.in.Now) {
		t.Errorf("admitted at %v, now %v", at, s.in.Now)
	}
}

func TestTheWindowIsBoundedWhateverTheBudget(t *testing.T) {
	var fleet []Member
	for i := range 1200 {
		fleet = append(fleet, gateway(fmt.Sprintf("new-%d", i)))
	}
	s := given(t, "v1", fleet...)
	s.plan()
	s.isWindow(500)
	if !slices.IsSortedFunc(s.window(), func(a, b string) int {
		if a < b {
			return -1
		}
		return 1
	}) {
		t.Error("the window is not in the order of names")
	}
	s.converge()
	s.isState(v1alpha1.RolloutComplete)
}
