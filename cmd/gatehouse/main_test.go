package main

import (
	"io"
	"testing"
)

// A script can tell a command line that is wrong from a command that failed, whichever command it is.
func TestAFlagThatDoesNotExistIsAUsageError(t *testing.T) {
	for _, name := range []string{"demo", "image", "import", "lint", "manager", "status", "verify"} {
		t.Run(name, func(t *testing.T) {
			root := newRootCommand()
			root.SetArgs([]string{name, "--nope"})
			root.SetOut(io.Discard)
			root.SetErr(io.Discard)
			if err := root.ExecuteContext(t.Context()); err == nil || exitStatus(err) != statusUsage {
				t.Errorf("%v: want exit status %d", err, statusUsage)
			}
		})
	}
}
