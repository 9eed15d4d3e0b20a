package demo_test

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-dev/gatehouse/test/eventually"
)

// A demo that is killed takes its children with it.
func TestKilledDemoLeavesNoProcess(t *testing.T) {
	cmd := command(t, "--devcluster", devcluster(t))
	output := startUntil(t, cmd, "First rollout")
	children := childrenOf(t, cmd.Process.Pid)
	if len(children) != 4 {
		t.Errorf("the demo has %d children, want devcluster and three replicas: %v", len(children), children)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = output()
	_ = cmd.Wait()
	eventually.Succeeds(t, time.Minute, func() error {
		for _, pid := range children {
			if state, _ := processStat(pid); state != "" && state != "Z" {
				return fmt.Errorf("child %d of the killed demo is in state %s", pid, state)
			}
		}
		return nil
	})
}

// childrenOf finds the processes whose parent is pid.
func childrenOf(t *testing.T, pid int) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var children []int
	for _, entry := range entries {
		child, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if _, parent := processStat(child); parent == pid {
			children = append(children, child)
		}
	}
	return children
}

// processStat is a process's state and parent; the state is empty if there is no such process.
func processStat(pid int) (state string, parent int) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0
	}
	// The name, in parentheses, may hold anything.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 2 {
		return "", 0
	}
	parent, _ = strconv.Atoi(fields[1])
	return fields[0], parent
}
