package main

import (
	"errors"
	"fmt"
)

// Exit statuses, as those of grep and diff: a script can tell a negative
// answer from a question that could not be asked.
const (
	statusNegative = 1
	statusUsage    = 2
)

// statusError ends the process with a status.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

// usageError says that the command line is at fault.
func usageError(format string, args ...any) error {
	return &statusError{statusUsage, fmt.Errorf(format, args...)}
}

// exitStatus is the status with which the process ends after err.
func exitStatus(err error) int {
	var withStatus *statusError
	if errors.As(err, &withStatus) {
		return withStatus.status
	}
	return statusNegative
}
