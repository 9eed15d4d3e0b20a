package bench

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/gatehouse-dev/gatehouse/test/cluster"
)

// planned is a line of `go test -bench -benchmem`: a name with the size of the fleet, and the figures of one plan.
var planned = regexp.MustCompile(`(?m)^BenchmarkNext/(\d+)\S*\s+\d+\s+([\d.]+) ns/op\s+([\d.]+) B/op\s+(\d+) allocs/op$`)

// runs is how often each plan is measured. The best time counts: nothing makes a plan faster than it is, and much that is
// not the planner's makes it slower.
const runs = 5

// BenchmarkPlanner runs the planner's own benchmarks.
func BenchmarkPlanner(b *testing.B) {
	root, err := cluster.Root()
	if err != nil {
		b.Fatal(err)
	}
	command := exec.CommandContext(b.Context(), "go", "test", "-run", "^$", "-bench", "^BenchmarkNext$", "-benchmem",
		"-count", strconv.Itoa(runs), "-benchtime", "10x", "./internal/rollout")
	command.Dir = root
	out, err := command.CombinedOutput()
	if err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	lines := planned.FindAllSubmatch(out, -1)
	if len(lines) == 0 {
		b.Fatalf("no figures in:\n%s", out)
	}
	type plan struct{ gateways, nanoseconds, bytes, allocations float64 }
	var best []plan
	for _, line := range lines {
		number := func(i int) float64 {
			value, err := strconv.ParseFloat(string(line[i]), 64)
			if err != nil {
				b.Fatalf("%s: %v", line[0], err)
			}
			return value
		}
		one := plan{number(1), number(2), number(3), number(4)}
		switch i := slices.IndexFunc(best, func(p plan) bool { return p.gateways == one.gateways }); {
		case i < 0:
			best = append(best, one)
		case one.nanoseconds < best[i].nanoseconds:
			best[i] = one
		}
	}
	for _, p := range best {
		name := fmt.Sprintf("Planner/%.0f ", p.gateways)
		if p.gateways >= 100_000 {
			figures.AtMost(name+"time of one plan", p.nanoseconds/1e6, "ms", 50)
		} else {
			figures.Figure(name+"time of one plan", p.nanoseconds/1e6, "ms")
		}
		figures.Figure(name+"memory of one plan", p.bytes/1024, "KiB")
		figures.Figure(name+"allocations of one plan", p.allocations, "allocations")
	}
}
