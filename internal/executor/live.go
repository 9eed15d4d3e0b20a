package executor

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/image"
)

// Served is what a replica serves of one Executor. It is immutable.
type Served struct {
	// Name is the Executor's; without a namespace it is the cluster's.
	Name types.NamespacedName
	// UID is the Executor's: one that is created anew under the same name is another.
	UID types.UID
	// Scopes are those of the present spec, whether it was built or not.
	Scopes []Scope
	// BuiltFor are the scopes of the spec whose build serves, where that is not the present one: it says nothing of other
	// images.
	BuiltFor []Scope
	// Mode and Tenancy are those of the spec whose build serves, or of the present one where that demands more; without a
	// build they are the present spec's.
	Mode    v1alpha1.Mode
	Tenancy v1alpha1.Tenancy
	// Generation is that of the spec whose build serves; zero without one.
	Generation int64
	// Attempted is the generation that was last attempted, whatever came of it.
	Attempted int64
	// Compiled is the build; nil means that images in scope cannot be decided.
	Compiled *Compiled
	// Expires is when the build may no longer serve, because what it trusts could not be read for so long; zero is never.
	Expires time.Time
	// Problem is why there is no build, or why it is not the one of the present spec.
	Problem string
	// Away says that there is no build of the present spec only because the API server did not answer.
	Away bool
	// instead is the present spec where another one's build serves, and insteadKey the fingerprint of what it did not compile
	// from.
	instead    *v1alpha1.ExecutorSpec
	insteadKey string
}

// String names the Executor.
func (s *Served) String() string { return Describe(s.Name) }

// Describe is an Executor's kind and name, for messages.
func Describe(name types.NamespacedName) string {
	if name.Namespace == "" {
		return "Executor " + name.Name
	}
	return "NamespacedExecutor " + name.String()
}

// Live is the set of Executors that this replica serves from. Lookups take no lock and wait for nobody; a change swaps
// the whole set.
type Live struct {
	clock   clock.PassiveClock
	current atomic.Pointer[snapshot]

	mu          sync.Mutex // of those who change it
	served      map[types.NamespacedName]*Served
	initial     initial
	subscribers []subscriber
}

// snapshot is the live set at one moment.
type snapshot struct {
	// tables holds the Executors of each namespace by scope; the cluster's are under the empty name.
	tables map[string]table
	// awaited are the namespaces of which not every Executor of the initial list has been attempted. It tells nothing
	// before listed, which is zero until there is that list.
	awaited map[string]struct{}
	listed  time.Time
}

// table finds Executors by scope: all that have exactly this one, sorted by name.
type table map[Scope][]*Served

// NewLive makes an empty set, which is not ready until its initial list has been attempted.
func NewLive(clock clock.PassiveClock) *Live {
	l := &Live{clock: clock, served: map[types.NamespacedName]*Served{}, initial: newInitial()}
	l.current.Store(&snapshot{tables: map[string]table{}})
	return l
}

// Put serves s from now on, in place of what was served under its name.
func (l *Live) Put(s *Served) {
	l.mu.Lock()
	before := l.served[s.Name]
	l.served[s.Name] = s
	woken := func() {}
	if before == nil || !same(before, s) {
		l.swap(s.Name.Namespace)
		woken = l.announce(Change{Name: s.Name, Scopes: union(before, s)})
	}
	settled := l.attempt(s.Name)
	l.mu.Unlock()
	woken()
	settled()
}

// Remove serves an Executor no longer. Removing one that is not there does nothing.
func (l *Live) Remove(name types.NamespacedName) {
	l.mu.Lock()
	before := l.served[name]
	woken := func() {}
	if before != nil {
		delete(l.served, name)
		l.swap(name.Namespace)
		woken = l.announce(Change{Name: name, Scopes: before.Scopes})
	}
	settled := l.attempt(name)
	l.mu.Unlock()
	woken()
	settled()
}

// Served is what is served under a name; nil if there is nothing.
func (l *Live) Served(name types.NamespacedName) *Served {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.served[name]
}

// Names are those of all Executors that are served, of both kinds, in no order.
func (l *Live) Names() []types.NamespacedName {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.served))
}

// same reports whether a lookup could not tell one from the other.
func same(a, b *Served) bool {
	return a.UID == b.UID && slices.Equal(a.Scopes, b.Scopes) && slices.Equal(a.BuiltFor, b.BuiltFor) &&
		a.Mode == b.Mode && a.Tenancy == b.Tenancy && a.Generation == b.Generation && a.Compiled == b.Compiled &&
		a.Expires.Equal(b.Expires) && a.Problem == b.Problem && a.Away == b.Away &&
		a.insteadKey == b.insteadKey
}

func union(before, now *Served) []Scope {
	if before == nil {
		return now.Scopes
	}
	all := slices.Concat(before.Scopes, now.Scopes)
	slices.SortFunc(all, compareScopes)
	return slices.Compact(all)
}

// swap makes the table of a namespace anew and the set with it.
func (l *Live) swap(namespace string) {
	now := l.current.Load()
	next := *now
	next.tables = maps.Clone(now.tables)
	t := table{}
	for name, s := range l.served {
		if name.Namespace != namespace {
			continue
		}
		for _, scope := range s.Scopes {
			t[scope] = append(t[scope], s)
		}
	}
	for _, equals := range t {
		slices.SortFunc(equals, func(a, b *Served) int { return strings.Compare(a.Name.Name, b.Name.Name) })
	}
	if next.tables[namespace] = t; len(t) == 0 {
		delete(next.tables, namespace)
	}
	l.current.Store(&next)
}

// Change is a change of what is served.
type Change struct {
	// Name is the Executor's; without a name, all of the namespace, or of the cluster, have been attempted by now.
	Name types.NamespacedName
	// Scopes are those before and after.
	Scopes []Scope
}

// Concerns reports whether images of a repository may be judged otherwise than before.
func (c Change) Concerns(ref image.Reference) bool {
	return slices.ContainsFunc(c.Scopes, func(s Scope) bool { return s.Covers(ref) })
}

type subscriber struct {
	ctx   context.Context
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
	wake  func(context.Context, Change) []reconcile.Request
}

// Changes wakes, in the controller that watches it, those whom wake names for each change. What changes before a
// controller watches is not kept: a controller looks everything up in its first passes.
func (l *Live) Changes(wake func(context.Context, Change) []reconcile.Request) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.subscribers = append(l.subscribers, subscriber{ctx, queue, wake})
		return nil
	})
}

// announce returns what tells a change, to be called without the lock.
func (l *Live) announce(change Change) func() {
	subscribers := slices.Clone(l.subscribers)
	return func() {
		for _, s := range subscribers {
			for _, request := range s.wake(s.ctx, change) {
				s.queue.Add(request)
			}
		}
	}
}
