package verify

import (
	"context"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/gatehouse-dev/gatehouse/internal/image"
)

// Kind is a make of signatures. It says where they are looked for.
type Kind string

// The kinds of signatures.
const (
	// Notation signatures are referrers of type
	// application/vnd.cncf.notary.signature.
	Notation Kind = "notation"
	// Cosign signatures are under the tag sha256-….sig, or referrers: bundles
	// and simple-signing manifests.
	Cosign Kind = "cosign"
)

// Artifact is something that was found attached to a subject: its manifest,
// fetched, and proven to be what its digest says. Nothing about it is taken from
// what an index or a registry's answer claimed.
type Artifact struct {
	// Store is the name of the store in which it was found.
	Store string
	// Tagged reports whether it was found under a tag and not as a referrer.
	Tagged bool
	// Digest is that of the manifest.
	Digest image.Digest
	// ArtifactType is what the manifest says it is: its artifactType, or else
	// the media type of its config.
	ArtifactType string
	// Manifest is the manifest, decoded without tolerance for duplicate keys.
	Manifest ocispec.Manifest
	// Blob fetches one of the manifest's layers, at most limit bytes of it,
	// and proves it against its descriptor. What was fetched once is kept for
	// the verification. Its error is an *UndecidedError, or says that the
	// content contradicts its descriptor.
	Blob func(ctx context.Context, layer ocispec.Descriptor, limit int64) ([]byte, error)
}

// Verifier judges signatures of one kind against one configuration. It is
// immutable and safe for concurrent use.
type Verifier interface {
	// Name is the verifier's name in the Executor.
	Name() string
	// Kind is the make of signatures it reads.
	Kind() Kind
	// Reads reports whether an artifact may hold a signature that it judges, by
	// what the manifest says. An artifact of its kind that is no signature, as
	// an attestation, is read, and refused by name.
	Reads(artifact *Artifact) bool
	// Verify judges every signature of an artifact that Reads. It returns at
	// least one finding, and never more than MaxFindings. It does not panic, whatever
	// the artifact holds, and returns when ctx ends.
	Verify(ctx context.Context, subject image.Pinned, artifact *Artifact) []Finding
}

// MaxFindings bounds the signatures of one artifact that a verifier judges; more
// are Undecided, as ReasonTooLarge.
const MaxFindings = 32

// Finding is what a verifier makes of one signature.
type Finding struct {
	Outcome Outcome
	// Reason is the class of the finding.
	Reason Reason
	// Signer is who proved to have signed, and empty unless Passed: what
	// thresholds count. One signer has one text, however often it signs and by
	// whichever verifier it is found: the SHA-256 of a key as key:sha256:…; the
	// subject of a notation certificate as x509:CN=…; issuer and subject of a
	// keyless identity as oidc:ISSUER#SUBJECT.
	Signer string
	// Identity is who claims to have signed, for people, when that is known;
	// also of a signature that failed.
	Identity string
	// Message is one line for people: it names the field of the Executor that
	// is at fault, where one is. It is the same for the same signature, and
	// repeats of the peer's own text only what is quoted and bounded.
	Message string
	// Warnings are faults that the verifier's configuration tolerates, as an
	// expired certificate at level Permissive, sorted.
	Warnings []string
}

// UndecidedError is why something could not be looked at: Reason is
// ReasonUnreachable or ReasonTooLarge.
type UndecidedError struct {
	Reason Reason
	// Err is the cause; its text is fit for a status.
	Err error
}

func (e *UndecidedError) Error() string { return e.Err.Error() }

func (e *UndecidedError) Unwrap() error { return e.Err }
