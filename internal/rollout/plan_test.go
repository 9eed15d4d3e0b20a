package rollout

import "testing"

func TestAnEmptyFleetCompletesAtOnce(t *testing.T) {
	plan := Next(Input{Release: "stable", Accepted: "stable-1"})
	if plan.Status.State != "Complete" || plan.Status.Stable != "stable-1" {
		t.Errorf("got %+v", plan.Status)
	}
}
