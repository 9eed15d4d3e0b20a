package soak

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// edit is what somebody may do, and how often beside the others.
type edit struct {
	name   string
	weight int
	do     func(w *world, t *testing.T, by *rand.Rand) error
}

// edits are all of them.
var edits = slices.Concat(releaseEdits, profileEdits, surroundingEdits, gatewayEdits, drifts)

// edit makes one, chosen by chance. That somebody was faster is no error.
func (w *world) edit(t *testing.T, by *rand.Rand) error {
	t.Helper()
	all := 0
	for _, e := range edits {
		all += e.weight
	}
	n := by.IntN(all)
	for _, e := range edits {
		if n -= e.weight; n >= 0 {
			continue
		}
		w.done[e.name]++
		err := e.do(w, t, by)
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
			return nil
		}
		return fmt.Errorf("%s: %w", e.name, err)
	}
	return nil
}

// pace is how long it is until the next edit: many come in a row, and then few.
func (w *world) pace(by *rand.Rand) time.Duration {
	if w.busy == 0 {
		w.busy = 20 + by.IntN(60)
		if by.IntN(2) == 0 {
			w.busy = -1 - by.IntN(8)
		}
	}
	if w.busy < 0 {
		w.busy++
		return time.Second + time.Duration(by.IntN(1000))*time.Millisecond
	}
	w.busy--
	return 20*time.Millisecond + time.Duration(by.IntN(180))*time.Millisecond
}

func (w *world) edited() int {
	n := 0
	for _, times := range w.done {
		n += times
	}
	return n
}

func (w *world) tally() string { return tally(w.done) }

func tally(counts map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(parts, ", ")
}

// next is a value that nothing has had.
func (w *world) next() int {
	w.serial++
	return w.serial
}

// merge edits an object as kubectl patch does.
func (w *world) merge(t *testing.T, object client.Object, format string, args ...any) error {
	t.Helper()
	return w.product.Client.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, format, args...)))
}

// mergeList edits an object of a built-in kind, whose lists are merged by their keys.
func (w *world) mergeList(t *testing.T, object client.Object, format string, args ...any) error {
	t.Helper()
	return w.product.Client.Patch(t.Context(), object, client.RawPatch(types.StrategicMergePatchType, fmt.Appendf(nil, format, args...)))
}

func pick[T any](by *rand.Rand, from []T) T { return from[by.IntN(len(from))] }
