package podstatus

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// patience is for how long a report is taken to be there that the cache does not show. After that the API server is
// asked: what came and went between two watches is announced by no event.
const patience = 15 * time.Second

// latest knows what this process has stored and its cache does not show yet. Without it a pass that follows close upon
// another would write from what the first has just replaced, which costs a request that is refused. What is lost of it
// costs such a request and nothing else.
type latest struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	known map[string]stored // by the report's name
}

// stored is a report as the API server had it last; without an object it was deleted.
type stored struct {
	object *v1alpha1.ExecutorPodStatus
	uid    types.UID
	since  time.Time
}

func newLatest(c clock.PassiveClock) *latest { return &latest{clock: c, known: map[string]stored{}} }

// is takes in what the API server has answered.
func (l *latest) is(object *v1alpha1.ExecutorPodStatus) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known[object.Name] = stored{object.DeepCopy(), object.UID, l.clock.Now()}
}

// gone takes in that the report with a UID is not there any more.
func (l *latest) gone(name string, uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known[name] = stored{nil, uid, l.clock.Now()}
}

// forget leaves it to the cache again.
func (l *latest) forget(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.known, name)
}

// of is the newer of what the cache shows and what is known, nil if there is no such report. Where only the knowledge
// says that there is one, doubt says when to ask the API server.
func (l *latest) of(name string, cached *v1alpha1.ExecutorPodStatus) (report *v1alpha1.ExecutorPodStatus, doubt time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known, ok := l.known[name]
	switch {
	case !ok:
		return cached, time.Time{}
	case known.object == nil:
		if cached != nil && cached.UID == known.uid {
			return nil, time.Time{}
		}
		return cached, time.Time{}
	case cached == nil:
		return known.object, known.since.Add(patience)
	case newer(known.object, cached):
		return known.object, time.Time{}
	}
	return cached, time.Time{}
}

// news takes in an event of the cache, which shows by now what the event tells, and reports whether it is any.
func (l *latest) news(object *v1alpha1.ExecutorPodStatus, deleted, certain bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	known, ok := l.known[object.Name]
	switch {
	case !ok:
		return true
	case known.object == nil:
		if known.uid != object.UID {
			return true // another, made since
		}
		if deleted {
			delete(l.known, object.Name)
		}
		return false
	case deleted && !certain: // of when the object is, is not said
		delete(l.known, object.Name)
		return true
	case newer(known.object, object):
		return false
	}
	delete(l.known, object.Name)
	return deleted || object.ResourceVersion != known.object.ResourceVersion
}

// newer reports whether a is certainly of after b.
func newer(a, b *v1alpha1.ExecutorPodStatus) bool {
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return err == nil && order > 0
}
