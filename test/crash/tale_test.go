package crash

import (
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// tale is how far a status has come. No version of it may say less than an earlier one did: that would be a write that
// was taken back by one who did not know of it.
type tale struct {
	generation int64  // observed
	release    string // that the attempts are of
	attempt    int64
	revision   string
	earlier    []string // revisions
}

func attemptOf(window *v1alpha1.RolloutStatus) int64 {
	if window == nil {
		return 0
	}
	return window.Attempt
}

func taleOf(gateway *v1alpha1.GatewayInstance) tale {
	out := tale{generation: gateway.Status.ObservedGeneration}
	if recorded := gateway.Status.Revision; recorded != nil {
		out.release, out.attempt, out.revision = recorded.Release, recorded.Attempt, recorded.Name
	}
	return out
}

// told compares a version of a status with those before it. No story asks for a revision that it has left.
func (w *watcher) told(object client.Object, now tale) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.tales[object.GetUID()]
	if before == nil {
		before = &tale{}
	}
	what := fmt.Sprintf("%T %s", object, client.ObjectKeyFromObject(object))
	if now.generation < before.generation {
		w.broken = append(w.broken, fmt.Sprintf("%s has observed generation %d, then %d", what, before.generation, now.generation))
	}
	if now.release == before.release && now.attempt < before.attempt {
		w.broken = append(w.broken, fmt.Sprintf("%s was at attempt %d, then at %d", what, before.attempt, now.attempt))
	}
	now.earlier = before.earlier
	if now.revision != before.revision {
		if slices.Contains(before.earlier, now.revision) {
			w.broken = append(w.broken, fmt.Sprintf("%s has gone back to revision %q", what, now.revision))
		}
		now.earlier = append(now.earlier, before.revision)
	}
	w.tales[object.GetUID()] = &now
}
