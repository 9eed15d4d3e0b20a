package rollout

import (
	"testing"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

func TestDecide(t *testing.T) {
	record := func(release, name string, attempt int64) *v1alpha1.RecordedRevision {
		return &v1alpha1.RecordedRevision{Release: release, Name: name, Attempt: attempt, Image: "image"}
	}
	marks := func(release, name string, attempt int64) *Marks {
		return &Marks{Release: release, Revision: name, Attempt: attempt, Image: "image"}
	}
	// Attempt 5 moves from v1, which attempt 3 completed, to v2; "me" is in the window.
	moving := &v1alpha1.RolloutStatus{
		Attempt: 5, Target: "v2", Stable: "v1", StableAttempt: 3,
		InFlight: []v1alpha1.InFlightGateway{
			{UID: "another", Attempt: 5, Generation: 1},
			{UID: "me", Attempt: 5, Generation: 4, WasReady: true},
		},
	}
	first := &v1alpha1.RolloutStatus{
		Attempt: 1, Target: "v1",
		InFlight: []v1alpha1.InFlightGateway{{UID: "me", Attempt: 1, Generation: 4, Install: true}},
	}
	target := v1alpha1.RecordedRevision{Release: "stable", Name: "v2", Attempt: 5, WasReady: true}
	free := v1alpha1.RecordedRevision{Release: "stable", Name: "v2", Attempt: 5} // "another" uses no budget
	stable := v1alpha1.RecordedRevision{Release: "stable", Name: "v1", Attempt: 3}

	for _, c := range []struct {
		name    string
		rollout *v1alpha1.RolloutStatus
		own     Gateway
		want    Decision
	}{
		{"in the window with an older attempt: takes the target",
			moving, Gateway{UID: "me", Generation: 4, Record: record("stable", "v1", 3)}, Decision{Action: Take, Record: target}},
		{"in the window with that attempt: keeps",
			moving, Gateway{UID: "me", Generation: 4, Record: record("stable", "v2", 5)}, Decision{Action: Keep, Record: *record("stable", "v2", 5)}},
		{"in the window of an old status with a later attempt: keeps",
			moving, Gateway{UID: "me", Generation: 4, Record: record("stable", "v3", 6)}, Decision{Action: Keep, Record: *record("stable", "v3", 6)}},
		{"in the window on the target already: takes the attempt",
			moving, Gateway{UID: "me", Generation: 4, Record: record("stable", "v2", 4)}, Decision{Action: Take, Record: target}},
		{"in the window as one with nothing to lose: takes the target",
			moving, Gateway{UID: "another", Generation: 1, Record: record("stable", "v1", 3)}, Decision{Action: Take, Record: free}},
		{"in the window as one with nothing to lose, and serves: keeps, and says so",
			moving, Gateway{UID: "another", Generation: 1, Record: record("stable", "v1", 3), Serves: true},
			Decision{Action: Keep, Record: *record("stable", "v1", 3), Declined: true}},
		{"in the window as one with nothing to lose, serves, and is on the target already: takes the attempt, which moves nothing",
			moving, Gateway{UID: "another", Generation: 1, Record: record("stable", "v2", 4), Serves: true}, Decision{Action: Take, Record: free}},
		{"in the window as one with something to lose, and serves: takes the target",
			moving, Gateway{UID: "me", Generation: 4, Record: record("stable", "v1", 3), Serves: true}, Decision{Action: Take, Record: target}},
		{"in the window as one with nothing to lose, and serves what another release gave: waits, and says so",
			moving, Gateway{UID: "another", Generation: 1, Running: marks("canary", "c1", 9), Serves: true},
			Decision{Action: Wait, Reason: v1alpha1.ReasonNotAdopted, Declined: true}},
		{"in the window, edited since it was admitted: keeps",
			moving, Gateway{UID: "me", Generation: 5, Record: record("stable", "v1", 3)}, Decision{Action: Keep, Record: *record("stable", "v1", 3)}},
		{"in the window, read before the edit that the window has seen: takes, and the write decides",
			moving, Gateway{UID: "me", Generation: 3, Record: record("stable", "v1", 3)}, Decision{Action: Take, Record: target}},
		{"not in the window: keeps",
			moving, Gateway{UID: "other", Generation: 1, Record: record("stable", "v1", 3)}, Decision{Action: Keep, Record: *record("stable", "v1", 3)}},
		{"in the window from another release with a higher attempt: takes",
			moving, Gateway{UID: "me", Generation: 4, Record: record("canary", "c1", 9)}, Decision{Action: Take, Record: target}},
		{"not in the window from another release: keeps what it runs",
			moving, Gateway{UID: "other", Generation: 1, Record: record("canary", "c1", 9)}, Decision{Action: Keep, Record: *record("canary", "c1", 9)}},
		{"new with a stable revision: takes it",
			moving, Gateway{UID: "new", Generation: 1}, Decision{Action: Take, Record: stable}},
		{"new without a stable revision: waits for the window",
			first, Gateway{UID: "new", Generation: 1}, Decision{Action: Wait, Reason: v1alpha1.ReasonWaitingForWindow}},
		{"new without a stable revision, in the window: takes the target",
			first, Gateway{UID: "me", Generation: 4}, Decision{Action: Take, Record: v1alpha1.RecordedRevision{Release: "stable", Name: "v1", Attempt: 1, Install: true}}},
		{"new without a release: waits for it",
			nil, Gateway{UID: "new", Generation: 1}, Decision{Action: Wait, Reason: v1alpha1.ReasonWaitingForRelease}},
		{"new with a release that has accepted nothing: waits for it",
			&v1alpha1.RolloutStatus{}, Gateway{UID: "new", Generation: 1}, Decision{Action: Wait, Reason: v1alpha1.ReasonWaitingForRelease}},
		{"with a record and without a release: keeps",
			nil, Gateway{UID: "me", Generation: 1, Record: record("stable", "v1", 3)}, Decision{Action: Keep, Record: *record("stable", "v1", 3)}},
		{"with a record, whatever runs: keeps what is recorded",
			moving, Gateway{UID: "other", Generation: 1, Record: record("stable", "v1", 3), Running: marks("stable", "v0", 2)}, Decision{Action: Keep, Record: *record("stable", "v1", 3)}},
		{"without a record, running: adopts what runs before it takes anything",
			moving, Gateway{UID: "me", Generation: 4, Running: marks("stable", "v1", 3)}, Decision{Action: Adopt, Record: *record("stable", "v1", 3)}},
		{"without a record and a release, running: adopts",
			nil, Gateway{UID: "me", Generation: 4, Running: marks("stable", "v1", 3)}, Decision{Action: Adopt, Record: *record("stable", "v1", 3)}},
		{"without a record, running what another release gave: does not believe it, and waits for the window",
			moving, Gateway{UID: "other", Generation: 4, Running: marks("canary", "c1", 9)}, Decision{Action: Wait, Reason: v1alpha1.ReasonNotAdopted}},
		{"without a record, running what another release gave, admitted: takes the target",
			moving, Gateway{UID: "me", Generation: 4, Running: marks("canary", "c1", 9)}, Decision{Action: Take, Record: target}},
		{"without a record and with marks of an attempt that was never made: claims none",
			moving, Gateway{UID: "me", Generation: 4, Running: marks("stable", "v1", 1<<40)}, Decision{Action: Adopt, Record: v1alpha1.RecordedRevision{Release: "stable", Name: "v1", Attempt: 4, Image: "image", WasReady: true}}},
		{"without a record, running what an unfinished attempt gave: adopts, and is not excused",
			moving, Gateway{UID: "me", Generation: 4, Running: marks("stable", "v2", 5)},
			Decision{Action: Adopt, Record: v1alpha1.RecordedRevision{Release: "stable", Name: "v2", Attempt: 5, Image: "image", WasReady: true}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Decide("stable", c.rollout, c.own); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestMarksOf(t *testing.T) {
	whole := map[string]string{
		v1alpha1.AnnotationRevision:        "v1",
		v1alpha1.AnnotationRevisionRelease: "stable",
		v1alpha1.AnnotationAttempt:         "3",
		v1alpha1.AnnotationImage:           "registry.example.com/gateway@sha256:00",
	}
	want := Marks{Release: "stable", Revision: "v1", Attempt: 3, Image: "registry.example.com/gateway@sha256:00"}
	if got := MarksOf(whole); got == nil || *got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := MarksOf(nil); got != nil {
		t.Errorf("of nothing: %+v", got)
	}
	for key := range whole {
		for _, value := range []string{"", "-3", "9223372036854775807"} {
			if value != "" && key != v1alpha1.AnnotationAttempt {
				continue
			}
			torn := map[string]string{}
			for k, v := range whole {
				torn[k] = v
			}
			torn[key] = value
			if got := MarksOf(torn); got != nil {
				t.Errorf("with %s=%q: %+v", key, value, got)
			}
		}
	}
}
