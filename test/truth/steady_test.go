package truth

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// base is how many replicas the Deployment has by default.
const base = 3

// steady does to the installation what is done to installations. No Executor ceases to be Ready.
func (w *world) steady(t *testing.T) {
	w.replicas.Scale(t, base)
	w.replicas.Ready(t, base)
	w.right(t)
	since, before := w.since(), len(w.watcher.doubted())
	happening := ""
	defer func() { // whatever else goes wrong
		for _, doubt := range w.watcher.doubted()[before:] {
			t.Errorf("%s: %s", happening, doubt)
		}
	}()
	for _, happens := range []struct {
		what string
		do   func()
	}{
		{"a pod that fits nowhere", func() { w.replicas.Unschedulable(t, "nowhere") }},
		{"scaled up", func() { w.replicas.Scale(t, int32(w.most)); w.replicas.Ready(t, int(w.most)) }},
		{"scaled down", func() { w.replicas.Scale(t, base); w.replicas.Ready(t, base) }},
		{"drained", func() {
			pod := w.replicas.Leader(t)
			w.replicas.Evict(t, pod)
			w.replicas.Gone(t, pod)
			w.replicas.Ready(t, base)
		}},
		{"restarted in its pod", func() {
			pod := w.replicas.Ready(t, base)[0]
			w.replicas.Restart(t, pod)
			w.replicas.Ready(t, base)
		}},
		{"upgraded", func() { w.replicas.Upgrade(t); w.replicas.Ready(t, base) }},
	} {
		began := time.Now()
		happening = happens.what
		happens.do()
		w.right(t)
		t.Logf("%s: %s", happens.what, time.Since(began).Round(100*time.Millisecond))
		if len(w.watcher.doubted()) > before {
			return
		}
	}
	for key, now := range w.since() {
		if was := since[key]; !now.Equal(&was) {
			t.Errorf("%s is Ready since %s, and was since %s", short(key), now, since[key])
		}
	}
}

// since says since when every Executor is Ready.
func (w *world) since() map[types.NamespacedName]metav1.Time {
	w.watcher.mu.Lock()
	defer w.watcher.mu.Unlock()
	found := map[types.NamespacedName]metav1.Time{}
	for key, e := range w.watcher.executors {
		if c := meta.FindStatusCondition(e.status.Conditions, v1alpha1.ConditionReady); c != nil {
			found[key] = c.LastTransitionTime
		}
	}
	return found
}
