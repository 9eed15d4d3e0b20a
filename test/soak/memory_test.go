package soak

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-dev/gatehouse/test/manager"
)

const (
	// longEnough is a soak in which half of the last process's life tells what it holds.
	longEnough = 20 * time.Minute
	// growth is by how much of the first half's the second half's resident memory may be more.
	growth = 0.05
	// kept is by how much of a new process's an old one's live memory may be more, and room by how many bytes besides: what
	// a map or a buffer was once grown to, it keeps.
	kept = 0.2
	room = 4 << 20
	// strays is how many goroutines more than a new process an old one may have: connections that are not idle for long
	// enough yet.
	strays = 20
)

// flat holds that the process has not grown from one half of its life under faults to the other. It is asked before
// anything else, so that a long soak that ends otherwise than it should tells at least this.
func (c *controlPlane) flat(t *testing.T, length time.Duration) {
	t.Helper()
	if length < longEnough || len(c.samples) < 2 {
		return
	}
	first, second := c.samples[:len(c.samples)/2], c.samples[len(c.samples)/2:]
	was, is := median(first, residentOf), median(second, residentOf)
	t.Logf("resident: %.1f MiB in the first half of %d samples, %.1f MiB in the second; goroutines: %.0f and %.0f",
		was/(1<<20), len(c.samples), is/(1<<20), median(first, goroutinesOf), median(second, goroutinesOf))
	if is > was*(1+growth) {
		t.Errorf("resident memory has grown by %.1f %%, may by %.0f %%", (is/was-1)*100, growth*100)
	}
}

// grown holds that the process has not grown against a new one that is started over the same state. That one sends
// nothing either.
func (w *world) grown(t *testing.T, c *controlPlane) {
	t.Helper()
	old := c.collected(t)

	mark, err := w.product.Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.end(t)
	c.start(t)
	c.manager.Ready(t)
	c.manager.PassedAgain(t, manager.Passes{}, len(w.releases), len(w.gateways), onceMore)
	c.rest(t, onceMore)
	w.silent(t, mark)
	fresh := c.collected(t)
	t.Logf("the process that was out: %s; a new one: %s", old, fresh)
	if old.heap > fresh.heap*(1+kept)+room {
		t.Errorf("the process holds %.1f MiB after the soak, a new one over the same state %.1f MiB", old.heap/(1<<20), fresh.heap/(1<<20))
		for name, heap := range map[string]string{"old.heap": old.profile, "fresh.heap": fresh.profile} {
			if err := os.WriteFile(filepath.Join(t.ArtifactDir(), name), []byte(heap), 0o644); err != nil {
				t.Error(err)
			}
		}
		t.Logf("to compare what they hold: go tool pprof -diff_base %[1]s/fresh.heap %[1]s/old.heap, with go test -artifacts", t.ArtifactDir())
	}
	if old.goroutines > fresh.goroutines+strays {
		t.Errorf("the process has %.0f goroutines after the soak, a new one over the same state %.0f", old.goroutines, fresh.goroutines)
		t.Logf("its goroutines:\n%s", old.stacks)
	}
}

// collected is a sample right after a collection.
func (c *controlPlane) collected(t *testing.T) collected {
	t.Helper()
	takeProfile(t, c.profile, "heap?gc=1") // what has a finalizer goes at the second
	heap := takeProfile(t, c.profile, "heap?gc=1")
	metrics, err := c.manager.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return collected{
		sample: sample{
			resident:   metrics.Sum("process_resident_memory_bytes", nil),
			heap:       metrics.Sum("go_memstats_heap_alloc_bytes", nil),
			goroutines: metrics.Sum("go_goroutines", nil),
		},
		profile: heap,
		stacks:  takeProfile(t, c.profile, "goroutine?debug=1"),
	}
}

// collected is a sample with what it is made of.
type collected struct {
	sample
	profile string // of the memory that is alive, for go tool pprof
	stacks  string // of the goroutines
}

// maxProfile bounds a profile, in bytes.
const maxProfile = 64 << 20

func takeProfile(t *testing.T, address, what string) string {
	t.Helper()
	client := http.Client{Timeout: time.Minute}
	response, err := client.Get(fmt.Sprintf("http://%s/debug/pprof/%s", address, what))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxProfile))
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("profile %s: %s, %v", what, response.Status, err)
	}
	return string(text)
}

func residentOf(s sample) float64   { return s.resident }
func goroutinesOf(s sample) float64 { return s.goroutines }

func median(samples []sample, of func(sample) float64) float64 {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = of(s)
	}
	slices.Sort(values)
	return values[len(values)/2]
}
