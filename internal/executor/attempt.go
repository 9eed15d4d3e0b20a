package executor

import (
	"context"

	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/registry"
	"github.com/gatehouse-dev/gatehouse/internal/verify"
)

// Attempt is one attempt at a verdict, in the form in which a registry.Pool asks. again says that a negative one is worth
// another: whoever pushes an image signs it after. An error says that there is no verdict.
func (m Match) Attempt(ctx context.Context, subject image.Pinned) (found Verdict, again bool, err error) {
	found = m.Verify(ctx, subject)
	switch found.Outcome {
	case verify.Passed:
		return found, false, nil
	case verify.Failed:
		return found, true, nil
	}
	trouble := &noVerdict{message: found.Message}
	for _, report := range found.Reports {
		// What is terminal for a reference is not for a verdict: other credentials leave the question as it is.
		if report.Enforced && report.Outcome == verify.Undecided && trouble.registry == nil && !registry.IsTerminal(report.Trouble) {
			trouble.registry = report.Trouble
		}
	}
	return Verdict{}, false, trouble
}

// noVerdict is why an attempt came to no verdict: the words of the Executors, and what the registry had to do with it.
type noVerdict struct {
	message  string
	registry error
}

func (e *noVerdict) Error() string { return e.message }
func (e *noVerdict) Unwrap() error { return e.registry }
