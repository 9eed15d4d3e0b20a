package verify

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/verify/policy"
)

// verification is one image on its way to a verdict. One goroutine owns it; those
// that fetch and judge hand it what they found.
type verification struct {
	engine  *Engine
	subject image.Pinned

	shown     map[string]*shown // by verifier
	gaps      []gap
	reports   []ArtifactReport
	stores    []StoreReport
	judged    map[image.Digest]bool // decided by all their readers
	artifacts int
	found     int // signatures
}

// shown is what one verifier made of all that it was shown.
type shown struct {
	signers    []string
	identities map[string]string // by signer
	reasons    map[Reason]int    // of signatures that do not count
	// undecided are artifacts with a signature that could not be judged, with why.
	undecided map[string]string
}

func newVerification(engine *Engine, subject image.Pinned) *verification {
	v := &verification{engine: engine, subject: subject, shown: map[string]*shown{}, judged: map[image.Digest]bool{}}
	for _, verifier := range engine.verifiers {
		v.shown[verifier.Name()] = &shown{identities: map[string]string{}, reasons: map[Reason]int{}, undecided: map[string]string{}}
	}
	return v
}

// ask looks through one store, and reports whether nothing more needs to be
// asked.
func (v *verification) ask(ctx context.Context, store Store) bool {
	v.stores = append(v.stores, StoreReport{Name: store.Name()})
	before := len(v.gaps)
	source, err := store.open(v.subject)
	s := &search{engine: v.engine, subject: v.subject, store: store.Name(), source: source}
	if err != nil {
		v.take(s.trouble(err, v.engine.verifiers))
		return false
	}
	defer source.Close()
	s.blobs = &blobs{from: source, kept: map[blobKey]*fetched{}}
	s.room = v.engine.limits.MaxArtifacts - v.artifacts
	s.claimed = maps.Clone(v.judged)

	var running sync.WaitGroup
	defer running.Wait()
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	// Referrers are asked at once where a verifier needs them, and otherwise only
	// if the tag did not decide.
	var referrers <-chan chan found
	if v.engine.reads(Notation) {
		referrers = s.referrers(asking, &running)
	}
	if tag := signatureTag(v.subject.Digest()); tag != "" && v.engine.reads(Cosign) {
		if v.take(s.tagged(asking, tag)) {
			return true
		}
	}
	if referrers == nil {
		referrers = s.referrers(asking, &running)
	}
	for result := range referrers {
		if v.take(<-result) {
			return true
		}
	}
	if ctx.Err() != nil {
		// Which question was cut short is a matter of chance, and said of none.
		short := s.gap(fmt.Sprintf("store %s: not all of it was looked at in the time there was", store.Name()), v.engine.verifiers)
		for _, gap := range v.gaps[before:] {
			if short.gap.err == nil {
				short.gap.err = gap.err
			}
		}
		v.gaps, v.stores[len(v.stores)-1].Errors = v.gaps[:before], nil
		v.take(short)
		return true
	}
	return false
}

// take adds what was found, and reports whether nothing more needs to be asked:
// the policy is satisfied, or a bound is met.
func (v *verification) take(f found) bool {
	store := &v.stores[len(v.stores)-1]
	if f.taken != nil {
		close(f.taken)
		return false
	}
	if f.gap != nil {
		v.gaps = append(v.gaps, *f.gap)
		store.Errors = append(store.Errors, f.gap.text)
		return false
	}
	if f.report == nil {
		return false
	}
	store.Artifacts++
	v.artifacts++
	report, decided := *f.report, true
	for _, of := range f.findings {
		shown := v.shown[of.verifier]
		delete(shown.undecided, report.Artifact)
		for _, finding := range of.findings {
			report.Results = append(report.Results, resultOf(of.verifier, finding))
			shown.add(report.Artifact, finding)
			decided = decided && finding.Outcome != Undecided
			v.found++
		}
	}
	v.reports = append(v.reports, report)
	if digest, err := image.ParseDigest(report.Artifact); err == nil && decided {
		v.judged[digest] = true
	}
	if v.decide(true).Verdict == policy.Satisfied {
		return true
	}
	if v.found > v.engine.limits.MaxSignatures {
		v.gap(fmt.Sprintf("store %s: more than %d signatures", store.Name, v.engine.limits.MaxSignatures), v.engine.verifiers)
		return true
	}
	return false
}

func (v *verification) gap(text string, verifiers []Verifier) {
	v.gaps = append(v.gaps, gap{text, verifiers, nil})
}

func (s *shown) add(artifact string, f Finding) {
	switch f.Outcome {
	case Passed:
		if !slices.Contains(s.signers, f.Signer) {
			s.signers = append(s.signers, f.Signer)
			s.identities[f.Signer] = f.Identity
		}
		return
	case Undecided:
		if _, known := s.undecided[artifact]; !known {
			s.undecided[artifact] = f.Message
		}
	}
	s.reasons[f.Reason]++
}

// decide weighs what is known. While looking, everything may yet come.
func (v *verification) decide(looking bool) policy.Decision {
	evidence := map[string]policy.Evidence{}
	for name, shown := range v.shown {
		evidence[name] = policy.Evidence{Signers: shown.signers, Open: looking || len(shown.undecided) > 0}
	}
	for _, gap := range v.gaps {
		for _, verifier := range gap.verifiers {
			evidence[verifier.Name()] = policy.Evidence{Signers: evidence[verifier.Name()].Signers, Open: true}
		}
	}
	return v.engine.policy.Decide(evidence)
}

func resultOf(verifier string, f Finding) Result {
	r := Result{
		VerifierName: verifier,
		Outcome:      f.Outcome,
		Reason:       f.Reason,
		Signer:       f.Signer,
		Identity:     f.Identity,
		Detail:       f.Identity,
		Warnings:     f.Warnings,
	}
	switch f.Outcome {
	case Passed:
		r.Description = f.Message
		if r.Description == "" {
			r.Description = "the signature is good, and its signer is trusted"
		}
	case Failed:
		r.Description, r.ErrorReason = "refused: "+phrase(f.Reason), f.Message
	default:
		r.Description, r.ErrorReason = "cannot decide: "+phrase(f.Reason), f.Message
	}
	if f.Outcome != Passed && r.ErrorReason == "" {
		r.ErrorReason = string(f.Reason)
	}
	return r
}
