package bench

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// profilesEnv names a directory for profiles of the manager in each fleet's rollout, for `go tool pprof`. Taking them
// costs the manager time: figures of such a run are no figures.
const profilesEnv = "GATEHOUSE_BENCH_PROFILES"

// profiler takes profiles of one manager; without an address it takes none.
type profiler struct{ address, directory string }

func newProfiler(tb testing.TB) profiler {
	tb.Helper()
	directory := os.Getenv(profilesEnv)
	if directory == "" {
		return profiler{}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return profiler{listener.Addr().String(), directory}
}

// arguments are what the manager has to be told.
func (p profiler) arguments() []string {
	if p.address == "" {
		return arguments
	}
	return append([]string{"--pprof-bind-address=" + p.address}, arguments...)
}

// processor profiles the next seconds. What it returns waits for the end.
func (p profiler) processor(tb testing.TB, name string) func() {
	const seconds = 10
	done := make(chan error, 1)
	go func() {
		done <- p.take(context.WithoutCancel(tb.Context()), fmt.Sprintf("profile?seconds=%d", seconds), name+".cpu")
	}()
	return func() {
		if err := <-done; err != nil {
			tb.Errorf("profile: %v", err)
		}
	}
}

// memory keeps what is in use and what has been allocated so far.
func (p profiler) memory(tb testing.TB, name string) {
	tb.Helper()
	if err := p.take(tb.Context(), "heap?gc=1", name+".heap"); err != nil {
		tb.Errorf("profile: %v", err)
	}
}

func (p profiler) take(ctx context.Context, what, name string) error {
	if p.address == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+"/debug/pprof/"+what, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, 64<<20))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", response.Status, text)
	}
	if err := os.MkdirAll(p.directory, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(p.directory, name), text, 0o644)
}
