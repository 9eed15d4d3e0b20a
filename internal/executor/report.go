package executor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gatehouse-dev/gatehouse/internal/outcome"
)

// Bounds of a report, in bytes.
const (
	maxError = 4096
	maxBrief = 256
)

// report is what this replica says of an Executor: a function of the spec, and of what it names.
func (a attempt) report(e *executor) Report {
	said := Report{Name: e.name(), UID: e.UID, Attempted: e.Generation, Serving: a.served.Generation, Succeeded: a.whole}
	if a.served.Compiled != nil {
		said.Inputs = a.served.Compiled.Inputs()
	}
	if a.fault == nil {
		return said
	}
	text := a.fault.Error()
	if trouble := outcome.As(a.fault); trouble != nil {
		said.Reason = trouble.Reason
	}
	said.Error = outcome.Bound(text+"\n"+goesOn(e, a), maxError)
	first, rest, more := strings.Cut(text, "\n")
	if more {
		suffix := fmt.Sprintf(" (and %d more)", 1+strings.Count(rest, "\n"))
		first = outcome.Bound(first, maxBrief-len(suffix)) + suffix
	}
	said.Brief = outcome.Bound(first, maxBrief)
	return said
}

// goesOn says what serves meanwhile.
func goesOn(e *executor, a attempt) string {
	switch {
	case a.served.Compiled == nil:
		return "nothing serves: images in scope cannot be decided"
	case a.served.Generation != e.Generation:
		said := fmt.Sprintf("generation %d goes on serving", a.served.Generation)
		if slices.ContainsFunc(a.served.Scopes, func(s Scope) bool { return !slices.Contains(a.served.BuiltFor, s) }) {
			said += "; images that it did not have in scope cannot be decided"
		}
		return said
	case a.whole:
		return "what was read last goes on serving"
	default:
		return "it serves without what is missing: nobody is trusted by that"
	}
}
