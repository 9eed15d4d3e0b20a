package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/verify/policy"
)

// Limits bound one verification. A zero field means its default. Whoever meets a
// bound is Undecided, unless what was seen before decides.
type Limits struct {
	// Deadline of the whole verification. Default 30s.
	Deadline time.Duration
	// MaxArtifacts is how many artifacts with signatures are judged. Default 50.
	MaxArtifacts int
	// MaxManifests is how many referrers are looked at to learn what they are.
	// Default 200.
	MaxManifests int
	// MaxSignatures is how many signatures are judged in all, which bounds the
	// cryptography. Default 128; the artifacts under way may add theirs.
	MaxSignatures int
	// Concurrency is how many artifacts of a kind of place are fetched at once.
	// Default 4.
	Concurrency int
}

func (l Limits) withDefaults() Limits {
	if l.Deadline == 0 {
		l.Deadline = 30 * time.Second
	}
	setDefault(&l.MaxArtifacts, 50)
	setDefault(&l.MaxManifests, 200)
	setDefault(&l.MaxSignatures, 128)
	setDefault(&l.Concurrency, 4)
	return l
}

func setDefault(field *int, value int) {
	if *field == 0 {
		*field = value
	}
}

// Config is what an Engine is made of.
type Config struct {
	// Name is the Executor's, as it stands in reports.
	Name string
	// Stores are asked in order, until the policy is satisfied.
	Stores []Store
	// Verifiers have names that differ.
	Verifiers []Verifier
	// Policy is over the names of the verifiers; nil means that every verifier
	// must pass.
	Policy []policy.Group
	// Mode is Enforce if empty.
	Mode   Mode
	Limits Limits
}

// Engine is one compiled Executor. It is immutable and safe for concurrent use.
type Engine struct {
	name      string
	stores    []Store
	verifiers []Verifier
	policy    *policy.Policy
	mode      Mode
	limits    Limits
}

// New compiles an Engine. The error names what is at fault.
func New(config Config) (*Engine, error) {
	if len(config.Stores) == 0 {
		return nil, errors.New("no store is given; name a place in which signatures are found")
	}
	var names []string
	for _, store := range config.Stores {
		if slices.Contains(names, store.Name()) {
			return nil, fmt.Errorf("store %s: the name is given twice", store.Name())
		}
		names = append(names, store.Name())
	}
	var verifiers []string
	for _, verifier := range config.Verifiers {
		if verifier.Kind() != Notation && verifier.Kind() != Cosign {
			return nil, fmt.Errorf("verifier %s: nothing is known of signatures of kind %q", verifier.Name(), verifier.Kind())
		}
		verifiers = append(verifiers, verifier.Name())
	}
	compiled, err := policy.Compile(verifiers, config.Policy)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	mode := config.Mode
	switch mode {
	case "":
		mode = Enforce
	case Enforce, Audit:
	default:
		return nil, fmt.Errorf("mode is %q; write Enforce or Audit", mode)
	}
	return &Engine{
		name:      config.Name,
		stores:    slices.Clone(config.Stores),
		verifiers: slices.Clone(config.Verifiers),
		policy:    compiled,
		mode:      mode,
		limits:    config.Limits.withDefaults(),
	}, nil
}

// Name is the Executor's name.
func (e *Engine) Name() string { return e.name }

// Mode is Enforce or Audit.
func (e *Engine) Mode() Mode { return e.mode }

// Verify judges an image. It returns when the policy is decided, when there is
// nothing left to look at, or when ctx or the engine's deadline ends.
func (e *Engine) Verify(ctx context.Context, subject image.Pinned) Report {
	ctx, cancel := context.WithTimeout(ctx, e.limits.Deadline)
	defer cancel()
	v := newVerification(e, subject)
	if subject.IsZero() {
		v.gap("no image is given", e.verifiers)
		return v.report()
	}
	for _, store := range e.stores {
		if v.ask(ctx, store) {
			break
		}
	}
	return v.report()
}

// reads reports whether a verifier of the kind is among them.
func (e *Engine) reads(kind Kind) bool { return len(e.ofKind(kind)) > 0 }

// ofKind lists the verifiers of a kind.
func (e *Engine) ofKind(kind Kind) []Verifier {
	var of []Verifier
	for _, verifier := range e.verifiers {
		if verifier.Kind() == kind {
			of = append(of, verifier)
		}
	}
	return of
}
