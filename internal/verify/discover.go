package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/registry"
)

// search looks for signatures in one store, for one verification. Requests that
// do not need each other's answers are under way together; what comes of them is
// taken in an order that depends on content alone, so that the same signatures
// give the same report.
type search struct {
	engine  *Engine
	subject image.Pinned
	store   string
	source  source
	blobs   *blobs
	room    int // how many more artifacts may be judged

	mu      sync.Mutex
	claimed map[image.Digest]bool // artifacts that were judged, or are being
}

// found is what came of one artifact, or why there is none.
type found struct {
	report   *ArtifactReport // nil if there was no signature in it
	findings []verdicts
	gap      *gap
	// taken, where there is one, is closed once everything before has been taken
	// and has not decided.
	taken chan struct{}
}

// verdicts are what one verifier made of an artifact.
type verdicts struct {
	verifier string
	findings []Finding
}

// gap is something that was not looked at.
type gap struct {
	text      string
	verifiers []Verifier // who might have found something there
	err       error      // of the store; nil where a bound was met
}

func (s *search) gap(text string, verifiers []Verifier) found {
	return found{gap: &gap{text, verifiers, nil}}
}

// trouble is what an error of the store means for these verifiers.
func (s *search) trouble(err error, verifiers []Verifier) found {
	return found{gap: &gap{err.Error(), verifiers, err}}
}

// contradicted is what it means that a store says of a manifest what the manifest
// does not: whoever says the truth might show a signature there.
func (s *search) contradicted(verifiers []Verifier) found {
	return s.gap("store "+s.store+": "+errContradicted.Error(), verifiers)
}

// claim reports whether an artifact is to be judged: nobody else does.
func (s *search) claim(digest image.Digest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.claimed[digest] {
		return false
	}
	s.claimed[digest] = true
	return true
}

// tagged judges what is under cosign's tag.
func (s *search) tagged(ctx context.Context, tag string) found {
	verifiers := s.engine.ofKind(Cosign)
	got, err := s.source.Tagged(ctx, tag)
	if isNotFound(err) {
		return found{}
	}
	if err != nil {
		return s.trouble(err, verifiers)
	}
	if !s.claim(got.Digest) {
		return found{}
	}
	artifact, err := readArtifact(s.store, true, got, s.blobs)
	if errors.Is(err, errContradicted) {
		return s.contradicted(verifiers)
	}
	if err != nil {
		return s.refused(got.Digest, tag, verifiers, ReasonMalformed, "tag "+tag+": "+err.Error())
	}
	readers := readersOf(verifiers, artifact)
	if len(readers) == 0 {
		return s.refused(got.Digest, tag, verifiers, ReasonMalformed, "tag "+tag+": it holds no signature of cosign")
	}
	return s.judge(ctx, artifact, tag, readers)
}

// manifestResult is a manifest that was fetched, or why not.
type manifestResult struct {
	digest  image.Digest
	got     registry.Manifest
	err     error
	instead *found // of all that: a gap, or a pause
}

// referrers judges what refers to the subject, in the order in which the results
// are to be taken. The channel is closed when there are no more, or ctx ends.
// Whoever called it waits for running after having ended ctx.
func (s *search) referrers(ctx context.Context, running *sync.WaitGroup) <-chan chan found {
	manifests := make(chan chan manifestResult, s.engine.limits.Concurrency-1)
	results := make(chan chan found, s.engine.limits.Concurrency-1)
	running.Go(func() {
		defer close(manifests)
		s.list(ctx, func(fetch func() manifestResult) bool {
			return launch(ctx, running, manifests, fetch)
		})
	})
	running.Go(func() {
		defer close(results)
		judged := 0
		for pending := range manifests {
			result, readers, artifact := s.recognise(<-pending)
			if artifact == nil {
				if result.report == nil && result.gap == nil && result.taken == nil {
					continue
				}
			} else if judged++; judged > s.room {
				result = s.gap(fmt.Sprintf("store %s: more than %d artifacts with signatures", s.store, s.engine.limits.MaxArtifacts), readers)
				launch(ctx, running, results, func() found { return result })
				return // those who still fetch manifests end with ctx
			}
			if !launch(ctx, running, results, func() found {
				if artifact == nil {
					return result
				}
				return s.judge(ctx, artifact, "", readers)
			}) {
				return
			}
		}
	})
	return results
}

// launch runs work beside the caller, and puts the place where its result will be
// in the queue; it waits while the queue is full, and is false if ctx ended.
func launch[T any](ctx context.Context, running *sync.WaitGroup, queue chan<- chan T, work func() T) bool {
	result := make(chan T, 1)
	select {
	case queue <- result:
	case <-ctx.Done():
		return false
	}
	running.Go(func() { result <- work() })
	return true
}

// list fetches the manifests of the referrers: of each page those first that claim
// to be what is looked for, and those that claim to be something else after
// everything. No claim is believed, so none is left out; but what is less likely
// is not fetched before it is known that the likelier did not decide.
func (s *search) list(ctx context.Context, launch func(func() manifestResult) bool) {
	l := &listing{search: s, ctx: ctx, launch: launch, asked: map[image.Digest]bool{}}
	var unlikely []ocispec.Descriptor
	var ended error
	for page, err := range s.source.Referrers(ctx, s.subject.Digest(), "") {
		if err != nil {
			ended = err
			break
		}
		for _, d := range page {
			if s.likelihood(d) == claimsOther {
				unlikely = append(unlikely, d)
			}
		}
		for _, likelihood := range []int{claimsSignature, claimsNothing, claimsAttestation} {
			if !l.fetchAll(page, likelihood) {
				return
			}
		}
	}
	if !l.fetchAll(unlikely, claimsOther) {
		return
	}
	if ended != nil {
		l.instead(s.trouble(ended, s.engine.verifiers))
	}
}

