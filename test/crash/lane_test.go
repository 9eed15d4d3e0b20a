package crash

import (
	"context"
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/faultproxy"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
	"github.com/gatehouse-dev/gatehouse/test/manager"
	"github.com/gatehouse-dev/gatehouse/test/registry"
)

// patience is how long what should come true at once may take on a slow machine, when nothing else slows it down.
const patience = 60 * time.Second

// lane is an API server with a manager that leads and others that would.
type lane struct {
	product  *fleet.Installation
	registry *registry.Registry
	watcher  *watcher
	history  *faultproxy.History
	managers []*replica // those that live; one of them leads
	dir      string
	started  int
	replicas int   // how many managers there are
	lease    lease // how they lead
	// seed is for the chances of those who are hired from now on.
	seed uint64
	// patience is how long to wait for what comes by and by.
	patience time.Duration
}

// lease is how managers lead.
type lease struct{ duration, renew, retry time.Duration }

// usualLease is one that a slow machine does not lose. Nobody waits for its end: it is vacated.
var usualLease = lease{4 * time.Second, 3 * time.Second, 100 * time.Millisecond}

func (l lease) flags() []string {
	return []string{
		"--lease-duration=" + l.duration.String(), "--renew-deadline=" + l.renew.String(), "--retry-period=" + l.retry.String(),
	}
}

// replica is a manager behind a proxy of its own.
type replica struct {
	*manager.Manager
	proxy *faultproxy.Proxy
}

// newLane starts one; it ends with the test.
func newLane(t *testing.T, o cluster.Options) *lane {
	t.Helper()
	o.APIServerOnly = true
	c := cluster.New(t, o)
	product, err := fleet.Install(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	l := &lane{product: product, registry: registry.Start(t), dir: t.TempDir(), patience: patience, replicas: 2, lease: usualLease}
	l.watcher = watch(t, c.Config)
	if l.history, err = faultproxy.Remember(t.Context(), product.Client); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.dismiss)
	return l
}

// staff sees to it that as many managers live as should and one leads, and returns that one.
func (l *lane) staff(t *testing.T) (leader *replica) {
	t.Helper()
	alive := l.managers[:0]
	for _, r := range l.managers {
		if r.Running() {
			alive = append(alive, r)
		} else {
			r.proxy.Close()
		}
	}
	l.managers = alive
	if len(alive) == 0 {
		if err := l.vacate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for len(l.managers) < l.replicas {
		l.managers = append(l.managers, l.hire(t))
	}
	for _, r := range l.managers {
		r.Ready(t)
	}
	eventually.Succeeds(t, patience, func() error {
		var err error
		leader, err = l.leader(t.Context())
		return err
	})
	return leader
}

func (l *lane) hire(t *testing.T) *replica {
	t.Helper()
	l.started++
	name := fmt.Sprintf("gatehouse-%d", l.started)
	proxy, err := faultproxy.Run(faultproxy.Options{Kubeconfig: l.product.Kubeconfig, Dir: l.dir, Seed: l.seed, Name: name})
	if err != nil {
		t.Fatal(err)
	}
	o := l.product.Manager(name, l.lease.flags()...)
	o.Kubeconfig = proxy.Kubeconfig
	m, err := manager.Run(t.Context(), o)
	if err != nil {
		proxy.Close()
		t.Fatal(err)
	}
	return &replica{Manager: m, proxy: proxy}
}

// vacate ends the lease of whoever holds it, who does not know.
func (l *lane) vacate(ctx context.Context) error {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: fleet.Namespace, Name: "gatehouse-manager"}}
	if err := client.IgnoreNotFound(l.product.Client.Delete(ctx, lease)); err != nil {
		return fmt.Errorf("end the lease: %w", err)
	}
	return nil
}

// dismiss ends all managers.
func (l *lane) dismiss() {
	for _, r := range l.managers {
		r.Kill()
		r.proxy.Close()
	}
	l.managers = nil
}

// leader is the manager that holds the lease.
func (l *lane) leader(ctx context.Context) (*replica, error) {
	holder, err := l.product.Holder(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range l.managers {
		if r.Identity() == holder && r.Running() {
			return r, nil
		}
	}
	return nil, fmt.Errorf("%q leads, which does not live", holder)
}

// led waits until another than the old leader has led for a while, or ctx ends.
func (l *lane) led(ctx context.Context, old *replica, lasting time.Duration) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var since time.Time
	for since.IsZero() || time.Since(since) < lasting {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if leader, err := l.leader(ctx); err == nil && leader != old && since.IsZero() {
			since = time.Now()
		}
	}
}

// stillness is how long no write is sent by managers that have nothing left to do: longer than what a pass waits before
// it starts over after a conflict.
const stillness = 400 * time.Millisecond

// certainty is the same for the end that all other ends are held to: longer than a manager ever has to wait for its turn.
const certainty = 2 * time.Second

// rests waits until no write of a manager's is under way, and none has been sent for a while.
func (l *lane) rests(t *testing.T, lasting time.Duration) {
	t.Helper()
	last, since := -1, time.Now()
	eventually.Succeeds(t, l.patience, func() error {
		begun, pending := 0, 0
		for _, r := range l.managers {
			begun += r.proxy.Begun()
			pending += r.proxy.Pending()
		}
		if begun != last || pending > 0 {
			last, since = begun, time.Now()
		}
		if quiet := time.Since(since); quiet < lasting {
			return fmt.Errorf("the managers have sent nothing for %s only; %d writes are under way", quiet, pending)
		}
		return nil
	})
}
