package e2e

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/gatehouse-dev/gatehouse/test/cluster"
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

// running is the shared manager, with its caches filled.
func running(t *testing.T) *manager.Manager {
	t.Helper()
	return shared.Running(t, product)
}

// holder is who has the lease; empty when nobody has.
func holder(t *testing.T) string {
	t.Helper()
	who, err := product.Holder(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return who
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
