package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// run is a command line, and what it came to.
func run(t *testing.T, stdin string, args ...string) (out string, status int) {
	t.Helper()
	root := newRootCommand()
	var stdout, stderr bytes.Buffer
	root.SetIn(strings.NewReader(stdin))
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	root.SetArgs(args)
	if err := root.ExecuteContext(t.Context()); err != nil {
		status = exitStatus(err)
	}
	return stdout.String() + stderr.String(), status
}

func TestLint(t *testing.T) {
	folder := t.TempDir()
	bad := filepath.Join(folder, "sub", "bad.yaml")
	if err := os.Mkdir(filepath.Dir(bad), 0o700); err != nil {
		t.Fatal(err)
	}
	text := "apiVersion: gatehouse.dev/v1alpha1\nkind: GatewayProfile\nmetadata: {name: p}\nspec: {template: {spec: {containers: []}}}\n"
	for path, content := range map[string]string{bad: text, filepath.Join(folder, "notes.txt"): "no: [manifest"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	line := bad + ":4: GatewayProfile/p: spec.template.spec.containers: no container is named \"gateway\"; name the one that runs the release's image so\n"
	tests := []struct {
		name   string
		stdin  string
		args   []string
		status int
		want   string
	}{
		{"a folder", "", []string{folder}, 1, line},
		{"a file", "", []string{bad}, 1, line},
		{"standard input", text, []string{"-"}, 1, "<stdin>:4: GatewayProfile/p"},
		{"as JSON", text, []string{"-o", "json", "-"}, 1, `{"file":"<stdin>","line":4,"kind":"GatewayProfile","name":"p","field":"spec.template.spec.containers","message":`},
		{"a list that lists nothing", "apiVersion: v1\nkind: List\nitems:\n  a: {}\n", []string{"-"}, 1, "<stdin>:3: List/: items: is no list of manifests; write each after a dash"},
		{"more than is read", strings.Repeat("# x\n", 3<<20), []string{"-"}, 2, "read standard input: it is larger than 8 MiB; split it"},
		{"a file without end", "", []string{"/dev/zero"}, 2, "/dev/zero: it is larger than 8 MiB; split it"},
		{"the samples", "", []string{"../../config/samples"}, 0, ""},
		{"no file", "", nil, 2, "no file is given"},
		{"a file that is not there", "", []string{filepath.Join(folder, "gone.yaml")}, 2, "gone.yaml"},
		{"an output that is not there", "", []string{"-o", "xml", "-"}, 2, "write text or json"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, status := run(t, tt.stdin, append([]string{"lint"}, tt.args...)...)
			if status != tt.status || !strings.Contains(out, tt.want) {
				t.Errorf("exit status %d, want %d; printed\n%s\nwant %s", status, tt.status, out, tt.want)
			}
		})
	}
}

// The page says what the command says.
func TestTheExampleOfTheLintPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/lint.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	manifest, rest, _ := strings.Cut(rest, "```\n")
	_, rest, _ = strings.Cut(rest, "$ gatehouse lint release.yaml\n")
	want, _, _ := strings.Cut(rest, "```\n")
	t.Chdir(t.TempDir())
	if err := os.WriteFile("release.yaml", []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, status := run(t, "", "lint", "release.yaml"); out != want || status != statusNegative {
		t.Errorf("exit status %d, printed\n%s\nthe page says\n%s", status, out, want)
	}
}

// A pipe that is found in a folder is told, and not waited for.
func TestLintWaitsForNoPipe(t *testing.T) {
	folder := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(folder, "pipe.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, status := run(t, "", "lint", folder); status != statusUsage || !strings.Contains(out, "pipe.yaml is no regular file") {
		t.Errorf("exit status %d, printed %s", status, out)
	}
}
