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
		again  time.Duration
	}{
		"an older version":                          {stored("a", "1", "9"), 0, true, leastBehindRetry},
		"an older version after a while":            {stored("a", "1", "9"), 2 * time.Second, true, time.Second / 2},
		"the version that was written":              {stored("a", "1", "10"), 0, false, 0},
		"a newer version":                           {stored("a", "1", "11"), 0, false, 0},
		"another release":                           {stored("b", "2", "9"), 0, false, 0},
		"a successor of the same name":              {stored("a", "2", "9"), 0, false, 0},
		"an older version long after: a restore":    {stored("a", "1", "9"), maxBehind, false, 0},
		"a version that cannot be compared":         {stored("a", "1", "x"), 0, false, 0},
		"an older version a moment before too long": {stored("a", "1", "9"), maxBehind - 1, true, mostBehindRetry},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
			m := newMemory(clock)
			m.wrote(stored("a", "1", "10"))
			clock.SetTime(clock.Now().Add(test.later))
			if again, got := m.behind(test.seen); got != test.behind || again != test.again {
				t.Errorf("behind: %v, to be looked at again in %s", got, again)
			}
		})
	}
	t.Run("a release that was forgotten", func(t *testing.T) {
		m := newMemory(clocktesting.NewFakePassiveClock(time.Unix(1000, 0)))
		m.wrote(stored("a", "1", "10"))
		m.forget("a")
		if _, behind := m.behind(stored("a", "1", "9")); behind {
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
