package gateway

import (
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errBehind says that a cache has not seen this process's own last write yet. A pass over such a view would repeat it.
var errBehind = errors.New("the cache is behind the last write")

// memory is what this process remembers of its own last writes: their versions, by which it knows that a cache is
// behind, and the marks that are not in status yet. Losing it costs one apply that changes nothing.
type memory struct {
	clock    clock.PassiveClock
	mu       sync.Mutex
	gateways map[types.NamespacedName]*recollection
}

type recollection struct {
	uid      types.UID
	status   string // version of the gateway after its status was written
	versions map[id]string
	marks    marks
	// behind is since when no view was as new as what is remembered or stored.
	behind time.Time
}

// maxBehind is how long a cache may be behind. What is remembered longer than that is wrong: the API server's store was
// set back, and its versions begin anew.
const maxBehind = 30 * time.Second

func newMemory(clock clock.PassiveClock) *memory {
	return &memory{clock: clock, gateways: map[types.NamespacedName]*recollection{}}
}

func (m *memory) forget(gateway types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.gateways, gateway)
}

func (m *memory) of(work *work) *recollection {
	key := client.ObjectKeyFromObject(work.gateway)
	found := m.gateways[key]
	if found == nil || found.uid != work.gateway.UID {
		found = &recollection{uid: work.gateway.UID, versions: map[id]string{}, marks: marks{}}
		m.gateways[key] = found
	}
	return found
}

// recall completes the marks of a pass, or says that its view is behind. What a cache has caught up with is forgotten.
func (m *memory) recall(work *work) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.of(work)
	if known.newerThan(work) {
		if known.behind.IsZero() || m.clock.Since(known.behind) < maxBehind {
			return errBehind
		}
		delete(m.gateways, client.ObjectKeyFromObject(work.gateway))
		return nil
	}
	for key := range known.versions {
		if _, found := work.live[key]; found {
			delete(known.versions, key)
		}
	}
	for key, mark := range known.marks {
		if work.marks[key] == mark {
			delete(known.marks, key)
			continue
		}
		work.marks[key] = mark
	}
	return nil
}

// newerThan says whether something is remembered in a version that the pass has not seen.
func (k *recollection) newerThan(work *work) bool {
	if older(work.gateway.ResourceVersion, k.status) {
		return true
	}
	for key, version := range k.versions {
		if object, found := work.live[key]; found && older(object.GetResourceVersion(), version) {
			return true
		}
	}
	return false
}

// applied remembers an object that was just written.
func (m *memory) applied(work *work, key id, version, mark string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.of(work)
	known.versions[key], known.marks[key] = version, mark
}

// gone forgets an object that was just deleted.
func (m *memory) gone(work *work, key id) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.of(work)
	delete(known.versions, key)
	delete(known.marks, key)
}

// wrote remembers the version of the gateway after a pass, which may have written its status.
func (m *memory) wrote(work *work) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.of(work)
	known.status, known.behind = work.gateway.ResourceVersion, time.Time{}
}

const (
	// A cache that is behind is looked at again soon, and the longer it lags the more rarely: it is a sign of an API server
	// that has enough to do.
	leastBehindRetry = 20 * time.Millisecond
	mostBehindRetry  = time.Second
)

// again is in what time a gateway is to be looked at again whose view is behind.
func (m *memory) again(work *work) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, now := m.of(work), m.clock.Now()
	if known.behind.IsZero() {
		known.behind = now
	}
	return max(leastBehindRetry, min(now.Sub(known.behind)/4, mostBehindRetry))
}

// older compares versions of one object; what cannot be compared is not older.
func older(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
