package crash

import (
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-dev/gatehouse/test/faultproxy"
)

const (
	// fireEnv says which stories are told under which adversities: all, one as a failure prints it, those of one scenario
	// ("edit/"), or, without it, a sample.
	fireEnv = "GATEHOUSE_FIRE"
	// lagEnv is how late and how old things are, as a duration.
	lagEnv = "GATEHOUSE_LAG"
	// fullLag is that without it, when all are told.
	fullLag = 10 * time.Second
	// Managers go back in time, or list what they have lost, so often.
	fullTurns, sampleTurns = 6, 4

	// fireSample is how many stories a test run tells.
	fireSample = 10
)

// ordeal is a scenario with an adversity.
type ordeal struct {
	scenario  scenario
	adversity adversity
}

func (o ordeal) name() string {
	return word(o.scenario.name + "/" + o.adversity.name)
}

// Whatever the managers see late, twice or not at all, and whatever of theirs arrives late, Gatehouse reaches the state
// that it reaches without; on the way there it keeps the budget, rolls no gateway twice, and takes nothing back.
func TestStaleUnobservedAndIntermediateStates(t *testing.T) {
	only, lag, turns := os.Getenv(fireEnv), fullLag, fullTurns
	seed := faultproxy.Seed(t, fireEnv+"="+only, lagEnv+"="+os.Getenv(lagEnv))
	if only == "" {
		lag = 0
	}
	if given := os.Getenv(lagEnv); given != "" {
		var err error
		if lag, err = time.ParseDuration(given); err != nil || lag <= 0 {
			t.Fatalf("%s=%q: write a duration, such as 10s", lagEnv, given)
		}
	}
	if lag < fullLag { // also for one of a sample that is run again
		turns = sampleTurns
	}
	chosen := ordeals(seed, only)
	if len(chosen) == 0 {
		t.Fatalf("%s=%q chooses nothing: write all, or a name as a failure prints it", fireEnv, only)
	}
	work := newLanes(t)
	for _, l := range work {
		l.patience = patience + 50*lag + time.Minute
	}

	var told []scenario
	for i := range scenarios {
		if first := slices.IndexFunc(chosen, func(o ordeal) bool { return index(o.scenario) == i }); first >= 0 {
			told = append(told, chosen[first].scenario)
		}
	}
	undisturbed := make([]outcome, len(scenarios))
	spread(work, told, func(l *lane, s scenario) {
		t.Run(trial{s, point{}}.name(), func(t *testing.T) { undisturbed[index(s)] = l.play(t, s, point{}, nil) })
	})
	if t.Failed() {
		t.FailNow()
	}
	var mu sync.Mutex
	failed := 0
	spread(work, chosen, func(l *lane, o ordeal) {
		mu.Lock()
		enough := failed >= tolerated
		mu.Unlock()
		if enough {
			return
		}
		want := undisturbed[index(o.scenario)]
		lag := lag
		if lag == 0 {
			lag = o.adversity.sampleLag
		}
		own := fnv.New64a()
		_, _ = own.Write([]byte(o.name()))
		passed := t.Run(o.name(), func(t *testing.T) {
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("to meet this alone: %s", faultproxy.Again(seed, "TestStaleUnobservedAndIntermediateStates", fireEnv+"="+o.name(), lagEnv+"="+lag.String()))
				}
			})
			// Clients that have listed anew wait longer each time, so everyone begins afresh.
			l.dismiss()
			l.seed = seed ^ own.Sum64()
			defer l.dismiss()
			started := time.Now()
			out := l.play(t, o.scenario, adverse{adversity: o.adversity, seed: l.seed, lag: lag, turns: turns, writes: want.writes}, &want)
			t.Logf("took %s; the leader was halted: %v", time.Since(started).Round(time.Millisecond), out.halted)
		})
		if !passed {
			mu.Lock()
			failed++
			mu.Unlock()
		}
	})
}

// ordeals returns what to go through, in an order that is the seed's and has one of each adversity in turn.
func ordeals(seed uint64, only string) []ordeal {
	random := rand.New(rand.NewPCG(seed, 2))
	var chosen []ordeal
	order := random.Perm(len(scenarios))
	for turn := range scenarios {
		for i, a := range adversities {
			s := scenarios[order[(turn+i)%len(scenarios)]]
			s.unseen = true
			chosen = append(chosen, ordeal{s, a})
		}
	}
	switch only {
	case "":
		return chosen[:fireSample]
	case "all":
		return chosen
	}
	kept := chosen[:0]
	for _, o := range chosen {
		if o.name() == only || strings.HasSuffix(only, "/") && strings.HasPrefix(o.name(), only) {
			kept = append(kept, o)
		}
	}
	return kept
}
