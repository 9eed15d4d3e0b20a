package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/registry"
	"github.com/gatehouse-dev/gatehouse/internal/verify"
)

// Inquiries have images judged off the workers, by a pool that remembers what it found.
type Inquiries struct {
	Pool *registry.Pool
	// Clock tells how old a verdict is.
	Clock clock.PassiveClock
	// MaxAge is how old a positive verdict may be before it is made anew.
	MaxAge time.Duration
	// Verifications counts the attempts.
	Verifications *Verifications
}

// Knowledge says what can be told of an image now.
type Knowledge int

const (
	// Pending: the first verdict by the Executors as they are now is on its way.
	Pending Knowledge = iota
	// Vouched: all that have it in scope vouch for it.
	Vouched
	// Troubled: an attempt has come to no verdict, and is made again.
	Troubled
	// Refused: decided, and negative.
	Refused
)

// Known is what is known of an image.
type Known struct {
	Knowledge Knowledge
	// Message says of the image by whom it is vouched for, or why not.
	Message string
	// Err is what an attempt that has come to no verdict ended with, if it is Troubled.
	Err error
	// Wake is when to look again; zero is never, because the owner is woken.
	Wake time.Time
}

// Look is what is known of an image by those who judge it, of which there are some; it does not wait. What is not known
// yet is found out, unless it was since notBefore, and the owner is woken. What has been verified is kept under the image
// and all that it is judged by, so that a change of an Executor, of its trust or of its scopes is another question.
func (i Inquiries) Look(ctx context.Context, match Match, subject image.Pinned, owner types.NamespacedName, notBefore time.Time) Known {
	answer, answered := registry.Ask(i.Pool, registry.Question[Verdict]{
		Key:       subject.String(),
		Reference: subject.Reference(),
		Access:    match.Key(),
		Owner:     owner,
		MaxAge:    i.MaxAge,
		NotBefore: notBefore,
		Ask:       func(ctx context.Context) (Verdict, bool, error) { return match.Attempt(ctx, subject) },
		Heard:     i.heard(ctx, subject),
	})
	// One that is being renewed counts for as long again as it would have: a registry that is down for a while takes
	// nothing back. What has been refused stays so until there is another verdict.
	found := answer.Value
	renewable := i.Clock.Since(answer.ValueAt) < 2*i.MaxAge
	known := Known{Message: subject.String() + ": " + found.Message, Wake: answer.RetryAt}
	switch {
	case found.Outcome == verify.Failed:
		known.Knowledge = Refused
	case found.Outcome == verify.Passed && renewable:
		known.Knowledge = Vouched
		if answered && answer.Err == nil {
			known.Wake = answer.ValueAt.Add(i.MaxAge)
		}
	case answer.Err != nil:
		known.Knowledge, known.Err, known.Message = Troubled, answer.Err, subject.String()+": "+answer.Err.Error()
	default:
		known.Message = "looking for the signatures of " + subject.String()
	}
	return known
}

// heard counts attempts, and logs what is new.
func (i Inquiries) heard(ctx context.Context, subject image.Pinned) func(before, now registry.Answer[Verdict]) {
	logger := log.FromContext(ctx)
	return func(before, now registry.Answer[Verdict]) {
		i.Verifications.attempted(now)
		switch {
		case now.Err != nil && (before.Err == nil || before.Err.Error() != now.Err.Error()):
			logger.Info("image cannot be verified", "digest", subject.String(), "error", now.Err.Error())
		case now.Err == nil && (before.ValueAt.IsZero() || before.Value.Message != now.Value.Message):
			logger.Info("image "+outcomeWord(now.Value.Outcome), "digest", subject.String(), "message", now.Value.Message)
		}
	}
}

func outcomeWord(o verify.Outcome) string {
	if o == verify.Passed {
		return "verified"
	}
	return "refused"
}

// Verifications counts attempts to verify images, whoever begins them, by outcome.
type Verifications struct{ counter *prometheus.CounterVec }

// CountReleases registers the counter of attempts to verify an image of a release, or finds it registered: releases and
// gateways ask the same pool, and a process may run one manager after another.
func CountReleases(registerer prometheus.Registerer) (*Verifications, error) {
	return countVerifications(registerer, prometheus.CounterOpts{
		Name: "gatehouse_release_verifications_total",
		Help: "Attempts to verify an image of a release, by outcome: Passed, Failed, Undecided.",
	})
}

// CountTenants is CountReleases for what the Executors of a namespace make of the images that its gateways are given.
func CountTenants(registerer prometheus.Registerer) (*Verifications, error) {
	return countVerifications(registerer, prometheus.CounterOpts{
		Name: "gatehouse_gateway_verifications_total",
		Help: "Attempts to verify an image by the NamespacedExecutors beside a gateway, by outcome: Passed, Failed, Undecided.",
	})
}

func countVerifications(registerer prometheus.Registerer, options prometheus.CounterOpts) (*Verifications, error) {
	v := &Verifications{prometheus.NewCounterVec(options, []string{"outcome"})}
	var already prometheus.AlreadyRegisteredError
	if err := registerer.Register(v.counter); errors.As(err, &already) {
		known, ok := already.ExistingCollector.(*prometheus.CounterVec)
		if !ok {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
		v.counter = known
	} else if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	for _, outcome := range []verify.Outcome{verify.Passed, verify.Failed, verify.Undecided} {
		v.counter.WithLabelValues(label(outcome))
	}
	return v, nil
}

func (v *Verifications) attempted(answer registry.Answer[Verdict]) {
	outcome := verify.Undecided
	if answer.Err == nil {
		outcome = answer.Value.Outcome
	}
	v.counter.WithLabelValues(label(outcome)).Inc()
}

// label is how an outcome reads in reports.
func label(outcome verify.Outcome) string {
	text, err := outcome.MarshalText()
	if err != nil {
		return "Undecided"
	}
	return string(text)
}
