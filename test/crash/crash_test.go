package crash

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/faultproxy"
)

const (
	// pointsEnv says which points are run: all, one as a failure prints it, those of one scenario ("edit/"), or, without
	// it, a sample.
	pointsEnv = "GATEHOUSE_CRASH"
	// lanesEnv is how many API servers share the work.
	lanesEnv     = "GATEHOUSE_CRASH_LANES"
	defaultLanes = 3

	// sample is at how many points a test run kills, evenly over the scenarios. A run takes a write more or less, so one
	// of the last points may find that the story is over; then it does not count, and another is taken.
	sample = 64

	// tolerated is after how many failures the rest is left.
	tolerated = 5
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// trial is a point of a scenario.
type trial struct {
	scenario scenario
	point    point
}

func (t trial) name() string {
	return word(t.scenario.name + "/" + t.point.String())
}

// word is a name as one writes it in a shell.
func word(name string) string { return strings.ReplaceAll(name, " ", "_") }

// C16: killed at any write, with another replica to take over, Gatehouse reaches the state that it reaches without, and
// on the way there it keeps the budget, rolls no gateway twice and writes nothing else.
func TestC16CrashAnywhere(t *testing.T) {
	only := os.Getenv(pointsEnv)
	seed := faultproxy.Seed(t, pointsEnv+"="+only)

	work := newLanes(t)

	// Without a crash, each scenario's own way.
	uninterrupted := make([]outcome, len(scenarios))
	spread(work, scenarios, func(l *lane, s scenario) {
		i := index(s)
		if only != "" && only != "all" && !strings.HasPrefix(only, word(s.name)+"/") {
			return
		}
		t.Run(trial{s, point{}}.name(), func(t *testing.T) { uninterrupted[i] = l.play(t, s, point{}, nil) })
	})
	if t.Failed() {
		t.FailNow()
	}

	var mu sync.Mutex
	met, total, failed := map[string]int{}, 0, 0
	trials := choose(seed, only, uninterrupted)
	spread(work, trials, func(l *lane, tr trial) {
		mu.Lock()
		enough := failed >= tolerated || only == "" && total >= sample
		mu.Unlock()
		if enough {
			return
		}
		var out outcome
		passed := t.Run(tr.name(), func(t *testing.T) {
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("to run this point alone: %s", faultproxy.Again(seed, "TestC16CrashAnywhere", pointsEnv+"="+tr.name()))
				}
			})
			out = l.play(t, tr.scenario, tr.point, &uninterrupted[index(tr.scenario)])
		})
		mu.Lock()
		defer mu.Unlock()
		if out.killed {
			met[tr.scenario.name]++
			total++
		}
		if !passed {
			failed++
		}
	})
	for i, s := range scenarios {
		t.Logf("%-40s %3d writes without a crash; killed at %d points", s.name, uninterrupted[i].writes, met[s.name])
	}
	if only == "" && total < sample && failed == 0 {
		t.Errorf("killed at %d points, want %d", total, sample)
	}
}

// newLanes starts as many lanes as are asked for.
func newLanes(t *testing.T) []*lane {
	t.Helper()
	n := defaultLanes
	if given := os.Getenv(lanesEnv); given != "" {
		var err error
		if n, err = strconv.Atoi(given); err != nil || n < 1 {
			t.Fatalf("%s=%q: write a number from 1", lanesEnv, given)
		}
	}
	var lanes []*lane
	for range n {
		lanes = append(lanes, newLane(t, cluster.Options{}))
	}
	return lanes
}

// choose returns the points to run, in an order that is the seed's and has one of each scenario in turn.
func choose(seed uint64, only string, uninterrupted []outcome) []trial {
	random := rand.New(rand.NewPCG(seed, 16))
	var chosen []trial
	turns := map[string]int{}
	for i, s := range scenarios {
		var points []trial
		for write := 1; write <= uninterrupted[i].writes; write++ {
			points = append(points, trial{s, point{write, false}}, trial{s, point{write, true}})
		}
		random.Shuffle(len(points), func(a, b int) { points[a], points[b] = points[b], points[a] })
		if only != "" && only != "all" {
			points = slices.DeleteFunc(points, func(t trial) bool {
				return t.name() != only && !(strings.HasSuffix(only, "/") && strings.HasPrefix(t.name(), only))
			})
		}
		for turn, p := range points {
			turns[p.name()] = turn
		}
		chosen = append(chosen, points...)
	}
	slices.SortStableFunc(chosen, func(a, b trial) int { return turns[a.name()] - turns[b.name()] })
	return chosen
}

func index(of scenario) int {
	return slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == of.name })
}

// spread has lanes take work off a queue, and returns when all is done.
func spread[T any](lanes []*lane, items []T, do func(*lane, T)) {
	queue := make(chan T, len(items))
	for _, item := range items {
		queue <- item
	}
	close(queue)
	var working sync.WaitGroup
	for _, l := range lanes {
		working.Go(func() {
			for item := range queue {
				do(l, item)
			}
		})
	}
	working.Wait()
}
