package verification

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gatehouse-dev/gatehouse/internal/image"
)

// run is what verifying all images of a hub came to.
type run struct {
	requests, connections float64 // per verification, and in all
	cpu                   time.Duration
	allocations           float64
	p50, p99              time.Duration
}

// measure verifies every subject once.
func measure(tb testing.TB, h *hub, subjects []image.Pinned, concurrency int, verify verifyFunc) run {
	tb.Helper()
	runtime.GC()
	before, cpu := h.counts(tb), cpuTime(tb)
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	allocated := memory.Mallocs
	took := make([]time.Duration, len(subjects))
	var next atomic.Int64
	var workers sync.WaitGroup
	for range concurrency {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(subjects); i = int(next.Add(1)) - 1 {
				began := time.Now()
				if err := verify(context.Background(), subjects[i]); err != nil {
					tb.Errorf("%s: %v", subjects[i], err)
				}
				took[i] = time.Since(began)
			}
		})
	}
	workers.Wait()
	if tb.Failed() {
		tb.FailNow()
	}
	runtime.ReadMemStats(&memory)
	used, after := cpuTime(tb)-cpu, h.counts(tb)
	slices.Sort(took)
	n := float64(len(subjects))
	return run{
		requests:    float64(after.Requests-before.Requests) / n,
		connections: float64(after.Connections - before.Connections),
		cpu:         used / time.Duration(len(subjects)),
		allocations: float64(memory.Mallocs-allocated) / n,
		p50:         took[len(took)/2],
		p99:         took[len(took)*99/100],
	}
}

// cpuTime is what this process has used so far.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// best is the run with the least CPU time and the least latencies of several: what
// else the machine does only adds.
func best(runs []run) run {
	b := runs[0]
	for _, r := range runs[1:] {
		b.cpu, b.p50, b.p99 = min(b.cpu, r.cpu), min(b.p50, r.p50), min(b.p99, r.p99)
		b.requests, b.connections, b.allocations = max(b.requests, r.requests), max(b.connections, r.connections), min(b.allocations, r.allocations)
	}
	return b
}

// rounds is how often each side is measured, in turn.
const rounds = 3

// Cold verification of many images, each once.
func BenchmarkVerification(b *testing.B) {
	const images = 500
	for _, kind := range []string{"notation", "cosign"} {
		for _, rtt := range []time.Duration{0, 5 * time.Millisecond} {
			b.Run(fmt.Sprintf("%s/rtt=%s", kind, rtt), func(b *testing.B) {
				h := startHub(b, kind, images, rtt)
				subjects := h.subjects(b)
				for _, concurrency := range []int{1, 8, 32} {
					b.Run(fmt.Sprintf("clients=%d", concurrency), func(b *testing.B) {
						for b.Loop() {
							tell(b.Name(), rtt, concurrency, compare(b, h, subjects, kind, concurrency))
						}
					})
				}
			})
		}
	}
}

// compared is Gatehouse beside the floor.
type compared struct{ ours, floor run }

func compare(tb testing.TB, h *hub, subjects []image.Pinned, kind string, concurrency int) compared {
	tb.Helper()
	var ours, floors []run
	for range rounds {
		floors = append(floors, measure(tb, h, subjects, concurrency, kinds[kind](tb, h, concurrency)))
		ours = append(ours, measure(tb, h, subjects, concurrency, gatehouse(tb, h, kind)))
	}
	return compared{best(ours), best(floors)}
}

func tell(name string, rtt time.Duration, concurrency int, c compared) {
	const milli = float64(time.Millisecond)
	name = name[len("Benchmark"):]
	figures.Against(name+"/requests", c.ours.requests, c.floor.requests, "per image", 1)
	figures.AtMost(name+"/connections", c.ours.connections, "in all", float64(concurrency+10))
	figures.Against(name+"/cpu", float64(c.ours.cpu)/milli, float64(c.floor.cpu)/milli, "ms per image", 1.25)
	figures.Against(name+"/allocations", c.ours.allocations, c.floor.allocations, "per image", 0)
	limit := 0.0
	if rtt > 0 && concurrency == 1 {
		limit = 1.15
	}
	figures.Against(name+"/p50", float64(c.ours.p50)/milli, float64(c.floor.p50)/milli, "ms", limit)
	figures.Against(name+"/p99", float64(c.ours.p99)/milli, float64(c.floor.p99)/milli, "ms", 0)
}

// The benchmark measures the same thing on both sides: whoever asks the registry more than the floor has to has a
// reason that would be told here.
func TestVerifyingAsksTheRegistryNoMoreThanItHasTo(t *testing.T) {
	for kind, requests := range map[string]float64{"notation": 3, "cosign": 2} {
		t.Run(kind, func(t *testing.T) {
			h := startHub(t, kind, 20, 0)
			subjects := h.subjects(t)
			floor := measure(t, h, subjects, 4, kinds[kind](t, h, 4))
			ours := measure(t, h, subjects, 4, gatehouse(t, h, kind))
			if floor.requests != requests || ours.requests != requests {
				t.Errorf("%v requests an image, and %v at the floor; want %v", ours.requests, floor.requests, requests)
			}
			if ours.connections > 4+10 {
				t.Errorf("%v connections for 4 at a time", ours.connections)
			}
		})
	}
}
