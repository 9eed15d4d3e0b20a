package bench

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
	"github.com/gatehouse-dev/gatehouse/test/manager"
)

// patience is how long a fleet may take for anything on a machine that does much else.
const patience = 40 * time.Minute

// station is an API server of its own with one fleet and one manager.
type station struct {
	*fleet.Fleet
	kubernetes  client.WithWatch
	deployments *deployments
	manager     *manager.Manager
	profiler
	// empty is what the manager had used before there was anything.
	empty usage
}

// arguments let the manager send as fast as it can, like the floor, keep its lease on a machine that is busy, and come to
// rest: passes over everything in between would be measured as part of the rollout, on such a machine.
var arguments = []string{
	"--kube-api-qps=10000", "--kube-api-burst=10000", fmt.Sprintf("--workers=%d", concurrency),
	"--lease-duration=60s", "--renew-deadline=40s", "--retry-period=2s", "--resync=3h", "--log-level=warn",
}

// newStation sets up a fleet and has the manager install it.
func newStation(tb testing.TB, gateways int, change func(*v1alpha1.GatewayRelease)) *station {
	tb.Helper()
	c, err := cluster.Start(tb.Context(), cluster.Options{Audit: true, APIServerOnly: true})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Stop(); err != nil {
			tb.Error(err)
		}
	})
	installation, err := fleet.Install(tb.Context(), c)
	if err != nil {
		tb.Fatal(err)
	}
	s := &station{deployments: playDeployments(tb, c.Config), profiler: newProfiler(tb)}
	if s.kubernetes, err = fleet.NewClient(c.Config); err != nil {
		tb.Fatal(err)
	}
	s.manager = manager.Start(tb, installation.Manager("gatehouse-0", s.arguments()...))
	s.manager.Ready(tb)
	s.manager.Rest(tb, patience)
	s.empty = usageOf(tb, s.manager.PID())

	s.Fleet = fleet.New(tb, installation, fleet.Options{
		Namespaces: min(gateways, namespaces), Keep: true,
		Release: func(release *v1alpha1.GatewayRelease) {
			release.Spec.Rollout.ProgressDeadline = &metav1.Duration{Duration: time.Hour} // a busy machine is no failure
			if change != nil {
				change(release)
			}
		},
	})
	s.populate(tb, gateways)
	s.ConvergedWithin(tb, s.V1, patience)
	s.manager.Rest(tb, patience)
	return s
}

// namespaces is how many tenants there are.
const namespaces = 20

// populate makes the gateways that are missing.
func (s *station) populate(tb testing.TB, gateways int) {
	tb.Helper()
	first := s.Gateway(tb, 0)
	for n := len(s.Gateways); n < gateways; n++ {
		s.Gateways = append(s.Gateways, client.ObjectKey{Namespace: s.Namespaces[n%len(s.Namespaces)], Name: fmt.Sprintf("gw-%d", n)})
	}
	each(tb, s.Gateways[1:], func(ctx context.Context, key client.ObjectKey) error {
		return s.Client.Create(ctx, &v1alpha1.GatewayInstance{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Spec: *first.Spec.DeepCopy(),
		})
	})
}

// each does something with all items, as many at once as the manager would, and returns how long that took.
func each[T any](tb testing.TB, items []T, do func(context.Context, T) error) time.Duration {
	tb.Helper()
	queue := make(chan T, len(items))
	for _, item := range items {
		queue <- item
	}
	close(queue)
	var failed error
	var once sync.Once
	var workers sync.WaitGroup
	started := time.Now()
	for range concurrency {
		workers.Go(func() {
			for item := range queue {
				if err := do(tb.Context(), item); err != nil {
					once.Do(func() { failed = err })
					return
				}
			}
		})
	}
	workers.Wait()
	if failed != nil {
		tb.Fatal(failed)
	}
	return time.Since(started)
}

// roll edits the release to the image of a tag and follows the rollout until it is complete. It returns how long that took
// and every status that the release had on the way.
func (s *station) roll(tb testing.TB, tag string, digest image.Digest) (time.Duration, []v1alpha1.RolloutStatus) {
	tb.Helper()
	want := s.Pinned(digest)
	events := s.watch(tb, &v1alpha1.GatewayReleaseList{})
	started := time.Now()
	s.SetImage(tb, s.Image(tag))
	var steps []v1alpha1.RolloutStatus
	deadline := time.After(patience)
	for {
		select {
		case event, open := <-events:
			release, ok := event.Object.(*v1alpha1.GatewayRelease)
			if !open || !ok {
				tb.Fatalf("the watch of releases ended: %v", event.Object)
			}
			status := release.Status
			if status.Image != want || status.Rollout == nil {
				continue
			}
			steps = append(steps, *status.Rollout)
			if status.Rollout.State == v1alpha1.RolloutComplete && status.Rollout.Target == status.Revision {
				return time.Since(started), steps
			}
		case <-deadline:
			tb.Fatalf("not complete within %s: %+v", patience, s.Release(tb).Status.Rollout.Fleet)
		}
	}
}

// watch watches everything of a kind, from now, until the benchmark ends.
func (s *station) watch(tb testing.TB, list client.ObjectList) <-chan watch.Event {
	tb.Helper()
	return watchFromNow(tb, s.kubernetes, list)
}

func watchFromNow(tb testing.TB, kubernetes client.WithWatch, list client.ObjectList, chosen ...client.ListOption) <-chan watch.Event {
	tb.Helper()
	if err := kubernetes.List(tb.Context(), list, append(chosen, client.Limit(1))...); err != nil {
		tb.Fatal(err)
	}
	from := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}}
	w, err := kubernetes.Watch(tb.Context(), list, append(chosen, from)...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(w.Stop)
	return w.ResultChan()
}

// sent are the manager's writes that arrived at a time or later, but for its lease.
func (s *station) sent(tb testing.TB, since time.Time) []cluster.AuditEvent {
	tb.Helper()
	// Of the whole log: finding a mark in it reads all of it as well.
	events, err := s.Sent(tb.Context(), 0, func(e cluster.AuditEvent) bool { return !e.Time.Before(since) })
	if err != nil {
		tb.Fatal(err)
	}
	return events
}
