package rollout

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// midRollout is a fleet half of which has moved, with a full window.
func midRollout(size int) Input {
	in := Input{
		Release: "stable", UID: "b7f3c1de-0000-4000-8000-000000000000", Accepted: "v2",
		Spec: v1alpha1.RolloutSpec{MaxUnavailable: ptr(intstr.FromString("10%"))},
		Status: &v1alpha1.RolloutStatus{
			Attempt: 2, Target: "v2", Stable: "v1", StableAttempt: 1,
		},
		Now: time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC),
	}
	for i := range size {
		m := gateway(fmt.Sprintf("edge-%06d", i), runs("v1", 1), ready)
		m.UID = "5d2f0b5a-0000-4000-8000-" + m.UID[len("uid-edge-"):]
		if i%2 == 0 {
			runs("v2", 2)(&m)
			wasReady(&m)
		}
		in.Fleet = append(in.Fleet, m)
	}
	plan := Next(in)
	in.Status = &plan.Status
	return in
}

func BenchmarkNext(b *testing.B) {
	for _, size := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			in := midRollout(size)
			b.ReportAllocs()
			for b.Loop() {
				Next(in)
			}
		})
	}
}

func TestAPlanAllocatesByItsWindowAndNotByItsFleet(t *testing.T) {
	// Both fleets fill a window of 100.
	allocations := func(size int) float64 {
		in := midRollout(size)
		in.Spec.MaxUnavailable = ptr(intstr.FromInt32(100))
		in.Status = &v1alpha1.RolloutStatus{Attempt: 2, Target: "v2", Stable: "v1", StableAttempt: 1}
		return testing.AllocsPerRun(5, func() { Next(in) })
	}
	if small, large := allocations(1_000), allocations(20_000); large > small+10 {
		t.Errorf("%v allocations for 1,000 gateways and %v for 20,000", small, large)
	}
}
