package main

import (
	"io"
	"strings"
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

// A command that does not exist is a usage error, and what was meant is told.
func TestACommandThatDoesNotExistIsAUsageError(t *testing.T) {
	for line, want := range map[string]string{
		"lnt":            `gatehouse has no command "lnt"; write lint`,
		"frobnicate":     `gatehouse has no command "frobnicate"; gatehouse --help lists those that there are`,
		"import x.yaml":  `gatehouse import has no command "x.yaml"; gatehouse import --help lists those that there are`,
		"manager now":    `gatehouse manager takes no arguments, and "now" is one; leave it out`,
		"demo --keep me": `gatehouse demo takes no arguments, and "me" is one; leave it out`,
		"demo -o xml":    `--output is "xml"; write text or json`,
	} {
		if out, status := run(t, "", strings.Fields(line)...); status != statusUsage || !strings.Contains(out, want) {
			t.Errorf("%s: exit status %d, printed\n%s\nwant %s", line, status, out, want)
		}
	}
}
