package crash

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/faultproxy"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
	"github.com/gatehouse-dev/gatehouse/test/manager"
	"github.com/gatehouse-dev/gatehouse/test/registry"
)

// patience is how long what should come true at once may take on a slow machine.
const patience = 60 * time.Second

// lane is an API server with a manager that leads and one that would.
type lane struct {
	product  *fleet.Installation
	registry *registry.Registry
	watcher  *watcher
	managers []*replica // those that live; one of them leads
	dir      string
	started  int
}

// replica is a manager behind a proxy of its own.
type replica struct {
	*manager.Manager
	proxy *faultproxy.Proxy
}

// newLane starts one; it ends with the test.
func newLane(t *testing.T) *lane {
	t.Helper()
	c := cluster.New(t, cluster.Options{APIServerOnly: true})
	product, err := fleet.Install(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	l := &lane{product: product, registry: registry.Start(t), dir: t.TempDir()}
	l.watcher = watch(t, c.Config)
	t.Cleanup(func() {
		for _, r := range l.managers {
			r.Kill()
			r.proxy.Close()
		}
	})
	return l
}

// staff sees to it that two managers live and one leads, and returns that one.
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
	for len(l.managers) < 2 {
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
	proxy, err := faultproxy.Run(faultproxy.Options{Kubeconfig: l.product.Kubeconfig, Dir: l.dir})
	if err != nil {
		t.Fatal(err)
	}
	l.started++
	o := l.product.Manager(fmt.Sprintf("gatehouse-%d", l.started),
		"--lease-duration=1500ms", "--renew-deadline=1s", "--retry-period=200ms")
	o.Kubeconfig = proxy.Kubeconfig
	m, err := manager.Run(t.Context(), o)
	if err != nil {
		proxy.Close()
		t.Fatal(err)
	}
	return &replica{Manager: m, proxy: proxy}
}

// leader is the manager that holds the lease.
func (l *lane) leader(ctx context.Context) (*replica, error) {
	lease := &coordinationv1.Lease{}
	if err := l.product.Client.Get(ctx, client.ObjectKey{Namespace: fleet.Namespace, Name: "gatehouse-manager"}, lease); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, errors.New("nobody leads")
		}
		return nil, err
	}
	holder := ptr.Deref(lease.Spec.HolderIdentity, "")
	for _, r := range l.managers {
		if r.Identity() == holder && r.Running() {
			return r, nil
		}
	}
	return nil, fmt.Errorf("%q leads, which does not live", holder)
}

// begun is how many writes of state the managers that live have sent.
func (l *lane) begun() int {
	n := 0
	for _, r := range l.managers {
		n += r.proxy.Begun()
	}
	return n
}

// stillness is how long no write is sent by managers that have nothing left to do: longer than what a pass waits before
// it starts over after a conflict.
const stillness = 400 * time.Millisecond

// rests waits until no manager has sent a write for a while.
func (l *lane) rests(t *testing.T) {
	t.Helper()
	last, since := -1, time.Now()
	eventually.Succeeds(t, patience, func() error {
		if now := l.begun(); now != last {
			last, since = now, time.Now()
		}
		if quiet := time.Since(since); quiet < stillness {
			return fmt.Errorf("the managers have sent nothing for %s only", quiet)
		}
		return nil
	})
}
