package rollout

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

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
	t.Run("is admitted to the target when somebody has deleted the stable revision", func(t *testing.T) {
		s := completed(t, 3)
		s.in.Accepted = "v2"
		s.plan()
		s.in.Fleet = append(s.in.Fleet, gateway("new", func(m *Member) { m.Reason = v1alpha1.ReasonRevisionNotFound }))
		s.converge()
		s.isState(v1alpha1.RolloutComplete, "4 of 4 gateways run v2")
	})
	t.Run("waits for a stable revision that is about to be written anew", func(t *testing.T) {
		s := completed(t, 3)
		s.in.Fleet = append(s.in.Fleet, gateway("new", func(m *Member) { m.Reason = v1alpha1.ReasonRevisionNotFound }))
		s.plan()
		s.isState(v1alpha1.RolloutComplete, "3 of 4 gateways run v1")
		s.isWindow(0)
	})
	t.Run("is admitted with what was stable long ago, though nobody has edited anything", func(t *testing.T) {
		s := completed(t, 3)
		s.in.Fleet = append(s.in.Fleet, gateway("late", runs("v0", 0), ready))
		s.plan()
		s.isState(v1alpha1.RolloutProgressing)
		s.isWindow(1)
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

func TestAFirstInstallThatCameUpHasSomethingToLose(t *testing.T) {
	s := given(t, "v2", gateway("up", runs("v1", 1), install, ready), gateway("down", runs("v1", 1), install))
	s.in.Status = &v1alpha1.RolloutStatus{Attempt: 1, Target: "v1"}
	s.plan()
	if entry := s.entry("up"); !entry.WasReady || entry.Install {
		t.Errorf("got %+v", entry)
	}
	if entry := s.entry("down"); entry.WasReady || !entry.Install {
		t.Errorf("got %+v", entry)
	}
}
