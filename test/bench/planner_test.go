package bench

import (
	"strconv"
	"testing"
)

// BenchmarkPlanner runs the planner's own benchmarks, of plans for fleets of some sizes.
func BenchmarkPlanner(b *testing.B) {
	for _, plan := range benchmarksWithin(b, "internal/rollout", "BenchmarkNext") {
		gateways, err := strconv.Atoi(plan.name)
		if err != nil {
			b.Fatal(err)
		}
		name := "Planner/" + plan.name + " "
		if gateways >= 100_000 {
			figures.AtMost(name+"time of one plan", plan.nanoseconds/1e6, "ms", 50)
		} else {
			figures.Figure(name+"time of one plan", plan.nanoseconds/1e6, "ms")
		}
		figures.Figure(name+"memory of one plan", plan.bytes/1024, "KiB")
		figures.Figure(name+"allocations of one plan", plan.allocations, "allocations")
	}
}
