package faultproxy

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// SeedEnv chooses what is left to chance in a run: a number, as a test prints it, or the word random.
const SeedEnv = "GATEHOUSE_SEED"

// usual is the seed of every run that does not ask for another. A change is refused for what it does, and not for what
// was drawn that day; what the usual seed does not meet is met by nightly runs, which draw.
const usual uint64 = 20261130

// Seed is what a test leaves to chance: the same for every run, unless the environment gives a number or asks for one to
// be drawn. It is printed, and a test that fails prints the command that meets the same again. What else in the
// environment makes the run what it is is given as NAME=value; without a value it is left out.
func Seed(tb TB, environment ...string) uint64 {
	tb.Helper()
	seed, err := seedFrom(os.Getenv(SeedEnv))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Logf("what is left to chance is that of %s=%d", SeedEnv, seed)
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("to meet the same faults again: %s", Again(seed, tb.Name(), environment...))
		}
	})
	return seed
}

// Again is the command that runs a test with a seed, from the root of the source tree. Of one that is part of another, it
// runs the whole.
func Again(seed uint64, test string, environment ...string) string {
	test, _, _ = strings.Cut(test, "/")
	environment = slices.DeleteFunc(slices.Clone(environment), func(word string) bool { return strings.HasSuffix(word, "=") })
	words := append(environment, fmt.Sprintf("%s=%d", SeedEnv, seed), "go test -timeout 0 -run", "'^"+test+"$'", "./"+folder())
	return strings.Join(words, " ")
}

// folder is that of the package that is tested, within its module: a test runs there.
func folder() string {
	here, err := os.Getwd()
	for root := here; err == nil && filepath.Dir(root) != root; root = filepath.Dir(root) {
		if _, missing := os.Stat(filepath.Join(root, "go.mod")); missing == nil {
			inside, _ := filepath.Rel(root, here)
			return filepath.ToSlash(inside)
		}
	}
	return ""
}

func seedFrom(given string) (uint64, error) {
	switch given {
	case "":
		return usual, nil
	case "random":
		return rand.Uint64() >> 1, nil
	}
	seed, err := strconv.ParseUint(given, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s=%q: write a number, or random to have one drawn", SeedEnv, given)
	}
	return seed, nil
}

// chance decides by a seed, the decider and how often it has been asked.
func chance(seed, decider, turn uint64, probability float64) bool {
	return rand.New(rand.NewPCG(seed^decider*0x9e3779b97f4a7c15, turn)).Float64() < probability
}
