package cosign

import (
	"context"
	"fmt"
	"strings"
	"sync"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/sigstore/sigstore-go/pkg/root"
	sigstore "github.com/sigstore/sigstore-go/pkg/verify"

	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/verify"
)

// The types of what is read.
const (
	typeSimpleSigning = "application/vnd.dev.cosign.simplesigning.v1+json"
	typeSignature     = "application/vnd.dev.cosign.artifact.sig.v1+json"
	typesArtifact     = "application/vnd.dev.cosign.artifact."
	typesBundle       = "application/vnd.dev.sigstore.bundle"
	typeEnvelope      = "application/vnd.dsse.envelope.v1+json"
)

// together is how many signatures of one artifact are fetched and judged at once.
const together = 4

// Verifier judges cosign's signatures against one configuration. It is immutable
// and safe for concurrent use.
type Verifier struct {
	name        string
	log, stamps bool // required
	keys        []key
	identities  []sigstore.CertificateIdentity
	listed      []sigstore.PolicyOption // the identities
	keyless     *sigstore.Verifier      // nil without identities
	material    root.TrustedMaterial    // the trust root, which knows no keys
}

var _ verify.Verifier = (*Verifier)(nil)

// Name is the verifier's name in the Executor.
func (v *Verifier) Name() string { return v.name }

// Kind is verify.Cosign.
func (v *Verifier) Kind() verify.Kind { return verify.Cosign }

// Reads reports whether an artifact is what cosign and other tools of Sigstore
// attach: whatever is under the tag of signatures, and referrers of their types.
func (v *Verifier) Reads(artifact *verify.Artifact) bool {
	return artifact.Tagged || strings.HasPrefix(artifact.ArtifactType, typesArtifact) ||
		strings.HasPrefix(artifact.ArtifactType, typesBundle)
}

// Verify judges each layer of an artifact; what is no signature is refused by
// name. The findings are in the order of the layers.
func (v *Verifier) Verify(ctx context.Context, subject image.Pinned, artifact *verify.Artifact) []verify.Finding {
	if finding, is := otherArtifact(artifact); is {
		return []verify.Finding{finding}
	}
	layers := artifact.Manifest.Layers
	if len(layers) == 0 {
		return []verify.Finding{failed(verify.ReasonMalformed, "its manifest has no layers, which would be the signatures")}
	}
	var more []verify.Finding
	if len(layers) > verify.MaxFindings {
		judged := verify.MaxFindings - 1
		more = append(more, undecided(verify.ReasonTooLarge, fmt.Sprintf(
			"it holds %d signatures, of which the first %d were looked at; delete those that are not needed", len(layers), judged)))
		layers = layers[:judged]
	}
	if len(layers) == 1 { // as nearly always: no goroutine, whose stack the cryptography would make grow
		return []verify.Finding{v.verifyLayer(ctx, subject, artifact, layers[0])}
	}
	findings := make([]verify.Finding, len(layers), len(layers)+len(more))
	slots := make(chan struct{}, together)
	var running sync.WaitGroup
	for i, layer := range layers {
		slots <- struct{}{} // what holds one ends with ctx at the latest
		running.Go(func() {
			defer func() { <-slots }()
			findings[i] = v.verifyLayer(ctx, subject, artifact, layer)
		})
	}
	running.Wait()
	return append(findings, more...)
}

// otherArtifact is the finding for an artifact of cosign that is no signature.
func otherArtifact(artifact *verify.Artifact) (verify.Finding, bool) {
	kind := artifact.ArtifactType
	if !artifact.Tagged && strings.HasPrefix(kind, typesArtifact) && kind != typeSignature {
		return failed(verify.ReasonNotASignature, "it is no signature, but an artifact of type "+quote(kind)), true
	}
	// A bundle's manifest repeats the predicate type. Where it names an
	// attestation, that can be large, and is not fetched.
	predicate, stated := artifact.Manifest.Annotations["dev.sigstore.bundle.predicateType"]
	if stated && predicate != predicateSignature && strings.HasPrefix(kind, typesBundle) {
		return attestation(predicate), true
	}
	return verify.Finding{}, false
}

// verifyLayer judges one layer. The libraries are not written for hostile bytes
// throughout: where one of them panics, the bytes are what is at fault.
func (v *Verifier) verifyLayer(ctx context.Context, subject image.Pinned, artifact *verify.Artifact, layer ocispec.Descriptor) (finding verify.Finding) {
	defer func() {
		if recover() != nil {
			finding = failed(verify.ReasonMalformed, "it does not read as a signature")
		}
	}()
	if ctx.Err() != nil {
		return undecided(verify.ReasonUnreachable, "the verification ended before it was looked at")
	}
	switch {
	case layer.MediaType == typeSimpleSigning:
		return v.verifySimpleSigning(ctx, subject, artifact, layer)
	case strings.HasPrefix(layer.MediaType, typesBundle):
		return v.verifyBundle(ctx, subject, artifact, layer)
	case layer.MediaType == typeEnvelope:
		if predicate := layer.Annotations["predicateType"]; predicate != "" {
			return attestation(predicate)
		}
		return failed(verify.ReasonNotASignature, "it is an attestation, which is no signature")
	}
	return failed(verify.ReasonUnsupported, "its media type "+quote(layer.MediaType)+" is none of a signature of cosign")
}
