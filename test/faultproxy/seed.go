package faultproxy

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
)

// SeedEnv chooses what is left to chance in a run: a number, as a test prints it, or the word random.
const SeedEnv = "GATEHOUSE_SEED"

// usual is the seed of every run that does not ask for another. A change is refused for what it does, and not for what
// was drawn that day; what the usual seed does not meet is met by nightly runs, which draw.
const usual uint64 = 20261130

// Seed is what a test leaves to chance: the same for every run, unless the environment gives a number or asks for one to
// be drawn. It is printed, and a test that fails prints how to have it again.
func Seed(tb TB) uint64 {
	tb.Helper()
	seed, err := seedFrom(os.Getenv(SeedEnv))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Logf("what is left to chance is that of %s=%d", SeedEnv, seed)
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("to meet the same faults again: %s=%d go test -run '^%s$'", SeedEnv, seed, tb.Name())
		}
	})
	return seed
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
