package faultproxy

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// SeedEnv replays the chances of a run.
const SeedEnv = "GATEHOUSE_SEED"

// Seed is what a test leaves to chance: a new number, or the one that is given in the environment. A test that fails
// prints it with how to have it again.
func Seed(tb testing.TB) uint64 {
	tb.Helper()
	seed := rand.Uint64() >> 1
	if given := os.Getenv(SeedEnv); given != "" {
		var err error
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			tb.Fatalf("%s: %v", SeedEnv, err)
		}
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("to meet the same faults again: %s=%d go test -run '^%s$'", SeedEnv, seed, tb.Name())
		}
	})
	return seed
}

// chance decides by a seed, the decider and how often it has been asked.
func chance(seed, decider, turn uint64, probability float64) bool {
	return rand.New(rand.NewPCG(seed^decider*0x9e3779b97f4a7c15, turn)).Float64() < probability
}
