package verify

import (
	"context"
	"errors"
	"fmt"

	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/registry"
)

// judge has every reader judge an artifact.
func (s *search) judge(ctx context.Context, artifact *Artifact, tag string, readers []Verifier) found {
	result := found{report: &ArtifactReport{
		Subject:      s.subject.String(),
		Artifact:     artifact.Digest.String(),
		ArtifactType: oneLine(artifact.ArtifactType, maxIdentity),
		Store:        s.store,
		Tag:          tag,
	}}
	for _, verifier := range readers {
		result.findings = append(result.findings, verdicts{verifier.Name(), sound(ctx, verifier, s.subject, artifact)})
	}
	return result
}

// refused is an artifact that no verifier needs to judge.
func (s *search) refused(digest image.Digest, tag string, verifiers []Verifier, reason Reason, message string) found {
	result := found{report: &ArtifactReport{Subject: s.subject.String(), Artifact: digest.String(), Store: s.store, Tag: tag}}
	for _, verifier := range verifiers {
		result.findings = append(result.findings, verdicts{verifier.Name(), []Finding{{Outcome: Failed, Reason: reason, Message: message}}})
	}
	return result
}

// sound has a verifier judge, and holds it to what it promises: a finding that
// says too little counts for nothing.
func sound(ctx context.Context, verifier Verifier, subject image.Pinned, artifact *Artifact) (findings []Finding) {
	defer func() {
		if broken := recover(); broken != nil {
			findings = []Finding{{Outcome: Failed, Reason: ReasonMalformed, Message: "it makes the verifier break; please report this"}}
		}
	}()
	findings = verifier.Verify(ctx, subject, artifact)
	switch {
	case len(findings) == 0:
		findings = []Finding{{Outcome: Failed, Reason: ReasonMalformed, Message: "it holds no signature"}}
	case len(findings) > MaxFindings:
		findings = append(findings[:MaxFindings:MaxFindings], Finding{
			Outcome: Undecided, Reason: ReasonTooLarge,
			Message: fmt.Sprintf("it holds more than %d signatures", MaxFindings),
		})
	}
	for i := range findings {
		f := &findings[i]
		if f.Outcome == Passed && f.Signer == "" {
			f.Outcome, f.Message = Undecided, "the verifier does not say who signed"
		}
		if f.Outcome != Passed {
			f.Signer = ""
		}
		f.Message = oneLine(f.Message, maxMessage)
		f.Identity = oneLine(f.Identity, maxIdentity)
	}
	return findings
}

// readersOf are the verifiers that read an artifact.
func readersOf(verifiers []Verifier, artifact *Artifact) []Verifier {
	var readers []Verifier
	for _, verifier := range verifiers {
		if verifier.Reads(artifact) {
			readers = append(readers, verifier)
		}
	}
	return readers
}

func isNotFound(err error) bool {
	var e *registry.Error
	return errors.As(err, &e) && e.Kind == registry.NotFound
}
