// Package eventually is how tests wait: they state what must come true, and by
// when, and are told what was missing. Nothing in a test sleeps.
package eventually

import (
	"testing"
	"time"
)

const interval = 50 * time.Millisecond

// Succeeds calls check until it returns nil, and fails the test with the last
// error if that takes longer than timeout.
func Succeeds(t testing.TB, timeout time.Duration, check func() error) {
	t.Helper()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	deadline := time.Now().Add(timeout)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %v", timeout, err)
		}
		select {
		case <-ticker.C:
		case <-t.Context().Done():
			t.Fatalf("the test ended while waiting: %v", err)
		}
	}
}

// Holds calls check again and again for the whole duration, and fails the test
// at the first error: for what must not happen.
func Holds(t testing.TB, duration time.Duration, check func() error) {
	t.Helper()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	started := time.Now()
	for time.Since(started) < duration {
		if err := check(); err != nil {
			t.Fatalf("held for %s only: %v", time.Since(started).Round(time.Millisecond), err)
		}
		select {
		case <-ticker.C:
		case <-t.Context().Done():
			t.Fatal("the test ended while watching")
		}
	}
}
