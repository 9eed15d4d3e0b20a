package cluster

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gatehouse-dev/gatehouse/test/eventually"
)

// running returns the command lines of processes that name dir.
func running(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	for _, line := range commandLines(t) {
		if strings.Contains(line, dir) {
			found = append(found, line)
		}
	}
	return found
}

// commandLines are those of all processes, from the kernel where it tells, and from ps elsewhere.
func commandLines(t *testing.T) []string {
	t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, process := range processes {
		arguments, err := os.ReadFile(process)
		if err != nil {
			continue // it has ended since
		}
		lines = append(lines, strings.TrimSpace(strings.ReplaceAll(string(arguments), "\x00", " ")))
	}
	if len(lines) > 0 {
		return lines
	}
	out, err := exec.Command("ps", "-ax", "-o", "args=").Output()
	if err != nil {
		t.Fatalf("ps: %v", err)
	}
	return strings.Split(string(out), "\n")
}

func nothingLeft(t *testing.T, dir string) error {
	t.Helper()
	if left := running(t, dir); len(left) > 0 {
		return fmt.Errorf("still running: %q", left)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s is still there (%v)", dir, err)
	}
	return nil
}

// logged says whether the shared cluster's log has a text.
func logged(text string) error {
	log, err := os.ReadFile(filepath.Join(shared.Dir, "devcluster.log"))
	if err != nil {
		return err
	}
	if !bytes.Contains(log, []byte(text)) {
		return fmt.Errorf("devcluster.log does not say %q", text)
	}
	return nil
}

func binary(t *testing.T) string {
	t.Helper()
	path, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestStopLeavesNothingBehind(t *testing.T) {
	c := New(t, Options{})
	if n := len(running(t, c.Dir)); n != 2 {
		t.Errorf("%d processes while the cluster runs, want devcluster and kwok: %q", n, running(t, c.Dir))
	}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := nothingLeft(t, c.Dir); err != nil {
		t.Error(err)
	}
}

func TestAKilledStarterLeavesNothingBehind(t *testing.T) {
	starter := exec.Command(os.Args[0])
	starter.Env = append(os.Environ(), starterEnv+"=1")
	starter.Stderr = os.Stderr
	if _, err := starter.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := starter.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := starter.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = starter.Process.Kill(); _ = starter.Wait() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the starter did not say where its cluster is: %v", err)
	}
	dir := strings.TrimSpace(line)
	if len(running(t, dir)) == 0 {
		t.Fatalf("no cluster runs in %q", dir)
	}

	if err := starter.Process.Kill(); err != nil {
		t.Fatal(err)
	}

	eventually.Succeeds(t, soon, func() error { return nothingLeft(t, dir) })
}

func TestACrashedClusterIsReportedAndItsDirectoryRemoved(t *testing.T) {
	c, err := Start(t.Context(), Options{APIServerOnly: true, NoGC: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-c.process.exited
	if err := c.Stop(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("stopping a cluster that was killed: %v, want an error that says so", err)
	}
	if err := nothingLeft(t, c.Dir); err != nil {
		t.Error(err)
	}
}

func TestAKilledClusterLeavesNoChildAndItsDirectoryIsUsedAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	first := up(t, dir)
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait()
	eventually.Succeeds(t, soon, func() error {
		if left := running(t, dir); len(left) > 0 {
			return fmt.Errorf("still running: %q", left)
		}
		return nil
	})

	terminate(t, up(t, dir))
}

func TestAStartThatIsCalledOffLeavesNothingBehind(t *testing.T) {
	for _, reached := range []string{"etcd.sock", "kubeconfig", "kwok.log"} {
		t.Run(reached, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "d")
			var stdout bytes.Buffer
			cmd := exec.Command(binary(t), "up", "--dir", dir)
			cmd.Stdout = &stdout
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
			eventually.Succeeds(t, soon, func() error {
				_, err := os.Stat(filepath.Join(dir, reached))
				return err
			})

			terminate(t, cmd)

			if err := nothingLeft(t, dir); err != nil {
				t.Error(err)
			}
			if reached != "kwok.log" && stdout.Len() > 0 {
				t.Errorf("standard output: %q, want nothing", stdout.String())
			}
		})
	}
}

func TestADirectoryThatWasThereKeepsWhatIsNotTheClusters(t *testing.T) {
	dir := t.TempDir()
	mine := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(mine, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := up(t, dir)

	second := exec.Command(binary(t), "up", "--dir", dir)
	if out, err := second.CombinedOutput(); err == nil || !strings.Contains(string(out), "in use by another devcluster") {
		t.Errorf("a second cluster in the directory: %v, %q; want it refused", err, out)
	}

	terminate(t, cmd)
	var left []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if got, want := strings.Join(left, " "), "devcluster.log kwok.log notes.txt"; got != want {
		t.Errorf("left behind: %s; want %s", got, want)
	}
}

// up starts devcluster as a person would and returns when it is ready.
func up(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(binary(t), "up", "--dir", dir)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if want := "ready " + filepath.Join(dir, "kubeconfig") + "\n"; err != nil || line != want {
		t.Fatalf("standard output: %q, %v; want %q", line, err, want)
	}
	return cmd
}

func terminate(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v, want exit status 0", err)
	}
}

func TestAWrongCommandLineIsExplained(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		says string
	}{
		"no command":        {nil, "the command must be up"},
		"unknown command":   {[]string{"down"}, "the command must be up"},
		"no directory":      {[]string{"up"}, "--dir is missing"},
		"unknown flag":      {[]string{"up", "--dirr", "x"}, "dirr"},
		"a further word":    {[]string{"up", "--dir", "x", "now"}, `unexpected argument "now"`},
		"a path too long":   {[]string{"up", "--dir", "/tmp/" + strings.Repeat("x", 100)}, "shorter"},
		"a path not usable": {[]string{"up", "--dir", "/dev/null/x"}, "working directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			cmd := exec.Command(binary(t), tc.args...)
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if err := cmd.Run(); err == nil {
				t.Error("it succeeded")
			}
			if stdout.Len() > 0 {
				t.Errorf("standard output: %q, want nothing", stdout.String())
			}
			if !strings.Contains(stderr.String(), tc.says) {
				t.Errorf("standard error: %q, want %q in it", stderr.String(), tc.says)
			}
		})
	}
}

func TestAMissingBinaryIsAnErrorThatNamesTheRemedy(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "go.mod"), []byte("module example.com/m\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(root)
	t.Setenv(BinaryEnv, "")
	t.Setenv(KubeconfigEnv, "")
	if _, err := Start(t.Context(), Options{}); err == nil || !strings.Contains(err.Error(), "make bin/devcluster") {
		t.Errorf("error %v, want one that says how to build it", err)
	}
	t.Setenv(BinaryEnv, filepath.Join(root, "nowhere"))
	if _, err := Start(t.Context(), Options{}); err == nil || !strings.Contains(err.Error(), BinaryEnv) {
		t.Errorf("error %v, want one that names %s", err, BinaryEnv)
	}
}
