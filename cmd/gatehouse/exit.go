package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
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

// noArguments refuses arguments; of a command that only has others they would be one that is not there.
func noArguments(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case !cmd.HasSubCommands():
		return usageError("%s takes no arguments, and %q is one; leave it out", cmd.CommandPath(), args[0])
	}
	remedy := fmt.Sprintf("%s --help lists those that there are", cmd.CommandPath())
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		remedy = fmt.Sprintf("write %s", strings.Join(near, " or "))
	}
	return usageError("%s has no command %q; %s", cmd.CommandPath(), args[0], remedy)
}

// exitStatus is the status with which the process ends after err.
func exitStatus(err error) int {
	var withStatus *statusError
	if errors.As(err, &withStatus) {
		return withStatus.status
	}
	return statusNegative
}
