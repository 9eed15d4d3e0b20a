package demo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A devcluster that ends before it is ready is noticed when it ends, and told with what it has said.
func TestADevclusterThatEndsIsNoticedAtOnce(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "devcluster")
	if err := os.WriteFile(binary, []byte("#!/bin/sh\necho no room for etcd >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		_, err := startDevcluster(t.Context(), binary, "", dir)
		failed <- err
	}()
	select {
	case err := <-failed:
		for _, want := range []string{"devcluster ended before it was ready", "no room for etcd"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want an error with %q", err, want)
			}
		}
	case <-time.After(30 * time.Second):
		t.Fatal("still waiting for a devcluster that has ended")
	}
}
