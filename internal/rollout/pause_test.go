package rollout

import (
	"testing"
	"time"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

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
