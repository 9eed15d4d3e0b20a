package main

import (
	"context"
	"errors"
)

var errInterrupted = errors.New("interrupted")

// interruptible does what may wait for somebody else, as the reading of a pipe
// does, until it is done or ctx ends. The signals that end ctx end the process no
// more by themselves, so nobody else would. What still waits then is left to the end
// of the process.
func interruptible[T any](ctx context.Context, do func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := do()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, errInterrupted
	}
}
