package soak

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/faultproxy"
)

// lengthEnv is how long edits and faults go on.
const lengthEnv = "SOAK"

// inCI is the length of what every change has to stand.
const inCI = 2 * time.Minute

const (
	// settling is within what time everything is as the specs say, once nothing goes wrong any more: on a slow machine.
	// Of it the longest back-off is two minutes.
	settling = 8 * time.Minute
	// atRest is how long nothing may be sent then: a tenth of the length, but for these bounds.
	leastRest, mostRest = 20 * time.Second, time.Minute
	// onceMore is how long a new process may take to pass over everything.
	onceMore = 4 * time.Minute
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

func length(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv(lengthEnv)
	if text == "" && os.Getenv("CI") != "" {
		return inCI
	}
	if text == "" {
		t.Skipf("it takes minutes: run make soak, or set %s to how long edits and faults go on", lengthEnv)
	}
	length, err := time.ParseDuration(text)
	if err != nil || length < 10*time.Second {
		t.Fatalf("%s=%s: write a duration of at least 10s, as 20m or 1h", lengthEnv, text)
	}
	return length
}

// Everybody edits everything while everything goes wrong. Afterwards all is as the specs say, nothing is sent, nothing
// is retried, and the process has not grown.
func TestSoak(t *testing.T) {
	length := length(t)
	seed := faultproxy.Seed(t, lengthEnv+"="+length.String())
	t.Logf("%s of edits and faults", length)

	w := newWorld(t, seed)
	c := w.staffed(t, seed)
	t.Cleanup(func() { w.dump(t, c) })
	began := time.Now()
	eventually.Succeeds(t, settling, func() error { return w.converged(t.Context()) })
	t.Logf("%d gateways were installed within %s", len(w.gateways), time.Since(began).Round(time.Second))

	w.soak(t, c, length)
	c.flat(t, length)

	began = time.Now()
	c.clear(t)
	w.workloads.calm()
	w.lastWord(t)
	eventually.Succeeds(t, settling, func() error { return w.converged(t.Context()) })
	w.workloads.settled(t)
	c.rest(t, settling)
	t.Logf("everything was as the specs say within %s", time.Since(began).Round(time.Second))

	w.rests(t, c, min(max(length/10, leastRest), mostRest))
	w.grown(t, c)
}

// soak lets people edit, and the weather change, for a while.
func (w *world) soak(t *testing.T, c *controlPlane, length time.Duration) {
	t.Helper()
	people := rand.New(rand.NewPCG(w.seed, 1))
	weather := rand.New(rand.NewPCG(w.seed, 2))
	ends := time.NewTimer(length)
	defer ends.Stop()
	edit, change, sample := time.NewTimer(0), time.NewTimer(0), time.NewTicker(sampling)
	defer edit.Stop()
	defer change.Stop()
	defer sample.Stop()
	began := time.Now()
	for {
		select {
		case <-ends.C:
			t.Logf("%d edits: %s", w.edited(), w.tally())
			t.Logf("faults: %s", c.tally())
			return
		case <-edit.C:
			if err := w.edit(t, people); err != nil {
				t.Fatal(err)
			}
			edit.Reset(w.pace(people))
		case <-change.C:
			// What is measured is the last process, so nobody is killed in the later part.
			early := time.Since(began) < length*2/5
			change.Reset(c.change(t, weather, early))
		case <-sample.C:
			c.measure(t.Context())
		}
	}
}

// rests holds that nothing is sent, and nothing retried, over what has converged.
func (w *world) rests(t *testing.T, c *controlPlane, atRest time.Duration) {
	t.Helper()
	mark, err := w.product.Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before, passes := c.troubles(t), c.manager.Passes(t)
	eventually.Holds(t, atRest, func() error {
		if !c.manager.Running() {
			return fmt.Errorf("%s has ended", c.manager.Identity())
		}
		return nil
	})
	w.silent(t, mark)
	if after := c.troubles(t); after != before {
		t.Errorf("at rest passes went wrong: %+v before, %+v %s later", before, after, atRest)
	}
	// Tags are looked up every five seconds, and the resync comes by.
	made := c.manager.Passes(t)
	if made.Gateway-passes.Gateway > float64(len(w.gateways)) || made.Release-passes.Release > float64(30*len(w.releases)) {
		t.Errorf("at rest there were passes all the time: %+v before, %+v %s later", passes, made, atRest)
	}
}

// silent holds that nothing was sent since a mark.
func (w *world) silent(t *testing.T, since cluster.Mark) {
	t.Helper()
	sent, err := w.product.Sent(t.Context(), since)
	if err != nil {
		t.Fatal(err)
	}
	for i, event := range sent {
		if i == 10 {
			break
		}
		t.Errorf("sent at rest: %s", event)
	}
	if len(sent) > 0 {
		t.Errorf("%d mutating requests at rest", len(sent))
	}
}
