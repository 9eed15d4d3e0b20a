package truth

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
)

// goneWithin is within what time of its deletion nothing is said of a pod any more.
const goneWithin = 5 * time.Second

// recreated makes Executors that were Ready again, so that they cannot be built: neither what was served of the old ones
// nor what was reported of them is theirs.
func (w *world) recreated(t *testing.T) {
	again := w.subjects[:4]
	for _, s := range again {
		w.remove(t, s)
		w.create(t, s, false)
	}
	w.right(t)
	for _, s := range again {
		w.edit(t, s, true)
	}
	w.right(t)
	uids := map[types.UID]bool{}
	for _, s := range w.subjects {
		uids[s.identity.UID] = true
	}
	w.onlyReports(t, "Executors that are gone", func(r *v1alpha1.ExecutorPodStatus) bool { return uids[r.Spec.Executor.UID] })
}

// onlyReports waits until there are none but those that should be.
func (w *world) onlyReports(t *testing.T, others string, should func(*v1alpha1.ExecutorPodStatus) bool) {
	t.Helper()
	eventually.Succeeds(t, patience, func() error {
		w.watcher.mu.Lock()
		defer w.watcher.mu.Unlock()
		for _, r := range w.watcher.reports {
			if !should(r) {
				return fmt.Errorf("there are reports of %s: %+v", others, r.Spec)
			}
		}
		return nil
	})
}

// namesake loses a replica with all that it has reported, and makes another pod of its name. It is as long as a name may
// be, as is that of one of the Executors.
func (w *world) namesake(t *testing.T) {
	name := longName("namesake")
	w.replicas.Add(t, name)
	w.replicas.Ready(t, int(w.size.replicas)+1)
	w.right(t)
	w.lose(t, name)

	// One that says that it serves, and runs nothing: all that there was of its name is another's.
	w.replicas.Unschedulable(t, name)
	pretender := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: fleet.Namespace, Name: name}}
	ready := client.RawPatch(types.StrategicMergePatchType, []byte(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`))
	if err := product.Client.Status().Patch(t.Context(), pretender, ready); err != nil {
		t.Fatal(err)
	}
	w.allSay(t, patience, func(said said) error {
		for _, p := range said.status.ByPod {
			if p.ID != name {
				continue
			}
			if p.PodUID == pretender.UID && p.ObservedGeneration == 0 && !p.Succeeded && !said.status.Succeeded {
				return nil
			}
			return fmt.Errorf("%+v is said of %s, which has reported nothing", p, name)
		}
		return fmt.Errorf("nothing is said of %s", name)
	})
	w.replicas.Delete(t, name)
	w.entriesLeave(t, name)
	w.replicas.Gone(t, name)
	w.right(t)

	w.replicas.Add(t, name)
	w.replicas.Ready(t, int(w.size.replicas)+1)
	w.right(t)
	uids := map[types.UID]bool{}
	for _, r := range w.replicas.All() {
		uids[r.UID] = true
	}
	w.onlyReports(t, "pods that are gone", func(r *v1alpha1.ExecutorPodStatus) bool { return uids[r.Spec.Pod.UID] })
	w.replicas.Delete(t, name)
	w.entriesLeave(t, name)
	w.replicas.Gone(t, name)
	w.right(t)
}

// lose has the machine of a pod end, and then the pod be deleted, as whoever finds out does.
func (w *world) lose(t *testing.T, name string) {
	t.Helper()
	lost := w.replicas.Of(t, name)
	w.replicas.Lose(t, name)
	w.replicas.Delete(t, name)
	eventually.Succeeds(t, patience, func() error {
		if !lost.Ending() {
			return fmt.Errorf("the deletion of pod %s has not been seen", name)
		}
		return lost.Forget(context.WithoutCancel(t.Context()))
	})
	w.replicas.Gone(t, name)
	w.entriesLeave(t, name)
}

// entriesLeave holds the leader to saying nothing more of a pod, soon after it was deleted.
func (w *world) entriesLeave(t *testing.T, name string) {
	t.Helper()
	deleted, stalled := time.Now(), w.watcher.stopped()
	w.allSay(t, patience, func(said said) error {
		if slices.ContainsFunc(said.status.ByPod, func(p v1alpha1.ReplicaStatus) bool { return p.ID == name }) {
			return fmt.Errorf("something is said of %s", name)
		}
		return nil
	})
	if took := time.Since(deleted); took-3*(w.watcher.stopped()-stalled) > goneWithin {
		t.Errorf("what was said of %s was gone after %s, want it within %s", name, took, goneWithin)
	}
}

// allSay waits until every Executor does.
func (w *world) allSay(t *testing.T, within time.Duration, check func(said) error) {
	t.Helper()
	eventually.Succeeds(t, within, func() error {
		w.watcher.mu.Lock()
		defer w.watcher.mu.Unlock()
		for key, e := range w.watcher.executors {
			if err := check(e); err != nil {
				return fmt.Errorf("%s: %w", short(key), err)
			}
		}
		return nil
	})
}
