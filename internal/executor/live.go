package executor

import (
	"context"
	"fmt"
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
	// Mode and Tenancy are those of the spec whose build serves; without a build those of the present spec.
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
}

// String is the Executor's kind and name, for messages.
func (s *Served) String() string { return describeName(s.Name) }

func describeName(name types.NamespacedName) string {
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
	attempted   map[types.NamespacedName]struct{} // before the initial list is known
	outstanding map[types.NamespacedName]struct{} // of the initial list; nil before it is known
	subscribers []subscriber
}

// snapshot is the live set at one moment.
type snapshot struct {
	ready bool
	// tables holds the Executors of each namespace by scope; the cluster's are under the empty name.
	tables map[string]table
}

// table finds Executors by scope: all that have exactly this one, sorted by name.
type table map[Scope][]*Served

// NewLive makes an empty set, which is not ready until its initial list has been attempted.
func NewLive(clock clock.PassiveClock) *Live {
	l := &Live{clock: clock, served: map[types.NamespacedName]*Served{}, attempted: map[types.NamespacedName]struct{}{}}
	l.current.Store(&snapshot{tables: map[string]table{}})
	return l
}

// Expect says which Executors there are: until each of them has been put or removed the set is not ready, and nothing is
// ever unmatched.
func (l *Live) Expect(names []types.NamespacedName) {
	l.mu.Lock()
	l.outstanding = map[types.NamespacedName]struct{}{}
	for _, name := range names {
		if _, done := l.attempted[name]; !done {
			l.outstanding[name] = struct{}{}
		}
	}
	l.attempted = nil
	woken := l.settle()
	l.mu.Unlock()
	woken()
}

// Ready reports whether every Executor of the initial list has been attempted, and if not, what is awaited.
func (l *Live) Ready() (bool, string) {
	if l.current.Load().ready {
		return true, ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.outstanding == nil {
		return false, "not listed yet"
	}
	names := make([]string, 0, len(l.outstanding))
	for name := range l.outstanding {
		names = append(names, describeName(name))
	}
	slices.Sort(names)
	const shown = 10
	if len(names) > shown {
		names = append(names[:shown:shown], fmt.Sprintf("and %d more", len(names)-shown))
	}
	return false, "not compiled yet: " + strings.Join(names, ", ")
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
	return a.UID == b.UID && slices.Equal(a.Scopes, b.Scopes) && a.Mode == b.Mode && a.Tenancy == b.Tenancy &&
		a.Generation == b.Generation && a.Compiled == b.Compiled && a.Expires.Equal(b.Expires) && a.Problem == b.Problem
}

func union(before, now *Served) []Scope {
	if before == nil {
		return now.Scopes
	}
	all := slices.Concat(before.Scopes, now.Scopes)
	slices.SortFunc(all, compareScopes)
	return slices.Compact(all)
}

// attempt takes in that an Executor has been tried once.
func (l *Live) attempt(name types.NamespacedName) (woken func()) {
	if l.attempted != nil {
		l.attempted[name] = struct{}{}
		return func() {}
	}
	delete(l.outstanding, name)
	return l.settle()
}

// settle makes the set ready once nothing is outstanding. That concerns everybody who was told that it was not.
func (l *Live) settle() (woken func()) {
	now := l.current.Load()
	if now.ready || len(l.outstanding) > 0 {
		return func() {}
	}
	l.current.Store(&snapshot{ready: true, tables: now.tables})
	return l.announce(Change{Scopes: []Scope{{kind: everything}}})
}

// swap makes the table of a namespace anew and the set with it.
func (l *Live) swap(namespace string) {
	now := l.current.Load()
	next := &snapshot{ready: now.ready, tables: maps.Clone(now.tables)}
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
	l.current.Store(next)
}

// Change is a change of what is served.
type Change struct {
	// Name is the Executor's; empty if the set has become ready.
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
