package executor

import (
	"context"
	"errors"
	"slices"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
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
	for i, report := range found.Reports {
		if !report.Enforced || report.Outcome != verify.Undecided {
			continue
		}
		// What is terminal for a reference is not for a verdict: other credentials leave the question as it is.
		if trouble.registry == nil && !registry.IsTerminal(report.Trouble) {
			trouble.registry = report.Trouble
		}
		trouble.own = trouble.own || i < len(m.Enforced) && m.Enforced[i].atFault(report)
	}
	return Verdict{}, false, trouble
}

// noVerdict is why an attempt came to no verdict: the words of the Executors, and what the registry had to do with it.
type noVerdict struct {
	message  string
	registry error
	own      bool // one of the Executors is at fault
}

func (e *noVerdict) Error() string { return e.message }
func (e *noVerdict) Unwrap() error { return e.registry }

// atFault says whether it is for whoever wrote the Executor to mend that it cannot decide. It is not, where the API server
// or the registry does not answer; unless the registry was given less time than it has by default.
func (s *Served) atFault(report verify.Report) bool {
	if s.Compiled == nil {
		return !s.Away
	}
	var trouble *registry.Error
	if !errors.As(report.Trouble, &trouble) || !trouble.Outage() {
		return true
	}
	return trouble.Kind == registry.Timeout && s.reaches(func(r *v1alpha1.RegistryStore) bool {
		return r.Timeout != nil && r.Timeout.Duration < registry.RequestTimeout
	})
}

// AtFault says whether it is for those who wrote the Executors to mend that an attempt came to no verdict. plainHTTP is
// whether others reach the registry so: to an Executor that alone does, one that wants TLS looks as if it were down.
func (m Match) AtFault(err error, plainHTTP bool) bool {
	var attempted *noVerdict
	return errors.As(err, &attempted) && attempted.own || m.PlainHTTP() && !plainHTTP
}

// PlainHTTP says whether one of those who judge reaches the registry without TLS.
func (m Match) PlainHTTP() bool {
	return slices.ContainsFunc(m.Enforced, func(s *Served) bool {
		return s.reaches(func(r *v1alpha1.RegistryStore) bool { return r.PlainHTTP })
	})
}

// reaches says whether a store of the build is a registry that is reached in some way.
func (s *Served) reaches(so func(*v1alpha1.RegistryStore) bool) bool {
	return s.Compiled != nil && slices.ContainsFunc(s.Compiled.spec.Stores, func(store v1alpha1.Store) bool {
		return store.Registry != nil && so(store.Registry)
	})
}
