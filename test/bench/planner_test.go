package bench

import (
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"testing"

	"github.com/gatehouse-dev/gatehouse/test/cluster"
)

// planned is a line of `go test -bench -benchmem`: a name with the size of the fleet, and the figures of one plan.
var planned = regexp.MustCompile(`(?m)^BenchmarkNext/(\d+)\S*\s+\d+\s+([\d.]+) ns/op\s+([\d.]+) B/op\s+(\d+) allocs/op$`)

// BenchmarkPlanner runs the planner's own benchmarks.
func BenchmarkPlanner(b *testing.B) {
	root, err := cluster.Root()
	if err != nil {
		b.Fatal(err)
	}
	command := exec.CommandContext(b.Context(), "go", "test", "-run", "^$", "-bench", "^BenchmarkNext$", "-benchmem", "./internal/rollout")
	command.Dir = root
	out, err := command.CombinedOutput()
	if err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	lines := planned.FindAllSubmatch(out, -1)
	if len(lines) == 0 {
		b.Fatalf("no figures in:\n%s", out)
	}
	for _, line := range lines {
		number := func(i int) float64 {
			value, err := strconv.ParseFloat(string(line[i]), 64)
			if err != nil {
				b.Fatalf("%s: %v", line[0], err)
			}
			return value
		}
		name := fmt.Sprintf("Planner/%.0f ", number(1))
		if number(1) >= 100_000 {
			figures.AtMost(name+"time of one plan", number(2)/1e6, "ms", 50)
		} else {
			figures.Figure(name+"time of one plan", number(2)/1e6, "ms")
		}
		figures.Figure(name+"memory of one plan", number(3)/1024, "KiB")
		figures.Figure(name+"allocations of one plan", number(4), "allocations")
	}
}
