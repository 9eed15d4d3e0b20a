package release

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

const (
	// A cache that is behind is looked at again soon, and the longer it lags the more rarely: it is a sign of an API server
	// that has enough to do.
	leastBehindRetry = 5 * time.Millisecond
	mostBehindRetry  = time.Second
	// maxBehind is how long a cache may be behind. What is remembered longer than that is wrong: the API server's store
	// was set back, and its versions begin anew.
	maxBehind = 30 * time.Second
)

// memory is what this process remembers of its own last writes of releases: their versions, by which it knows that the
// cache is behind. A pass over such a view would plan what is planned already, and be refused. Losing it costs such a
// pass.
type memory struct {
	clock    clock.PassiveClock
	mu       sync.Mutex
	releases map[string]written
}

type written struct {
	uid     types.UID
	version string
	at      time.Time
}

func newMemory(clock clock.PassiveClock) *memory {
	return &memory{clock: clock, releases: map[string]written{}}
}

// behind says whether a release was written in a version that this view of it does not have: then in what time to look
// again.
func (m *memory) behind(seen *v1alpha1.GatewayRelease) (again time.Duration, behind bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, found := m.releases[seen.Name]
	if !found {
		return 0, false
	}
	order, err := resourceversion.CompareResourceVersion(seen.ResourceVersion, last.version)
	if lag := m.clock.Since(last.at); last.uid == seen.UID && err == nil && order < 0 && lag < maxBehind {
		return max(leastBehindRetry, min(lag/4, mostBehindRetry)), true
	}
	delete(m.releases, seen.Name)
	return 0, false
}

// wrote remembers the version of a release after its status was written.
func (m *memory) wrote(release *v1alpha1.GatewayRelease) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.releases[release.Name] = written{release.UID, release.ResourceVersion, m.clock.Now()}
}

// forget drops a release that is gone.
func (m *memory) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.releases, name)
}
