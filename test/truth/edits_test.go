package truth

import (
	"math"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/test/cluster"
)

// atOnce is how many writes of a status an edit may take, and one more for each second in which reports still arrive.
const atOnce = 2

func mark(t *testing.T) cluster.Mark {
	t.Helper()
	m, err := product.Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// compiles are the compilations of each replica that serves.
func (w *world) compiles(t *testing.T) map[string]float64 {
	t.Helper()
	found := map[string]float64{}
	for _, r := range w.replicas.All() {
		found[r.Name] = w.replicas.Metrics(t, r.Name).Sum("gatehouse_executor_compiles_total", nil)
	}
	return found
}

// edits changes every Executor, round by round, some of them to what cannot be built and back. Each replica reports each
// generation once; the leader writes a status no more often than that.
func (w *world) edits(t *testing.T) {
	w.still(t)
	compiled := w.compiles(t)
	replicas, statuses, refused := int(w.size.replicas), 0, 0
	for round := range w.rounds {
		began := mark(t)
		for n, s := range w.subjects {
			w.edit(t, s, round == w.rounds-1 || (n+round)%5 != 0)
		}
		w.right(t)
		if round%5 == 4 || round == w.rounds-1 {
			w.still(t) // what is sent too much may come late
		}
		for s, sent := range w.each(t, began) {
			if len(sent.reports) != replicas || sent.deletions > 0 {
				t.Errorf("round %d: %s: %d writes of reports and %d deletions for an edit, want %d of %d replicas: %v", round, short(s.NamespacedName), len(sent.reports), sent.deletions, replicas, replicas, sent.reports)
			}
			if most := atOnce + int(math.Ceil(sent.span().Seconds())); sent.statuses > most {
				t.Errorf("round %d: %s: %d writes of the status for an edit whose reports arrived within %s, want at most %d", round, short(s.NamespacedName), sent.statuses, sent.span(), most)
			}
			statuses, refused = statuses+sent.statuses, refused+sent.conflicting
		}
		if t.Failed() {
			return
		}
	}
	edits := w.rounds * len(w.subjects)
	for replica, now := range w.compiles(t) {
		if made := now - compiled[replica]; made != float64(edits) {
			t.Errorf("%s has compiled %v times in %d edits", replica, made, edits)
		}
	}
	t.Logf("%d edits: %.2f writes of a status for each, and %d refused", edits, float64(statuses)/float64(edits), refused)
}

// newcomer makes an Executor, and takes it away again.
func (w *world) newcomer(t *testing.T) {
	began := mark(t)
	s := &subject{NamespacedName: types.NamespacedName{Name: "newcomer"}}
	w.create(t, s, true)
	w.subjects = append(w.subjects, s)
	w.right(t)
	w.still(t)
	sent := w.each(t, began)[s]
	if want := 2 * int(w.size.replicas); len(sent.reports) != want || sent.deletions != 0 {
		t.Errorf("%d writes of reports and %d deletions, want %d: %v", len(sent.reports), sent.deletions, want, sent.reports)
	}
	if most := atOnce + int(math.Ceil(sent.span().Seconds())); sent.statuses > most {
		t.Errorf("%d writes of the status within %s, want at most %d", sent.statuses, sent.span(), most)
	}
	began = mark(t)
	w.remove(t, s)
	w.still(t)
	if sent := w.each(t, began)[s]; len(sent.reports) != 0 || sent.deletions != int(w.size.replicas) {
		t.Errorf("when it was deleted, %d writes of reports and %d deletions, want none and %d", len(sent.reports), sent.deletions, w.size.replicas)
	}
	w.subjects = w.subjects[:len(w.subjects)-1]
}

// statusWritten writes what is not so into every status, and then loses it, as a restore does. Each time the leader sets
// it right at once, in one write, and nothing else is done.
func (w *world) statusWritten(t *testing.T) {
	compiled := w.compiles(t)
	for _, patch := range []client.Patch{
		client.RawPatch(types.MergePatchType, []byte(`{"status":{"briefError":"somebody says so","byPod":[{"id":"made-up","succeeded":true}]}}`)),
		client.RawPatch(types.MergePatchType, []byte(`{"status":{"succeeded":false}}`)),
		client.RawPatch(types.JSONPatchType, []byte(`[{"op":"replace","path":"/status","value":{}}]`)),
	} {
		w.still(t)
		began := mark(t)
		for _, s := range w.subjects {
			if err := product.Client.Status().Patch(t.Context(), s.object(), patch); err != nil {
				t.Fatal(err)
			}
		}
		written, stalled := time.Now(), w.watcher.stopped()
		w.right(t)
		if took := time.Since(written); took-3*(w.watcher.stopped()-stalled) > mayLie {
			t.Errorf("what somebody had written stood for %s, want at most %s", took, mayLie)
		}
		w.still(t)
		for s, sent := range w.each(t, began) {
			if sent.statuses != 1 || len(sent.reports) > 0 || sent.deletions > 0 {
				t.Errorf("%s: %d writes of the status and %d of reports, want one write of the status that somebody had written", short(s.NamespacedName), sent.statuses, len(sent.reports)+sent.deletions)
			}
		}
	}
	for replica, now := range w.compiles(t) {
		if now != compiled[replica] {
			t.Errorf("%s has compiled %v times when nothing but a status was written", replica, now-compiled[replica])
		}
	}
}
