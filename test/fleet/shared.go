package fleet

import (
	"sync"
	"testing"

	"github.com/gatehouse-dev/gatehouse/test/manager"
)

// Shared is the manager that the tests of a package share. One that a test has killed is started again for the next; its
// name stays the same, so it need not wait for its own lease.
type Shared struct {
	mu  sync.Mutex
	now *manager.Manager
}

// Running is the manager on an installation, with its caches filled. Tests that stop it, or count what it does, are not
// parallel.
func (s *Shared) Running(tb testing.TB, on *Installation) *manager.Manager {
	tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == nil || !s.now.Running() {
		m, err := manager.Run(tb.Context(), on.Manager("gatehouse-0"))
		if err != nil {
			tb.Fatal(err)
		}
		s.now = m
	}
	m := s.now
	tb.Cleanup(func() { m.Check(tb) })
	m.Ready(tb)
	return m
}

// Kill kills the manager, if it was ever started.
func (s *Shared) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now != nil {
		s.now.Kill()
	}
}
