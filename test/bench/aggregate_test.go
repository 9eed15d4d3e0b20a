package bench

import (
	"strings"
	"testing"
)

// mayGrow is how much more one status may cost beside 200 Executors than beside 10.
const mayGrow = 1.2

// BenchmarkAggregate runs the aggregator's own benchmarks: one status is made of the reports in memory, by so many
// replicas on so many Executors. What others there are must not count.
func BenchmarkAggregate(b *testing.B) {
	beside := map[string]within{}
	for _, one := range benchmarksWithin(b, "internal/podstatus", "BenchmarkAggregate") {
		beside[one.name] = one
		name := "Aggregate/" + one.name + " "
		replicas, executors, _ := strings.Cut(one.name, "x")
		few, found := beside[replicas+"x10"]
		if executors == "10" || !found {
			figures.Figure(name+"allocations of one status", one.allocations, "allocations")
			figures.Figure(name+"memory of one status", one.bytes/1024, "KiB")
			figures.Figure(name+"time of one status", one.nanoseconds/1e3, "µs")
			continue
		}
		figures.Against(name+"allocations of one status", one.allocations, few.allocations, "allocations", mayGrow)
		figures.Against(name+"memory of one status", one.bytes/1024, few.bytes/1024, "KiB", 0)
		figures.Against(name+"time of one status", one.nanoseconds/1e3, few.nanoseconds/1e3, "µs", 0)
	}
}
