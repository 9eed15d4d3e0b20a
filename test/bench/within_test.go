package bench

import (
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/gatehouse-dev/gatehouse/test/cluster"
)

// within is one benchmark of a package of the product: what comes after the slash of its name, and what one turn takes.
type within struct {
	name                            string
	nanoseconds, bytes, allocations float64
}

// runs is how often each is measured. The best time counts: nothing makes it faster than it is, and much that is not its
// own makes it slower.
const runs = 5

// benchmarksWithin runs a benchmark of a package, and returns its parts in order.
func benchmarksWithin(b *testing.B, directory, benchmark string) []within {
	b.Helper()
	root, err := cluster.Root()
	if err != nil {
		b.Fatal(err)
	}
	command := exec.CommandContext(b.Context(), "go", "test", "-run", "^$", "-bench", "^"+benchmark+"$", "-benchmem",
		"-count", strconv.Itoa(runs), "-benchtime", "10x", "./"+directory)
	command.Dir = root
	out, err := command.CombinedOutput()
	if err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	line := regexp.MustCompile(`(?m)^` + benchmark + `/(\w+)\S*\s+\d+\s+([\d.]+) ns/op\s+([\d.]+) B/op\s+(\d+) allocs/op$`)
	lines := line.FindAllSubmatch(out, -1)
	if len(lines) == 0 {
		b.Fatalf("no figures in:\n%s", out)
	}
	var best []within
	for _, line := range lines {
		number := func(i int) float64 {
			value, err := strconv.ParseFloat(string(line[i]), 64)
			if err != nil {
				b.Fatalf("%s: %v", line[0], err)
			}
			return value
		}
		one := within{string(line[1]), number(2), number(3), number(4)}
		switch i := slices.IndexFunc(best, func(w within) bool { return w.name == one.name }); {
		case i < 0:
			best = append(best, one)
		case one.nanoseconds < best[i].nanoseconds:
			best[i] = one
		}
	}
	return best
}
