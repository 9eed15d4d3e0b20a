package truth

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/faultproxy"
)

// deaf holds back from one replica first that a key was replaced, and then that specs were edited. Every Executor that is
// concerned says so, of that replica alone, and none says that all is well.
func (w *world) deaf(t *testing.T) {
	w.replicas.Add(t, odd)
	w.replicas.Ready(t, int(w.size.replicas)+1)
	w.right(t)
	proxy := w.replicas.Proxy(odd)

	for _, missed := range []struct {
		what, resource string
		happens        func()
		concerns       func(*subject) bool
	}{
		{"trusts other keys", "secrets", func() { w.rotate(t) }, func(s *subject) bool { return s.bySecret }},
		{"has not reported generation", "executors", func() {
			for _, s := range w.subjects {
				w.edit(t, s, true)
			}
		}, func(s *subject) bool { return s.Namespace == "" }},
	} {
		release := proxy.Hold(func(r faultproxy.Request) bool { return r.Verb == "watch" && r.Resource == missed.resource })
		missed.happens()
		happened, stalled := time.Now(), w.watcher.stopped()
		eventually.Succeeds(t, patience, func() error {
			w.watcher.mu.Lock()
			defer w.watcher.mu.Unlock()
			for _, s := range w.subjects {
				if !missed.concerns(s) {
					continue
				}
				e := w.watcher.executors[s.NamespacedName]
				status := e.status
				if status.Succeeded || status.Replicas.Ready != int32(w.size.replicas) || len(status.ByPod) == 0 || status.ByPod[0].ID != odd ||
					!strings.Contains(status.ByPod[0].BriefError, missed.what) {
					return fmt.Errorf("%s: %s does not hear of %s, and %+v is said, of generation %d (now %d): %s", short(s.NamespacedName), odd, missed.resource, status.Replicas, status.ObservedGeneration, e.generation, status.Error)
				}
			}
			return nil
		})
		if took := time.Since(happened); took-3*(w.watcher.stopped()-stalled) > mayLie {
			t.Errorf("it took %s to be said that %s does not hear of %s, want at most %s", took, odd, missed.resource, mayLie)
		}
		release()
		w.right(t)
	}
	w.replicas.Delete(t, odd)
	w.entriesLeave(t, odd)
	w.replicas.Gone(t, odd)
	w.right(t)
}

// leaderless replaces a key when the leader has just died, while one replica does not hear of it. No generation tells of
// a key: until somebody leads, nothing says that the replicas differ.
func (w *world) leaderless(t *testing.T) {
	// failover is the lease of these replicas, and how rarely they look at it.
	const failover = 4*time.Second + 3*time.Second
	w.replicas.Add(t, odd)
	w.replicas.Ready(t, int(w.size.replicas)+1)
	w.right(t)
	proxy := w.replicas.Proxy(odd)
	// Who begins to lead passes over everything, and reads the key for that: it has to be another that does.
	proxy.Script(faultproxy.Rule{When: faultproxy.Every(faultproxy.Of("coordination.k8s.io", "leases"), faultproxy.Verb("update")), Fault: faultproxy.Fail(http.StatusConflict)})
	release := proxy.Hold(func(r faultproxy.Request) bool { return r.Verb == "watch" && r.Resource == "secrets" })
	w.watcher.allow(failover)
	leader := w.replicas.Led(t, odd)
	w.replicas.Kill(t, leader)
	w.replicas.Delete(t, leader)
	w.rotate(t)
	rotated, stalled := time.Now(), w.watcher.stopped()
	eventually.Succeeds(t, patience, func() error {
		w.watcher.mu.Lock()
		defer w.watcher.mu.Unlock()
		for _, s := range w.subjects {
			status := w.watcher.executors[s.NamespacedName].status
			if s.bySecret && (status.Succeeded || len(status.ByPod) == 0 || !strings.Contains(status.ByPod[0].BriefError, "trusts other keys")) {
				return fmt.Errorf("%s: %s trusts another key, and %+v is said: %s", short(s.NamespacedName), odd, status.Replicas, status.Error)
			}
		}
		return nil
	})
	took := time.Since(rotated)
	if took-3*(w.watcher.stopped()-stalled) > failover+mayLie {
		t.Errorf("it took %s to be said that %s trusts another key, want at most %s after a leader within %s", took, odd, mayLie, failover)
	}
	t.Logf("that a replica trusts another key was said %s after the leader had died", took.Round(100*time.Millisecond))
	release()
	proxy.Script()
	w.replicas.Ready(t, int(w.size.replicas)+1)
	w.right(t)
	w.watcher.allow(0)
	w.replicas.Delete(t, odd)
	w.replicas.Gone(t, odd)
	w.right(t)
}
