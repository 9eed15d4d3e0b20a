package revision

import (
	"fmt"
	"strings"
)

// maxProblems bounds what an error lists.
const maxProblems = 8

// ProfileError says everything that is wrong with a profile, each with the path of the field and the remedy. Its text
// is the same for the same profile, and bounded in the number of problems.
type ProfileError struct {
	Problems []Problem
}

// Problem is one fault of a profile.
type Problem struct {
	// Field is the path in the GatewayProfile.
	Field string
	// Reason says what is wrong and what to write.
	Reason string
}

func (e *ProfileError) Error() string {
	var lines []string
	for i, p := range e.Problems {
		if i == maxProblems {
			lines = append(lines, fmt.Sprintf("and %d more", len(e.Problems)-maxProblems))
			break
		}
		lines = append(lines, p.Field+": "+p.Reason)
	}
	return strings.Join(lines, "; ")
}

func problem(field, reason string) *ProfileError {
	return &ProfileError{Problems: []Problem{{Field: field, Reason: reason}}}
}

// problems collects what is wrong while a profile is looked through.
type problems []Problem

func (p *problems) add(field, format string, args ...any) {
	*p = append(*p, Problem{Field: field, Reason: fmt.Sprintf(format, args...)})
}

func (p problems) err() error {
	if len(p) == 0 {
		return nil
	}
	return &ProfileError{Problems: p}
}
