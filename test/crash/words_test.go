package crash

import (
	"regexp"
	"testing"
)

// A failure prints by what words it is met again, and people copy them into a shell.
func TestEveryRunHasANameThatAShellTakes(t *testing.T) {
	plain := regexp.MustCompile(`^[A-Za-z0-9_,/-]+$`)
	for _, s := range scenarios {
		names := []string{trial{s, point{12, true}}.name()}
		for _, a := range adversities {
			names = append(names, ordeal{s, a}.name())
		}
		for _, name := range names {
			if !plain.MatchString(name) {
				t.Errorf("%s has to be quoted in a shell", name)
			}
		}
	}
}
