package release

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

func TestAViewIsBehindUntilItHasTheLastWrite(t *testing.T) {
	stored := func(name string, uid types.UID, version string) *v1alpha1.GatewayRelease {
		return &v1alpha1.GatewayRelease{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid, ResourceVersion: version}}
	}
	for name, test := range map[string]struct {
		seen   *v1alpha1.GatewayRelease
		later  time.Duration
		behind bool
	}{
		"an older version":                          {stored("a", "1", "9"), 0, true},
		"the version that was written":              {stored("a", "1", "10"), 0, false},
		"a newer version":                           {stored("a", "1", "11"), 0, false},
		"another release":                           {stored("b", "2", "9"), 0, false},
		"a successor of the same name":              {stored("a", "2", "9"), 0, false},
		"an older version long after: a restore":    {stored("a", "1", "9"), maxBehind, false},
		"a version that cannot be compared":         {stored("a", "1", "x"), 0, false},
		"an older version a moment before too long": {stored("a", "1", "9"), maxBehind - 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
			m := newMemory(clock)
			m.wrote(stored("a", "1", "10"))
			clock.SetTime(clock.Now().Add(test.later))
			if got := m.behind(test.seen); got != test.behind {
				t.Errorf("behind: %v", got)
			}
		})
	}
	t.Run("a release that was forgotten", func(t *testing.T) {
		m := newMemory(clocktesting.NewFakePassiveClock(time.Unix(1000, 0)))
		m.wrote(stored("a", "1", "10"))
		m.forget("a")
		if m.behind(stored("a", "1", "9")) {
			t.Error("behind")
		}
	})
}

func TestTheMoreAreUnderWayTheLongerAReleaseWaitsForMoreNews(t *testing.T) {
	for name, test := range map[string]struct {
		window *v1alpha1.RolloutStatus
		want   time.Duration
	}{
		"before the first rollout": {nil, 50 * time.Millisecond},
		"nothing is under way":     {&v1alpha1.RolloutStatus{}, 50 * time.Millisecond},
		"one":                      {&v1alpha1.RolloutStatus{InFlight: make([]v1alpha1.InFlightGateway, 1)}, 5 * time.Millisecond},
		"a hundred":                {&v1alpha1.RolloutStatus{InFlight: make([]v1alpha1.InFlightGateway, 100)}, 10 * time.Millisecond},
		"the largest window":       {&v1alpha1.RolloutStatus{InFlight: make([]v1alpha1.InFlightGateway, 500)}, 50 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			if got := burst(test.window); got != test.want {
				t.Errorf("waits %s, want %s", got, test.want)
			}
		})
	}
}
