package house

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/gatehouse-dev/gatehouse/"

// rooms says what each room may import of this module. Imports point one way: what is further down may import what is
// further up, where it is named. A room that is not listed has no place yet: give it one here.
var rooms = []struct {
	room string
	may  []string
}{
	{"api/v1alpha1", nil},
	{"config", nil},
	{"internal/kwokstage", nil},
	{"internal/auditlog", nil},
	{"internal/child", nil},
	{"internal/kubelet", []string{"api/v1alpha1", "internal/child"}},
	{"internal/image", nil},
	{"internal/registry", []string{"internal/image"}},
	{"internal/verify", []string{"internal/image", "internal/registry"}},
	{"test/signatures", []string{"internal/image"}},
	{"test/faultproxy", nil},
	{"internal/wake", []string{"api/v1alpha1"}},
	{"internal/outcome", []string{"api/v1alpha1"}},
	{"internal/revision", []string{"api/v1alpha1", "internal/image"}},
	{"internal/executor", []string{"api/v1alpha1", "internal/image", "internal/registry", "internal/verify", "internal/outcome", "internal/wake"}},
	{"internal/podstatus", []string{"api/v1alpha1", "internal/executor", "internal/outcome", "internal/wake"}},
	{"internal/rollout", []string{"api/v1alpha1", "internal/image"}},
	{"internal/release", []string{"api/v1alpha1", "internal/image", "internal/registry", "internal/verify", "internal/executor", "internal/outcome", "internal/revision", "internal/rollout", "internal/wake"}},
	{"internal/gateway", []string{"api/v1alpha1", "internal/image", "internal/registry", "internal/verify", "internal/executor", "internal/outcome", "internal/revision", "internal/rollout", "internal/wake"}},
	{"internal/ratify", []string{"api/v1alpha1"}},
	{"internal/status", []string{"api/v1alpha1", "internal/podstatus"}},
	{"internal/lint", []string{"api/v1alpha1", "config", "internal/executor", "internal/image", "internal/registry", "internal/revision"}},
	{"internal/offline", []string{"api/v1alpha1", "internal/executor", "internal/image", "internal/lint", "internal/registry", "internal/verify"}},
	{"internal/app", []string{"api/v1alpha1", "internal/registry", "internal/verify", "internal/executor", "internal/podstatus", "internal/outcome", "internal/release", "internal/gateway"}},
	{"internal/demo", []string{"api/v1alpha1", "config", "internal/auditlog", "internal/child", "internal/image", "internal/kubelet", "internal/kwokstage", "test/faultproxy", "test/signatures"}},
	{"cmd/gatehouse", []string{"internal/app", "internal/demo", "internal/executor", "internal/image", "internal/lint", "internal/offline", "internal/ratify", "internal/registry", "internal/status", "internal/verify"}},
}

type listed struct {
	ImportPath string
	Imports    []string
}

func list(t *testing.T, patterns ...string) []listed {
	t.Helper()
	command := exec.Command("go", append([]string{"list", "-json=ImportPath,Imports"}, patterns...)...)
	command.Dir = root(t)
	out, err := command.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var packages []listed
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

func roomOf(path string) (int, bool) {
	for i, r := range rooms {
		if path == r.room || strings.HasPrefix(path, r.room+"/") {
			return i, true
		}
	}
	return 0, false
}

func TestImportsPointOneWay(t *testing.T) {
	packages := list(t, "./api/...", "./config/...", "./internal/...", "./cmd/...")
	if len(packages) < len(rooms) {
		t.Fatalf("go list found %d packages for %d rooms", len(packages), len(rooms))
	}
	for _, p := range packages {
		path := strings.TrimPrefix(p.ImportPath, module)
		at, ok := roomOf(path)
		if !ok {
			t.Errorf("%s has no place in the table of rooms", path)
			continue
		}
		for _, imported := range p.Imports {
			other, ours := strings.CutPrefix(imported, module)
			if !ours {
				continue
			}
			if to, ok := roomOf(other); ok && to == at {
				continue // a room's own corners
			} else if !ok || !slices.Contains(rooms[at].may, rooms[to].room) {
				t.Errorf("%s imports %s, which its place in the table of rooms does not allow", path, other)
			}
		}
	}
}

// Only one room talks to registries, and Kubernetes itself is never compiled into the product.
func TestOutsideImportsHaveOneHome(t *testing.T) {
	homes := map[string][]string{
		"oras.land/oras-go/v2":                   {"internal/registry"},
		"github.com/distribution/reference":      {"internal/image"},
		"github.com/google/go-containerregistry": {"internal/demo"},
		"github.com/notaryproject":               {"internal/verify"},
		"github.com/notaryproject/notation-go":   nil, // it reads files and runs plugins; tests compare with it
		"k8s.io/kubernetes":                      nil,
	}
	for _, p := range list(t, "./api/...", "./config/...", "./internal/...", "./cmd/...") {
		path := strings.TrimPrefix(p.ImportPath, module)
		for _, imported := range p.Imports {
			for library, home := range homes {
				if imported != library && !strings.HasPrefix(imported, library+"/") {
					continue
				}
				if at, ok := roomOf(path); !ok || !slices.Contains(home, rooms[at].room) {
					t.Errorf("%s imports %s, whose home is %v", path, imported, home)
				}
			}
		}
	}
}
