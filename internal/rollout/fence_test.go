package rollout

import (
	"testing"
	"time"
)

func TestFleetVersion(t *testing.T) {
	// An edit, seen with the fleet as of version 50 and the release as of version 60.
	edited := func(t *testing.T) *scene {
		s := completed(t, 3)
		s.in.Accepted, s.in.FleetVersion, s.in.Version = "v2", "50", "60"
		s.plan()
		return s
	}
	t.Run("is noted with a decision", func(t *testing.T) {
		if s := edited(t); s.in.Status.FleetVersion != "50" {
			t.Errorf("got %s", encode(s.in.Status))
		}
	})
	t.Run("is no reason to write", func(t *testing.T) {
		s := edited(t)
		s.in.FleetVersion = "70"
		s.isStill()
	})
	t.Run("of an older view decides nothing and looks again soon", func(t *testing.T) {
		s := edited(t)
		s.in.FleetVersion, s.in.Fleet = "9", nil
		s.isStill()
		s.wakesAfter(time.Second)
	})
	t.Run("of an equal view decides", func(t *testing.T) {
		s := edited(t)
		s.in.Fleet = s.in.Fleet[:0]
		s.plan()
		s.isWindow(0)
	})
	t.Run("that the release could not have seen yet was carried from elsewhere", func(t *testing.T) {
		s := edited(t)
		s.in.FleetVersion, s.in.Version, s.in.Fleet = "9", "12", nil
		s.plan()
		s.isWindow(0)
	})
	t.Run("stays noted when a later view has none", func(t *testing.T) {
		s := edited(t)
		s.in.FleetVersion, s.in.Fleet = "", nil
		s.plan()
		if s.in.Status.FleetVersion != "50" {
			t.Errorf("got %s", encode(s.in.Status))
		}
	})
}
