package rollout

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// Action is what a gateway does about its revision.
type Action string

const (
	// Keep what is recorded. It covers the repair of drift: keeping means running it.
	Keep Action = "Keep"
	// Take what the release gives: record it by a conditional write, then apply it.
	Take Action = "Take"
	// Adopt what runs: record it from the live workload's marks, and change nothing that runs.
	Adopt Action = "Adopt"
	// Wait: nothing is recorded, nothing runs, and nothing may be taken yet.
	Wait Action = "Wait"
)

// Gateway is what a gateway knows about itself when it decides. All of it must be of the object version that the write
// of the record is conditional on.
type Gateway struct {
	UID types.UID
	// Generation of the gateway's spec.
	Generation int64
	// Record is its status.revision, nil when it has none.
	Record *v1alpha1.RecordedRevision
	// Running are the marks of its live workload, nil when there is no workload. They matter only without a record.
	Running *Marks
	// Serves says that it is seen now to have something to lose: replicas that are available, in a state of which its
	// status will say, when this pass has ended, that it is Ready or serves (Member).
	Serves bool
}

// Decision is what a gateway does now.
type Decision struct {
	Action Action
	// Record is what status.revision must say: of Keep what it says already, of Take without the image, which the caller
	// reads from the revision of that name, and of Wait nothing.
	Record v1alpha1.RecordedRevision
	// Given is when the window gave what is taken; zero of what no window gives.
	Given time.Time
	// Reason is why a gateway waits: WaitingForRelease, WaitingForWindow, RevisionWithheld, or NotAdopted when something runs whose marks are
	// not of the release that it follows.
	Reason string
	// Declined says that the window gives what the gateway does not take: it was admitted as one that has nothing to lose,
	// and serves. Its status has to say so, for then it stands in line with those that use the budget.
	Declined bool
}

// Decide says what a gateway may take from the release that it follows. It reads the release's status.rollout (nil when
// there is no release, or nothing in its status) and never its spec; any older version of it gives a safe answer.
//
// The caller writes the record, conditional on the version that own was read from, before it applies anything. When the
// name of the revision changes, the same write makes the gateway's Ready condition not True: until what runs has been
// observed again, a Ready of the revision before must not be taken for one of this. When only the attempt changes,
// nothing rolls and Ready stands.
func Decide(release string, rollout *v1alpha1.RolloutStatus, own Gateway) Decision {
	if own.Record == nil && own.Running != nil && own.Running.Release == release {
		return Decision{Action: Adopt, Record: adopted(rollout, own.Running)}
	}
	if rollout == nil || rollout.Target == "" {
		if own.Record != nil {
			return Decision{Action: Keep, Record: *own.Record}
		}
		return wait(own, v1alpha1.ReasonWaitingForRelease)
	}
	entry, declined := admitted(rollout, own), false
	if entry != nil && newer(release, entry.Attempt, own.Record) && !slices.Contains(rollout.Withheld, rollout.Target) {
		declined = own.Serves && !entry.WasReady && rolls(release, rollout, own.Record)
		if !declined {
			return take(release, rollout, entry)
		}
	}
	if own.Record != nil {
		return Decision{Action: Keep, Record: *own.Record, Declined: declined}
	}
	if rollout.Stable != "" && own.Running == nil && !slices.Contains(rollout.Withheld, rollout.Stable) {
		return Decision{Action: Take, Record: v1alpha1.RecordedRevision{
			Release: release,
			Attempt: rollout.StableAttempt,
			Name:    rollout.Stable,
		}}
	}
	reason := v1alpha1.ReasonWaitingForWindow
	if slices.Contains(rollout.Withheld, cmp.Or(rollout.Stable, rollout.Target)) {
		reason = v1alpha1.ReasonWithheld
	}
	decision := wait(own, reason)
	decision.Declined = declined
	return decision
}

func take(release string, rollout *v1alpha1.RolloutStatus, entry *v1alpha1.InFlightGateway) Decision {
	return Decision{Action: Take, Given: entry.AdmittedAt.Time, Record: v1alpha1.RecordedRevision{
		Release:  release,
		Attempt:  entry.Attempt,
		Name:     rollout.Target,
		WasReady: entry.WasReady,
		Install:  entry.Install,
	}}
}

// rolls says whether taking the target alters what runs. One that has recorded the target already takes no more than the
// number of the attempt.
func rolls(release string, rollout *v1alpha1.RolloutStatus, record *v1alpha1.RecordedRevision) bool {
	return record == nil || record.Release != release || record.Name != rollout.Target
}

// wait gives the reason, unless something runs that the gateway may not adopt: then that is what the planner must know.
func wait(own Gateway, reason string) Decision {
	if own.Running != nil {
		reason = v1alpha1.ReasonNotAdopted
	}
	return Decision{Action: Wait, Reason: reason}
}

// admitted finds the gateway's entry in the window. An entry of an earlier generation is none: the gateway may have left
// the release and come back since, and the window may have given its slot to another.
func admitted(rollout *v1alpha1.RolloutStatus, own Gateway) *v1alpha1.InFlightGateway {
	for i := range rollout.InFlight {
		if entry := &rollout.InFlight[i]; entry.UID == own.UID {
			if entry.Generation < own.Generation {
				return nil
			}
			return entry
		}
	}
	return nil
}

func newer(release string, attempt int64, record *v1alpha1.RecordedRevision) bool {
	return record == nil || record.Release != release || record.Attempt < attempt
}

// adopted is the record of what runs. Marks do not say whether the gateway was Ready before an attempt that has not
// completed; it counts as if it was, so that losing a status excuses nobody. Marks stand on an object that a tenant can
// write: they are believed only about the release that the gateway follows, and claim no attempt that the release has
// not made, or that would give another revision than its target.
func adopted(rollout *v1alpha1.RolloutStatus, running *Marks) v1alpha1.RecordedRevision {
	record := v1alpha1.RecordedRevision{
		Release: running.Release,
		Attempt: running.Attempt,
		Name:    running.Revision,
		Image:   running.Image,
	}
	if rollout != nil && rollout.Attempt > 0 {
		made := rollout.Attempt
		if record.Name != rollout.Target {
			made--
		}
		record.Attempt = min(record.Attempt, made)
		record.WasReady = record.Attempt > rollout.StableAttempt
	}
	return record
}

// Marks are what a live workload says about the revision that it was made from.
type Marks struct {
	Release  string
	Revision string
	Attempt  int64
	Image    string
}

// Marks that claim more are forged: no release makes so many attempts, and no record holds names so long.
const (
	maxAttempt = 1 << 40
	maxName    = 253
	maxImage   = 1024
)

// MarksOf reads the marks of a workload from its annotations, or returns nil when it carries none that are whole.
func MarksOf(annotations map[string]string) *Marks {
	attempt, err := strconv.ParseInt(annotations[v1alpha1.AnnotationAttempt], 10, 64)
	marks := Marks{
		Release:  annotations[v1alpha1.AnnotationRevisionRelease],
		Revision: annotations[v1alpha1.AnnotationRevision],
		Attempt:  attempt,
		Image:    annotations[v1alpha1.AnnotationImage],
	}
	if err != nil || attempt < 0 || attempt > maxAttempt || marks.Release == "" || marks.Revision == "" || marks.Image == "" ||
		len(marks.Revision) > maxName || len(marks.Image) > maxImage {
		return nil
	}
	return &marks
}
