package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/faultproxy"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
	"github.com/gatehouse-dev/gatehouse/test/manager"
)

// controlPlane is the manager that is running, behind a proxy of its own.
type controlPlane struct {
	product *fleet.Installation
	dir     string
	seed    uint64
	started int

	manager *manager.Manager
	proxy   *faultproxy.Proxy
	profile string // address of its profiles
	samples []sample
	served  bool           // it has been seen at work
	seen    map[string]int // weathers
}

// staffed starts a manager.
func (w *world) staffed(t *testing.T, seed uint64) *controlPlane {
	t.Helper()
	c := &controlPlane{product: w.product, dir: t.TempDir(), seed: seed, seen: map[string]int{}}
	t.Cleanup(func() { c.end(t) })
	c.start(t)
	c.manager.Ready(t)
	return c
}

// start runs a manager under the name of the one before, whose lease it so takes over.
func (c *controlPlane) start(t *testing.T) {
	t.Helper()
	c.started++
	proxy, err := faultproxy.Run(faultproxy.Options{Kubeconfig: c.product.Kubeconfig, Dir: c.dir, Seed: c.seed + uint64(c.started)})
	if err != nil {
		t.Fatal(err)
	}
	if c.profile, err = freeAddress(); err != nil {
		t.Fatal(err)
	}
	options := c.product.Manager("gatehouse-0", "--pprof-bind-address="+c.profile)
	options.Kubeconfig = proxy.Kubeconfig
	m, err := manager.Run(t.Context(), options)
	if err != nil {
		proxy.Close()
		t.Fatal(err)
	}
	c.manager, c.proxy, c.samples, c.served = m, proxy, nil, false
}

// end kills the manager; one that has blundered fails the test.
func (c *controlPlane) end(t *testing.T) {
	t.Helper()
	c.manager.Kill()
	c.proxy.Close()
	c.manager.Check(t)
}

// change lets the weather change, and says when it does again. Early on, the manager is killed now and then.
func (c *controlPlane) change(t *testing.T, by *rand.Rand, early bool) time.Duration {
	t.Helper()
	// Whatever is drawn is drawn in any case, so that a seed's weather does not depend on how fast the machine is.
	next, lasts := draw(by)
	kill, relist := by.IntN(3) == 0, by.IntN(2) == 0
	c.revive(t)
	if kill && early {
		c.seen["manager killed"]++
		c.end(t)
		c.start(t)
	} else if relist {
		c.proxy.Relist(everything)
	}
	c.seen[next.name]++
	c.proxy.Script(next.rules...)
	c.proxy.Distort(next.watch...)
	return lasts
}

// revive plays the kubelet: a manager that could not start, because nobody was there to start with, is started again. One
// that has been at work must not end by itself.
func (c *controlPlane) revive(t *testing.T) {
	t.Helper()
	switch {
	case c.manager.Running():
	case c.served:
		t.Fatalf("%s has ended by itself:\n%s", c.manager.Identity(), tail(c.manager.Log()))
	default:
		c.seen["manager could not start"]++
		c.end(t)
		c.start(t)
	}
}

// clear ends all faults. Whoever has lost events learns of them by listing again, as in time everybody does.
func (c *controlPlane) clear(t *testing.T) {
	t.Helper()
	c.revive(t)
	c.proxy.Script()
	c.proxy.Distort()
	c.proxy.Relist(everything)
}

func (c *controlPlane) tally() string { return tally(c.seen) }

func tail(log string) string { return log[max(0, len(log)-6000):] }

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String(), nil
}

// troubles are passes and watches that have gone wrong so far.
type troubles struct{ errors, conflicts, transient, watches float64 }

func (c *controlPlane) troubles(t *testing.T) troubles {
	t.Helper()
	metrics, err := c.manager.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	passes := func(outcome string) float64 {
		return metrics.Sum("gatehouse_reconcile_total", map[string]string{"outcome": outcome})
	}
	return troubles{passes("error"), passes("conflict"), passes("transient"), metrics.Sum("gatehouse_watch_errors_total", nil)}
}

// restsFor is how long no gateway is passed over by a manager that has nothing left to do.
const restsFor = 3 * time.Second

// rest waits until nothing is done any more. Releases are passed over all the time, because their tags may move.
func (c *controlPlane) rest(t *testing.T, timeout time.Duration) {
	t.Helper()
	last, since := c.manager.Passes(t).Gateway, time.Now()
	eventually.Succeeds(t, timeout, func() error {
		if now := c.manager.Passes(t).Gateway; now != last {
			last, since = now, time.Now()
		}
		if quiet := time.Since(since); quiet < restsFor {
			return fmt.Errorf("no gateway has been passed over for %s only", quiet)
		}
		return nil
	})
}

// sample is what the process held at a moment.
type sample struct {
	resident, heap float64 // bytes; heap is what is alive, as of a collection that was asked for
	goroutines     float64
}

func (s sample) String() string {
	return fmt.Sprintf("%.1f MiB resident, %.1f MiB alive, %.0f goroutines", s.resident/(1<<20), s.heap/(1<<20), s.goroutines)
}

// sampling is how often the process is measured.
const sampling = 2 * time.Second

// measure adds a sample, if the manager answers.
func (c *controlPlane) measure(ctx context.Context) {
	if metrics, err := c.manager.Metrics(ctx); err == nil {
		c.samples = append(c.samples, sample{
			resident:   metrics.Sum("process_resident_memory_bytes", nil),
			goroutines: metrics.Sum("go_goroutines", nil),
		})
		c.served = c.served || metrics.Sum("gatehouse_reconcile_total", nil) > 0
	}
}
