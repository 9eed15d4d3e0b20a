package truth

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gatehouse-dev/gatehouse/test/eventually"
)

// rests has a tenant's Executor name a Secret that Gatehouse may not read, which it tries again and again.
func (w *world) rests(t *testing.T) {
	s := &subject{NamespacedName: types.NamespacedName{Namespace: w.tenant, Name: "unreadable"}, bySecret: true}
	w.create(t, s, true)
	s.good, s.lastGood = false, 0
	w.subjects = append(w.subjects, s)
	w.right(t)
	w.still(t)
	tries := func() map[string]float64 {
		found := map[string]float64{}
		for _, r := range w.replicas.All() {
			metrics := w.replicas.Metrics(t, r.Name)
			found[r.Name] = metrics.Sum("gatehouse_reconcile_total", map[string]string{"controller": "executor", "outcome": "transient"})
		}
		return found
	}
	before, began := tries(), mark(t)
	eventually.Holds(t, w.rest, func() error { return nil })
	events, err := product.Sent(t.Context(), began)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		t.Errorf("sent at rest: %s", e)
	}
	for replica, now := range tries() {
		if now == before[replica] {
			t.Errorf("%s has not tried again in %s: nothing could have been written", replica, w.rest)
		}
	}
	w.remove(t, s)
	w.still(t)
	w.subjects = w.subjects[:len(w.subjects)-1]
}
