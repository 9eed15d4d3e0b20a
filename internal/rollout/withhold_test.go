package rollout

import (
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// decision is what the named gateway does by the status as it is now.
func (s *scene) decision(name string) Decision {
	s.t.Helper()
	m := s.member(name)
	return Decide("stable", s.in.Status, Gateway{UID: m.UID, Generation: m.Generation, Record: m.Record})
}

func TestAWithheldTarget(t *testing.T) {
	// midway is a rollout of v2 over five gateways: the first of the window has taken it, the second has not.
	midway := func(t *testing.T) (s *scene, took, silent string) {
		s = completed(t, 5)
		s.in.Accepted = "v2"
		s.plan()
		window := s.window()
		s.take(window[0])
		s.in.Withheld = []string{"v2"}
		s.plan()
		return s, window[0], window[1]
	}
	t.Run("is given to nobody further", func(t *testing.T) {
		s, took, silent := midway(t)
		s.isState(v1alpha1.RolloutPaused, "held: v2 is withheld: 0 of 2 admitted gateways converged, 3 not admitted")
		if got := s.decision(silent); got.Action != Keep || got.Record.Name != "v1" {
			t.Errorf("%s was admitted, has not recorded its attempt, and does %+v", silent, got)
		}
		s.comeUp(took)
		s.later(time.Minute / 2)
		s.plan()
		if got := s.window(); !slices.Equal(got, []string{silent}) {
			t.Errorf("the window is %v, want the one that may have taken the target on an older view", got)
		}
	})
	t.Run("is given to a new gateway no more than to others", func(t *testing.T) {
		s, _, _ := midway(t)
		s.in.Fleet = append(s.in.Fleet, gateway("new"))
		s.plan()
		if got := s.decision("new"); got.Action != Take || got.Record.Name != "v1" {
			t.Errorf("a new gateway does %+v, the stable revision is not withheld", got)
		}
	})
	t.Run("goes on when it is given again, with its whole time", func(t *testing.T) {
		s, _, silent := midway(t)
		s.later(time.Hour)
		s.in.Withheld = nil
		s.plan()
		s.take(silent)
		s.plan()
		if got := s.window(); !slices.Contains(got, silent) {
			t.Errorf("the window is %v: %s has just taken the target and has a minute to converge", got, silent)
		}
		s.converge()
	})
	t.Run("is replaced by another target at once", func(t *testing.T) {
		s, _, silent := midway(t)
		s.in.Accepted, s.in.Withheld = "v3", []string{"v2"}
		s.plan()
		if got := s.decision(silent); got.Action != Take || got.Record.Name != "v3" {
			t.Errorf("%s does %+v", silent, got)
		}
		if len(s.in.Status.Withheld) > 0 {
			t.Errorf("withheld %v: neither target nor stable", s.in.Status.Withheld)
		}
	})
	t.Run("leaves a complete rollout complete", func(t *testing.T) {
		s := completed(t, 5)
		s.in.Withheld = []string{"v1"}
		s.in.Fleet = append(s.in.Fleet, gateway("new"))
		s.plan()
		s.isState(v1alpha1.RolloutComplete, "5 of 6 gateways run v1; v1 is withheld from new gateways; 1 wait for it: tenant-a/new: 0/1 ready since 2026-05-01T09:00:00Z (ReplicasUnavailable)")
		if got := s.decision("new"); got.Action != Wait || got.Reason != v1alpha1.ReasonWithheld {
			t.Errorf("a new gateway does %+v", got)
		}
	})
}

func TestAnUndecidedTarget(t *testing.T) {
	t.Run("admits nobody, takes nothing back and says nothing", func(t *testing.T) {
		s := completed(t, 5)
		s.in.Accepted = "v2"
		s.plan()
		before := s.window()
		s.take(before[0])
		s.comeUp(before[0])
		s.later(time.Minute / 2)
		s.in.Undecided = []string{"v1", "v2"}
		s.plan()
		s.isState(v1alpha1.RolloutProgressing)
		if got := s.window(); !slices.Equal(got, before[1:]) {
			t.Errorf("the window is %v, want %v", got, before[1:])
		}
		if got := s.decision(before[1]); got.Action != Take {
			t.Errorf("one that is admitted does %+v", got)
		}
	})
	t.Run("stays withheld", func(t *testing.T) {
		s := completed(t, 5)
		s.in.Accepted, s.in.Withheld = "v2", []string{"v2"}
		s.plan()
		s.in.Undecided, s.in.Withheld = []string{"v2"}, nil
		s.plan()
		if !slices.Equal(s.in.Status.Withheld, []string{"v2"}) {
			t.Errorf("withheld %v", s.in.Status.Withheld)
		}
	})
}

// One that is new while the stable revision is withheld may have taken it on an older view: it is moved as if it had.
func TestNewGatewaysWithoutAStableRevisionUseTheBudget(t *testing.T) {
	s := completed(t, 3)
	s.in.Accepted = "v2"
	s.in.Withheld = []string{"v1"}
	for _, name := range []string{"new-1", "new-2", "new-3", "new-4"} {
		s.in.Fleet = append(s.in.Fleet, gateway(name))
	}
	s.plan()
	s.isWindow(2)
	for range 10 {
		for _, entry := range s.in.Status.InFlight {
			if !entry.WasReady || entry.Install {
				t.Errorf("%s was admitted as one that has nothing to lose", entry.Name)
			}
		}
		s.take()
		s.comeUp(s.window()...)
		s.later(time.Minute / 2)
		s.plan()
	}
	s.isState(v1alpha1.RolloutComplete, "7 of 7 gateways run v2")
}
