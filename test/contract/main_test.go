package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
	"github.com/gatehouse-dev/gatehouse/test/manager"
)

// product is the installation that all tests share.
var product *fleet.Installation

func TestMain(m *testing.M) {
	os.Exit(fleet.Main(m, cluster.Options{Audit: true}, &product, shared.Kill))
}

// shared is the manager that tests share.
var shared fleet.Shared

// running is the shared manager, with its caches filled and the lease in hand.
func running(t *testing.T) *manager.Manager {
	t.Helper()
	m := shared.Running(t, product)
	leads(t, m)
	return m
}

// instead runs a manager of the test's own in place of the shared one.
func instead(t *testing.T, arguments ...string) *manager.Manager {
	t.Helper()
	shared.Kill()
	m := manager.Start(t, product.Manager("gatehouse-0", arguments...))
	m.Ready(t)
	leads(t, m)
	return m
}

// restarted kills the shared manager and starts it again.
func restarted(t *testing.T) *manager.Manager {
	t.Helper()
	shared.Kill()
	return running(t)
}

// leads waits until a manager holds the lease.
func leads(t *testing.T, m *manager.Manager) {
	t.Helper()
	eventually.Succeeds(t, fleet.Patience, func() error {
		holder, err := product.Holder(t.Context())
		if err != nil {
			return err
		}
		if holder != m.Identity() {
			return fmt.Errorf("%q holds the lease, want %q", holder, m.Identity())
		}
		if !m.Running() {
			return errors.New(m.Identity() + " has ended")
		}
		return nil
	})
}

func mark(t *testing.T) cluster.Mark {
	t.Helper()
	at, err := product.Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// sent are the manager's writes since a mark, but for its lease.
func sent(t *testing.T, since cluster.Mark, matches ...cluster.Match) []cluster.AuditEvent {
	t.Helper()
	events, err := product.Sent(t.Context(), since, matches...)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// silent fails the test if the manager has sent anything since a mark.
func silent(t *testing.T, since cluster.Mark, matches ...cluster.Match) {
	t.Helper()
	events := sent(t, since, matches...)
	for n, event := range events {
		if n == 10 {
			t.Errorf("and %d more", len(events)-n)
			break
		}
		t.Errorf("sent: %s", event)
	}
}

// ofStatus chooses writes of the status of a kind of ours.
func ofStatus(resource string) cluster.Match {
	return func(e cluster.AuditEvent) bool {
		return e.APIGroup == "gatehouse.dev" && e.Resource == resource && e.Subresource == "status"
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// soon is within what time a manager does what is due now. It is much shorter than any resync.
const soon = 30 * time.Second
