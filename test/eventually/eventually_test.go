package eventually

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// recorder is a test that records its failure instead of failing.
type recorder struct {
	testing.TB
	failure string
}

type stop struct{}

func (r *recorder) Helper() {}
func (r *recorder) Fatal(args ...any) {
	r.failure = "fatal"
	panic(stop{})
}
func (r *recorder) Fatalf(format string, args ...any) {
	r.failure = format
	for _, a := range args {
		if err, ok := a.(error); ok {
			r.failure += ": " + err.Error()
		}
	}
	panic(stop{})
}

func failureOf(t *testing.T, f func(testing.TB)) string {
	r := &recorder{TB: t}
	func() {
		defer func() {
			if p := recover(); p != nil && p != (stop{}) {
				panic(p)
			}
		}()
		f(r)
	}()
	return r.failure
}

func TestSucceedsReturnsWhenTheCheckDoes(t *testing.T) {
	calls := 0
	failure := failureOf(t, func(tb testing.TB) {
		Succeeds(tb, time.Minute, func() error {
			if calls++; calls < 3 {
				return errors.New("not yet")
			}
			return nil
		})
	})
	if failure != "" || calls != 3 {
		t.Errorf("failure %q after %d calls, want success at the third", failure, calls)
	}
}

func TestSucceedsFailsWithTheLastError(t *testing.T) {
	failure := failureOf(t, func(tb testing.TB) {
		Succeeds(tb, 0, func() error { return errors.New("two of three ready") })
	})
	if !strings.Contains(failure, "two of three ready") {
		t.Errorf("failure %q does not say what was missing", failure)
	}
}

func TestHoldsFailsAtTheFirstError(t *testing.T) {
	calls := 0
	failure := failureOf(t, func(tb testing.TB) {
		Holds(tb, time.Minute, func() error {
			if calls++; calls == 2 {
				return errors.New("it moved")
			}
			return nil
		})
	})
	if !strings.Contains(failure, "it moved") || calls != 2 {
		t.Errorf("failure %q after %d calls, want one at the second", failure, calls)
	}
}
