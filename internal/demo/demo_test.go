package demo_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-dev/gatehouse/test/cluster"
)

// within is generous: a busy machine takes several times what an idle one does.
const within = 12 * time.Minute

func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, gatehouse, append([]string{"demo"}, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+tempDir(t))
	return cmd
}

// tempDir is short enough to hold a socket, and empty when the demo leaves nothing behind.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "demo-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func devcluster(t *testing.T) string {
	t.Helper()
	path, err := cluster.Binary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Every step of the demo is seen to hold, it says so in one last line of JSON, and it leaves nothing behind.
func TestEveryStepHolds(t *testing.T) {
	cmd := command(t, "--output", "json", "--devcluster", devcluster(t))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err != nil {
		t.Fatalf("gatehouse demo: %v\n%s", err, stderr.String())
	}

	lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	if len(lines) != 1 {
		t.Errorf("standard output has %d lines, want the JSON alone:\n%s", len(lines), stdout.String())
	}
	var report struct {
		OK    bool             `json:"ok"`
		Steps []map[string]any `json:"steps"`
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &report); err != nil {
		t.Fatalf("last line of standard output: %v\n%s", err, stdout.String())
	}
	if !report.OK {
		t.Error("ok is false although the exit status is 0")
	}

	// What each step must have seen.
	paced := map[string]any{"moved": 40.0, "movedTwice": 0.0, "budget": 8.0, "minServing": 40.0}
	want := []struct {
		name  string
		facts map[string]any
	}{
		{"first-rollout", map[string]any{"gateways": 40.0, "namespaces": 4.0}},
		{"edit", paced},
		{"unsigned-image", map[string]any{"moved": 0.0}},
		{"copied-signature", map[string]any{"moved": 0.0}},
		{"malformed-image", map[string]any{"moved": 0.0}},
		{"correction", paced},
		{"trust-taken-away", paced},
		{"edit-while-stopped", paced},
		{"profile-edit", paced},
		{"bad-image", map[string]any{"state": "Failed", "budget": 8.0, "maxFailures": 2.0, "minServing": 40.0}},
		{"going-back", map[string]any{"movedTwice": 0.0, "minServing": 40.0}},
		{"broken-executor", map[string]any{"summary": "0/3"}},
		{"replica-killed", nil},
		{"scaled", map[string]any{"replicas": 5.0, "doubted": false}},
		{"missed-rotation", map[string]any{"ready": 2.0}},
		{"restart", map[string]any{"mutatingRequests": 0.0, "objectsChanged": 0.0}},
	}
	if len(report.Steps) != len(want) {
		t.Fatalf("%d steps, want %d:\n%s", len(report.Steps), len(want), stdout.String())
	}
	for i, w := range want {
		got := report.Steps[i]
		if got["name"] != w.name || got["ok"] != true {
			t.Errorf("step %d is %v, ok %v; want %s, ok", i, got["name"], got["ok"], w.name)
		}
		if seconds, ok := got["seconds"].(float64); !ok || seconds <= 0 {
			t.Errorf("%s took %v seconds", w.name, got["seconds"])
		}
		for fact, value := range w.facts {
			if got[fact] != value {
				t.Errorf("%s saw %s=%v, want %v", w.name, fact, got[fact], value)
			}
		}
		if at, ok := got["maxUnderWay"].(float64); ok && (at < 1 || at > 10) {
			t.Errorf("%s saw %v gateways under way at once; the budget is 8, and 2 may have failed", w.name, at)
		}
	}
	// The replica that missed the rotation is shown as a person would look for it.
	_, table, _ := strings.Cut(stderr.String(), "\n  $ gatehouse status production\n  NAME ")
	shown := strings.Split(table, "\n")
	if odd, _ := report.Steps[14]["odd"].(string); len(shown) < 3 || !strings.Contains(shown[1], "2/3") || odd == "" || !strings.Contains(shown[2], odd) || !strings.Contains(shown[2], "trusts other keys") {
		t.Errorf("gatehouse status was not shown at the replica %q that missed the rotation:\n%s", odd, stderr.String())
	}
	assertEmpty(t, cmd)
}

// assertEmpty fails if a demo has left something in its directory for temporary files.
func assertEmpty(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	for _, variable := range cmd.Env {
		dir, ok := strings.CutPrefix(variable, "TMPDIR=")
		if !ok {
			continue
		}
		left, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range left {
			t.Errorf("the demo has left %s behind", entry.Name())
		}
	}
}