// listing is the work of list.
type listing struct {
	*search
	ctx    context.Context
	launch func(func() manifestResult) bool
	asked  map[image.Digest]bool
}

// fetchAll fetches the manifests of those descriptors that are as likely, and waits
// until what came of them was taken. It is false if there is nothing more to do.
func (l *listing) fetchAll(descriptors []ocispec.Descriptor, likelihood int) bool {
	var digests []image.Digest
	for _, d := range descriptors {
		if l.likelihood(d) != likelihood {
			continue
		}
		if of, err := image.ParseDigest(string(d.Digest)); err == nil && !l.asked[of] {
			l.asked[of] = true
			digests = append(digests, of)
		}
	}
	if len(digests) == 0 {
		return true
	}
	slices.SortFunc(digests, func(a, b image.Digest) int { return cmp.Compare(a.String(), b.String()) })
	most := l.engine.limits.MaxManifests
	room := most - (len(l.asked) - len(digests))
	for _, of := range digests[:min(room, len(digests))] {
		if !l.launch(func() manifestResult {
			got, err := l.source.Manifest(l.ctx, of)
			return manifestResult{digest: of, got: got, err: err}
		}) {
			return false
		}
	}
	if room < len(digests) {
		l.instead(l.gap(fmt.Sprintf("store %s: more than %d referrers", l.store, most), l.engine.verifiers))
		return false
	}
	taken := make(chan struct{})
	if !l.instead(found{taken: taken}) {
		return false
	}
	select {
	case <-taken:
		return true
	case <-l.ctx.Done():
		return false
	}
}

// instead puts something in the queue that is no manifest.
func (l *listing) instead(f found) bool {
	return l.launch(func() manifestResult { return manifestResult{instead: &f} })
}

// recognise tells by the manifest what a referrer is: an artifact and the
// verifiers that read it, or what is to be reported in its place.
func (s *search) recognise(m manifestResult) (found, []Verifier, *Artifact) {
	switch {
	case m.instead != nil:
		return *m.instead, nil, nil
	case isNotFound(m.err):
		return found{}, nil, nil // listed still, but deleted
	case m.err != nil:
		if _, undecided := reasonOf(m.err); undecided {
			return s.trouble(m.err, s.engine.verifiers), nil, nil
		}
		return s.refused(m.digest, "", s.engine.verifiers, ReasonMalformed, m.err.Error()), nil, nil
	case !s.claim(m.digest):
		return found{}, nil, nil
	}
	artifact, err := readArtifact(s.store, false, m.got, s.blobs)
	if errors.Is(err, errNoArtifact) {
		return found{}, nil, nil
	}
	if errors.Is(err, errContradicted) {
		return s.contradicted(s.engine.verifiers), nil, nil
	}
	if err != nil {
		return s.refused(m.digest, "", s.engine.verifiers, ReasonMalformed, err.Error()), nil, nil
	}
	readers := readersOf(s.engine.verifiers, artifact)
	if len(readers) == 0 {
		return found{}, nil, nil
	}
	if of := artifact.Manifest.Subject; of == nil || string(of.Digest) != s.subject.Digest().String() {
		refused := s.refused(m.digest, "", readers, ReasonOtherSubject, "it is listed as a referrer of this image, but its manifest names another one as its subject")
		refused.report.ArtifactType = artifact.ArtifactType
		return refused, nil, nil
	}
	return found{}, readers, artifact
}

// The artifact types that are looked for first.
const (
	typeNotation     = "application/vnd.cncf.notary.signature"
	typeCosign       = "application/vnd.dev.cosign.artifact.sig.v1+json"
	typeBundlePrefix = "application/vnd.dev.sigstore.bundle"

	// A bundle says in annotations of its manifest what it attests; registries
	// repeat these in their lists.
	annotationPredicate = "dev.sigstore.bundle.predicateType"
	predicateSignature  = "https://sigstore.dev/cosign/sign/v1"
)

// How likely a descriptor is to be of a signature, by what it claims.
const (
	claimsSignature = iota
	claimsNothing
	claimsAttestation
	claimsOther
)

func (s *search) likelihood(d ocispec.Descriptor) int {
	switch claimed := d.ArtifactType; {
	case claimed == typeNotation && s.engine.reads(Notation), claimed == typeCosign && s.engine.reads(Cosign):
		return claimsSignature
	case strings.HasPrefix(claimed, typeBundlePrefix) && s.engine.reads(Cosign):
		if predicate := d.Annotations[annotationPredicate]; predicate != "" && predicate != predicateSignature {
			return claimsAttestation
		}
		return claimsSignature
	case claimed == "", claimed == ocispec.MediaTypeImageConfig, claimed == ocispec.MediaTypeEmptyJSON:
		return claimsNothing
	}
	return claimsOther
}
