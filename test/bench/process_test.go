package bench

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// usage is what a process has used, as /proc tells it.
type usage struct {
	rss, peak int64 // bytes
	cpu       time.Duration
}

// ticks is how many of them /proc counts per second, on every Linux that Go runs on.
const ticks = 100

func usageOf(tb testing.TB, pid int) usage {
	tb.Helper()
	out, err := readUsage(pid)
	if err != nil {
		tb.Fatalf("what process %d has used (this needs Linux): %v", pid, err)
	}
	return out
}

func readUsage(pid int) (usage, error) {
	var out usage
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return out, err
	}
	for line := range strings.Lines(string(status)) {
		name, rest, _ := strings.Cut(line, ":")
		into := map[string]*int64{"VmRSS": &out.rss, "VmHWM": &out.peak}[name]
		if into == nil {
			continue
		}
		kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		if err != nil {
			return out, err
		}
		*into = kilobytes << 10
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return out, err
	}
	// The name of the command stands in brackets and may hold anything; user and system time are 11 fields after it.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return out, fmt.Errorf("stat has %d fields", len(fields))
	}
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return out, err
		}
		out.cpu += time.Duration(n) * time.Second / ticks
	}
	return out, nil
}
