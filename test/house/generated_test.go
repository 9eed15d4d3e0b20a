package house

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// root is the module's folder.
func root(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatalf("find the module: %v", err)
	}
	return string(bytes.TrimSpace(out))
}

// Whoever edits the kinds or the roles runs `make generate`; this fails when they did not.
func TestGeneratedFilesAreFresh(t *testing.T) {
	generated := []string{
		"api/v1alpha1/zz_generated.deepcopy.go",
		"config/crd/gatehouse.dev_executorpodstatuses.yaml",
		"config/crd/gatehouse.dev_executors.yaml",
		"config/crd/gatehouse.dev_gatewayinstances.yaml",
		"config/crd/gatehouse.dev_gatewayprofiles.yaml",
		"config/crd/gatehouse.dev_gatewayreleases.yaml",
		"config/crd/gatehouse.dev_namespacedexecutors.yaml",
		"config/rbac/role.yaml",
	}
	dir := root(t)
	fresh := t.TempDir()
	command := exec.Command("make", "-s", "generate", "GENERATED="+fresh)
	command.Dir = dir
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("make generate: %v\n%s", err, out)
	}
	var found int
	err := filepath.WalkDir(fresh, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			found++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if found != len(generated) {
		t.Errorf("make generate wrote %d files, this test knows %d: complete its list", found, len(generated))
	}
	for _, name := range generated {
		want, err := os.ReadFile(filepath.Join(fresh, name))
		if err != nil {
			t.Errorf("make generate no longer writes %s: %v", name, err)
			continue
		}
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is stale: run make generate and commit what it writes", name)
		}
	}
}
