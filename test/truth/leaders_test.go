package truth

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/faultproxy"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
)

// rightAfter is within what time of a new leader every status is right.
const rightAfter = 10 * time.Second

// leaders kills one after the other, in the midst of edits. Every other one loses its pod too, so that another replica
// leads; the others come back in their pods, and lead on by their own lease.
func (w *world) leaders(t *testing.T) {
	random := rand.New(rand.NewPCG(faultproxy.Seed(t, fullEnv+"="+os.Getenv(fullEnv)), 7))
	var longest time.Duration
	for n := range w.kills {
		leader := w.replicas.Led(t, "")
		when := random.IntN(len(w.subjects))
		pid := 0
		var killed time.Time
		for i, s := range w.subjects {
			if i == when {
				pid = w.pid(leader)
				w.replicas.Kill(t, leader)
				killed = time.Now()
				if n%2 == 0 {
					w.replicas.Delete(t, leader)
				}
			}
			w.edit(t, s, true)
		}
		heir, led := w.heir(t, leader, pid, killed)
		stalled := w.watcher.stopped()
		w.right(t)
		took := time.Since(led)
		longest = max(longest, took)
		if took-3*(w.watcher.stopped()-stalled) > rightAfter { // there are several processes that have to get their turn
			t.Errorf("kill %d: every status is right %s after %s leads in place of %s, want it within %s", n+1, took, heir, leader, rightAfter)
		}
		w.replicas.Ready(t, int(w.size.replicas))
		w.right(t)
	}
	t.Logf("%d leaders were killed; every status was right at most %s after the next led", w.kills, longest.Round(time.Millisecond))
}

// heir waits until the lease is held by a process that is not the one that was killed, and says since when. It may be the
// next process of the same pod.
func (w *world) heir(t *testing.T, leader string, pid int, killed time.Time) (heir string, led time.Time) {
	t.Helper()
	eventually.Succeeds(t, patience, func() error {
		lease := &coordinationv1.Lease{}
		if err := product.Client.Get(t.Context(), client.ObjectKey{Namespace: fleet.Namespace, Name: "gatehouse-manager"}, lease); err != nil {
			return err
		}
		heir = ptr.Deref(lease.Spec.HolderIdentity, "")
		if lease.Spec.RenewTime != nil {
			led = lease.Spec.RenewTime.Time
		}
		if heir == "" || !led.After(killed) || heir == leader && (w.pid(leader) == pid || w.pid(leader) == 0) {
			return fmt.Errorf("%q holds the lease, renewed at %s; process %d of %s was killed at %s", heir, led, pid, leader, killed)
		}
		return nil
	})
	return heir, led
}

// pid is that of a pod's process, 0 if none runs.
func (w *world) pid(pod string) int {
	for _, r := range w.replicas.All() {
		if r.Name == pod && !r.Ending() {
			return r.PID()
		}
	}
	return 0
}
