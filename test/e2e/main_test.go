package e2e

import (
	"encoding/json"
	"os"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/gatehouse-dev/gatehouse/test/fleet"
	"github.com/gatehouse-dev/gatehouse/test/manager"
)

// product is the installation that all tests share.
var product *fleet.Installation

func TestMain(m *testing.M) {
	os.Exit(fleet.Main(m, &product, func() {
		if current != nil {
			current.Kill()
		}
	}))
}

// current is the manager that tests share.
var current *manager.Manager

var starting sync.Mutex

// running is the shared manager, with its caches filled. Tests that stop it, or count what it does, are not parallel.
func running(t *testing.T) *manager.Manager {
	t.Helper()
	starting.Lock()
	defer starting.Unlock()
	if current == nil || !current.Running() {
		m, err := manager.Run(t.Context(), product.Manager("gatehouse-0"))
		if err != nil {
			t.Fatal(err)
		}
		current = m
	}
	m := current
	t.Cleanup(func() { m.Check(t) })
	m.Ready(t)
	return m
}

// holder is who has the lease; empty when nobody has.
func holder(t *testing.T) string {
	t.Helper()
	lease := &coordinationv1.Lease{}
	key := client.ObjectKey{Namespace: fleet.Namespace, Name: "gatehouse-manager"}
	if err := product.Client.Get(t.Context(), key, lease); err != nil {
		t.Fatal(err)
	}
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// soon is within what time a manager does what is due now.
const soon = 30 * time.Second
