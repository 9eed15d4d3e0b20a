package rollout

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

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

// One that comes up between its admission and its move has something to lose by then: it does not move beside a full
// budget, but stands in line with the others.
func TestAGatewayThatComesUpBeforeItMovesUsesTheBudget(t *testing.T) {
	// edge-2 was not Ready when it was admitted, as the last; then it came up, and another joined that uses the budget.
	risen := func(t *testing.T) *scene {
		s := completed(t, 3)
		s.in.Spec.MaxUnavailable = ptr(intstr.FromInt32(2))
		s.goDown("edge-2")
		s.in.Accepted = "v2"
		s.plan()
		s.isWindow(3)
		if entry := s.entry("edge-2"); entry.WasReady {
			t.Fatalf("got %+v", entry)
		}
		s.comeUp("edge-2")
		return s
	}
	t.Run("it does not take what it was given", func(t *testing.T) {
		s := risen(t)
		s.take()
		if got := s.member("edge-2").Record.Name; got != "v1" {
			t.Errorf("it runs %s, and two others are down within a budget of 2", got)
		}
	})
	t.Run("it leaves the window while the budget is used up, and waits", func(t *testing.T) {
		s := risen(t)
		s.take("edge-0", "edge-1")
		s.plan()
		if got := s.window(); !slices.Equal(got, []string{"edge-0", "edge-1"}) || s.in.Status.Fleet.AlreadyUnready != 0 {
			t.Errorf("window %v, alreadyUnready %d", got, s.in.Status.Fleet.AlreadyUnready)
		}
		s.isStill()
	})
	t.Run("it is admitted as one of those that use the budget", func(t *testing.T) {
		s := risen(t)
		s.take("edge-0", "edge-1")
		s.comeUp("edge-0", "edge-1")
		s.later(time.Minute / 2)
		s.plan()
		if entry := s.entry("edge-2"); !entry.WasReady {
			t.Errorf("got %+v", entry)
		}
		s.converge()
		s.isState(v1alpha1.RolloutComplete, "3 of 3 gateways run v2")
	})
	t.Run("and as a failure if it does not come back", func(t *testing.T) {
		s := risen(t)
		s.in.Spec.MaxFailures = ptr(intstr.FromInt32(0))
		s.take("edge-0", "edge-1")
		s.comeUp("edge-0", "edge-1")
		s.later(time.Minute / 2)
		s.plan()
		s.take("edge-2")
		s.later(2 * time.Minute)
		s.plan()
		s.isState(v1alpha1.RolloutFailed, "tenant-a/edge-2")
	})
	t.Run("one that goes down again before it hears of that may take it, which costs nobody anything", func(t *testing.T) {
		s := risen(t)
		old := *s.in.Status
		s.take("edge-0", "edge-1")
		s.plan()
		s.goDown("edge-2")
		m := s.member("edge-2")
		decision := Decide("stable", &old, Gateway{UID: m.UID, Generation: m.Generation, Record: m.Record})
		if decision.Action != Take || decision.Record.WasReady {
			t.Fatalf("got %+v", decision)
		}
		m.Record = &decision.Record
		s.comeUp("edge-0", "edge-1")
		s.later(2 * time.Minute)
		s.plan()
		s.isState(v1alpha1.RolloutComplete)
		if s.in.Status.Fleet.Failed != 0 || s.in.Status.Fleet.AlreadyUnready != 1 {
			t.Errorf("got %+v", s.in.Status.Fleet)
		}
	})
}

// First installs use no budget. Those that have come up do when a new target finds them under way.
func TestFirstInstallsThatCameUpUseTheBudgetOfTheNextTarget(t *testing.T) {
	var fleet []Member
	for n := range 6 {
		fleet = append(fleet, gateway(fmt.Sprintf("edge-%d", n)))
	}
	s := given(t, "v1", fleet...)
	s.plan()
	s.isWindow(6)
	s.take()
	s.comeUp(s.window()...)
	s.in.Accepted = "v2"
	s.plan()
	s.isWindow(2)
	s.take()
	moved := 0
	for _, m := range s.in.Fleet {
		if m.Record.Name == "v2" {
			moved++
		}
	}
	if moved != 2 {
		t.Errorf("%d move within a budget of 2", moved)
	}
}
