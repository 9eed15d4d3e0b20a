package bench

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/benchreport"
)

// BenchmarkAdmission measures how long a slot of the window stays empty: from the moment when a gateway has converged,
// to the one when the next is admitted. Both are seen by the same watcher. The floor is one write of a gateway's status
// by a bare client, measured beside the rollout: a write takes longer on an API server that has much to do.
func BenchmarkAdmission(b *testing.B) {
	for _, size := range []struct {
		gateways int
		limit    float64
	}{{100, 0}, {1000, 10}} {
		b.Run(fmt.Sprint(size.gateways), func(b *testing.B) { measureAdmission(b, &figures, size.gateways, 10, size.limit) })
	}
}

func measureAdmission(tb testing.TB, to *benchreport.Report, gateways, budget int, limit float64) {
	tb.Helper()
	s := newStation(tb, gateways, func(release *v1alpha1.GatewayRelease) {
		release.Spec.Rollout.MaxUnavailable = ptr.To(intstr.FromInt(budget))
	})
	fleet, release := s.watch(tb, &v1alpha1.GatewayInstanceList{}), s.watch(tb, &v1alpha1.GatewayReleaseList{})
	ctx, cancel := context.WithCancel(tb.Context())
	defer cancel()
	followed := make(chan moments, 1)
	v2 := s.Push(tb, "v2")
	go func() { followed <- follow(ctx, fleet, release, s.Pinned(v2)) }()
	writes := s.writeBeside(ctx, tb)
	took, steps := s.roll(tb, "v2", v2)
	cancel()
	seen := <-followed
	s.manager.Rest(tb, patience)
	s.ConvergedWithin(tb, v2, time.Minute)

	// The first of them were admitted into an empty window, with nobody's leaving. The k-th that left made room for the
	// k-th after those.
	var waits []time.Duration
	for k, left := range seen.converged {
		if next := budget + k; next < len(seen.admitted) {
			waits = append(waits, max(seen.admitted[next].Sub(left), 0))
		}
	}
	if len(waits) == 0 {
		tb.Fatalf("%d gateways converged and %d were admitted: nothing to measure", len(seen.converged), len(seen.admitted))
	}
	beside := <-writes
	if len(beside) == 0 {
		tb.Fatal("no write went through beside the rollout: there is no floor")
	}
	one := percentile(beside, 50)
	name := func(what string) string { return fmt.Sprintf("Admission/%d of %d %s", budget, gateways, what) }
	to.Against(name("converged to next admitted, p50"), milliseconds(percentile(waits, 50)), milliseconds(one), "ms", limit)
	to.Against(name("converged to next admitted, p99"), milliseconds(percentile(waits, 99)), milliseconds(one), "ms", 0)
	to.Figure(name("converged to next admitted, p90"), milliseconds(percentile(waits, 90)), "ms")
	to.Figure(name("edit to converged"), took.Seconds(), "s")
	to.Figure(name("writes of the release"), float64(len(steps)), "requests")
}

// moments are when gateways were seen to converge and to be admitted, in order.
type moments struct{ converged, admitted []time.Time }

// follow watches a rollout until ctx ends.
func follow(ctx context.Context, fleet, release <-chan watch.Event, target string) moments {
	var out moments
	converged, admitted := map[types.UID]bool{}, map[types.UID]bool{}
	for {
		select {
		case <-ctx.Done():
			return out
		case event := <-fleet:
			gateway, ok := event.Object.(*v1alpha1.GatewayInstance)
			if !ok || gateway.Status.Image != target || converged[gateway.UID] || !meta.IsStatusConditionTrue(gateway.Status.Conditions, v1alpha1.ConditionReady) {
				continue
			}
			converged[gateway.UID] = true
			out.converged = append(out.converged, time.Now())
		case event := <-release:
			release, ok := event.Object.(*v1alpha1.GatewayRelease)
			if !ok || release.Status.Image != target || release.Status.Rollout == nil {
				continue
			}
			for _, entry := range release.Status.Rollout.InFlight {
				if !admitted[entry.UID] {
					admitted[entry.UID] = true
					out.admitted = append(out.admitted, time.Now())
				}
			}
		}
	}
}

// pace is how often the floor of admission is measured: so seldom that it is no load.
const pace = 50 * time.Millisecond

// writeBeside writes the status of a gateway that belongs to no fleet, again and again until ctx ends, and returns how
// long each write has taken.
func (s *station) writeBeside(ctx context.Context, tb testing.TB) <-chan []time.Duration {
	tb.Helper()
	stray := s.Gateway(tb, 0)
	stray = &v1alpha1.GatewayInstance{ObjectMeta: metav1.ObjectMeta{Namespace: stray.Namespace, Name: "stray"}, Spec: *stray.Spec.DeepCopy()}
	stray.Spec.ReleaseRef.Name = "none"
	s.Make(tb, stray)
	s.manager.Rest(tb, patience)
	b := newBare(tb, s.Kubeconfig)
	took := make(chan []time.Duration, 1)
	go func() {
		var all []time.Duration
		ticker := time.NewTicker(pace)
		defer ticker.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				took <- all
				return
			case <-ticker.C:
			}
			started := time.Now()
			// Nobody decides by what is said to run.
			err := b.send(ctx, write{
				"PATCH", fmt.Sprintf("/apis/gatehouse.dev/v1alpha1/namespaces/%s/gatewayinstances/%s/status", stray.Namespace, stray.Name),
				v1alpha1.FieldOwnerGateway, types.MergePatchType, fmt.Appendf(nil, `{"status":{"image":"bench/%d"}}`, n),
			})
			if err == nil {
				all = append(all, time.Since(started))
			} else if ctx.Err() == nil {
				tb.Errorf("write beside the rollout: %v", err)
			}
		}
	}()
	return took
}

func percentile(values []time.Duration, p int) time.Duration {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)*p/100, len(sorted)-1)]
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
