package executor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// tenantPatience is for how long a replica is not called ready for what is awaited of namespaces alone. Nothing of theirs
// is concluded before it has been attempted, ready or not; but one tenant's Executors must not take the replica from all.
const tenantPatience = 10 * time.Second

// initial is what has been attempted of the Executors that there were at the start.
type initial struct {
	attempted map[types.NamespacedName]struct{} // before the list is known; nil after
	// outstanding are those of the list, by namespace.
	outstanding map[string]map[string]struct{}
}

func newInitial() initial { return initial{attempted: map[types.NamespacedName]struct{}{}} }

// Expect says which Executors there are. Until each of the cluster's has been put or removed, nobody can be unmatched; and
// nobody in a namespace until each of that namespace has, too. No namespace waits for another.
func (l *Live) Expect(names []types.NamespacedName) {
	l.mu.Lock()
	outstanding, awaited := map[string]map[string]struct{}{}, map[string]struct{}{}
	for _, name := range names {
		if _, done := l.initial.attempted[name]; done {
			continue
		}
		if outstanding[name.Namespace] == nil {
			outstanding[name.Namespace] = map[string]struct{}{}
		}
		outstanding[name.Namespace][name.Name] = struct{}{}
		awaited[name.Namespace] = struct{}{}
	}
	l.initial = initial{outstanding: outstanding}
	next := *l.current.Load()
	next.awaited, next.listed = awaited, l.clock.Now()
	l.current.Store(&next)
	woken := func() {}
	if next.attempted("") {
		woken = l.announce(attempted(""))
	}
	l.mu.Unlock()
	woken()
}

// attempt takes in that an Executor has been tried once. The last of a namespace concerns everybody who was told that
// nobody can tell yet.
func (l *Live) attempt(name types.NamespacedName) (woken func()) {
	if l.initial.attempted != nil {
		l.initial.attempted[name] = struct{}{}
		return func() {}
	}
	left, awaited := l.initial.outstanding[name.Namespace]
	if delete(left, name.Name); !awaited || len(left) > 0 {
		return func() {}
	}
	delete(l.initial.outstanding, name.Namespace)
	next := *l.current.Load()
	next.awaited = maps.Clone(next.awaited)
	delete(next.awaited, name.Namespace)
	l.current.Store(&next)
	return l.announce(attempted(name.Namespace))
}

// attempted is the change that all Executors of a namespace have been attempted by now.
func attempted(namespace string) Change {
	return Change{Name: types.NamespacedName{Namespace: namespace}, Scopes: []Scope{{kind: everything}}}
}

// attempted says whether all Executors that the initial list has of a namespace, or of the cluster, have been attempted.
func (s *snapshot) attempted(namespace string) bool {
	_, awaited := s.awaited[namespace]
	return !s.listed.IsZero() && !awaited
}

// Ready reports whether the replica has attempted the Executors that there were at its start, and if not, which it awaits:
// each of the cluster's, and for a while those of namespaces.
func (l *Live) Ready() (bool, string) {
	now := l.current.Load()
	patient := len(now.awaited) > 0 && l.clock.Since(now.listed) < tenantPatience
	if now.attempted("") && !patient {
		return true, ""
	}
	return false, l.awaited(func(string) bool { return true })
}

// Attempted reports whether all Executors of the initial list that judge in a namespace have been attempted, and if not,
// which are awaited. Without a namespace, the cluster's alone do.
func (l *Live) Attempted(namespace string) (bool, string) {
	now := l.current.Load()
	if now.attempted("") && now.attempted(namespace) {
		return true, ""
	}
	return false, l.awaited(func(of string) bool { return of == "" || of == namespace })
}

// awaited says which Executors have not been attempted, of some namespaces.
func (l *Live) awaited(of func(namespace string) bool) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.initial.attempted != nil {
		return "not listed yet"
	}
	var names []string
	for namespace, left := range l.initial.outstanding {
		for name := range left {
			if of(namespace) {
				names = append(names, Describe(types.NamespacedName{Namespace: namespace, Name: name}))
			}
		}
	}
	slices.Sort(names) // the cluster's first
	const shown = 10
	if len(names) > shown {
		names = append(names[:shown:shown], fmt.Sprintf("and %d more", len(names)-shown))
	}
	return "not compiled yet: " + strings.Join(names, ", ")
}
