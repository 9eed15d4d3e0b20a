package notation

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/notaryproject/notation-core-go/signature"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"k8s.io/utils/clock"

	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/verify"
)

// Verifier judges signatures of the Notary Project. It is immutable and safe for
// concurrent use.
type Verifier struct {
	name        string
	level       Level
	revocation  Revocation
	identities  []identity
	anchors     map[signature.SigningScheme]anchors
	timestamps  anchors
	known       parsed       // all certificates of the trust stores
	revocations *revocations // nil where revocation is skipped
	clock       clock.PassiveClock
}

var _ verify.Verifier = (*Verifier)(nil)

// Name is the verifier's name in the Executor.
func (v *Verifier) Name() string { return v.name }

// Kind is verify.Notation.
func (v *Verifier) Kind() verify.Kind { return verify.Notation }

// Reads reports whether artifact says that it is a signature of the Notary
// Project.
func (v *Verifier) Reads(artifact *verify.Artifact) bool {
	return artifact.ArtifactType == artifactType
}

// Verify judges the one signature of an artifact.
func (v *Verifier) Verify(ctx context.Context, subject image.Pinned, artifact *verify.Artifact) []verify.Finding {
	j := judgement{Verifier: v, subject: subject, artifact: artifact}
	return []verify.Finding{j.finding(ctx)}
}

// judgement is the way of one signature through the steps.
type judgement struct {
	*Verifier
	subject  image.Pinned
	artifact *verify.Artifact

	identity string
	signer   string
	warnings []string
}

func (j *judgement) finding(ctx context.Context) (finding verify.Finding) {
	// What reads the formats are libraries, and some are known to panic at what
	// they do not expect. An image does not pass on that, nor does Gatehouse end.
	defer func() {
		if recover() != nil {
			finding = j.refusal(failed(verify.ReasonMalformed, "the signature cannot be read, as it makes its reader fail: sign the image again"))
		}
	}()
	if fault := j.judge(ctx); fault != nil {
		return j.refusal(fault)
	}
	slices.Sort(j.warnings)
	return verify.Finding{
		Outcome: verify.Passed, Reason: verify.ReasonVerified,
		Signer: j.signer, Identity: j.identity, Warnings: j.warnings,
		Message: "signed by " + quoted(strings.TrimPrefix(j.signer, "x509:")),
	}
}

func (j *judgement) refusal(f *fault) verify.Finding {
	slices.Sort(j.warnings)
	return verify.Finding{
		Outcome: f.outcome, Reason: f.reason,
		Identity: j.identity, Warnings: j.warnings,
		Message: f.message,
	}
}

// judge takes a signature through all steps, and returns at the first fault.
func (j *judgement) judge(ctx context.Context) *fault {
	layer, content, fault := fetch(ctx, j.subject, j.artifact)
	if fault != nil {
		return fault
	}
	opened, fault := open(layer.MediaType, content, j.known)
	if fault != nil {
		return fault
	}
	info := &opened.SignerInfo
	chain := info.CertificateChain
	if fault := j.identify(chain[0]); fault != nil {
		return fault
	}
	if fault := understood(info); fault != nil {
		return fault
	}
	if fault := about(j.subject, j.artifact.Manifest.Subject, opened.Payload.Content); fault != nil {
		return fault
	}
	if fault := j.authentic(info); fault != nil {
		return fault
	}

	now := j.clock.Now()
	if expiry := info.SignedAttributes.Expiry; !expiry.IsZero() && !now.Before(expiry) {
		if fault := j.tolerate(failed(verify.ReasonExpired, "the signature expired on %s: sign the image again", day(expiry))); fault != nil {
			return fault
		}
	}
	stamped, fault := j.checkTime(ctx, info, now)
	if fault = j.tolerate(fault); fault != nil {
		return fault
	}
	return j.notRevoked(ctx, info, stamped)
}

// tolerate turns a fault of time into a warning where the level says so. What is
// undecided is a bound of Gatehouse, which no level lifts.
func (j *judgement) tolerate(f *fault) *fault {
	if f == nil || j.level == Strict || f.outcome == verify.Undecided {
		return f
	}
	j.warnings = append(j.warnings, f.message)
	return nil
}

func (j *judgement) identify(leaf *x509.Certificate) *fault {
	signer, err := signerOf(leaf)
	if err != nil {
		return failed(verify.ReasonMalformed, "the signing certificate cannot be told from others: %s; sign with another", err)
	}
	j.signer, j.identity = signer, signer
	return nil
}

const (
	pluginAttribute        = "io.cncf.notary.verificationPlugin"
	pluginVersionAttribute = "io.cncf.notary.verificationPluginMinVersion"
)

// understood refuses a signature that is to be verified by more than is here: by a
// plugin, or by a reader of attributes that are critical.
func understood(info *signature.SignerInfo) *fault {
	var critical []string
	for _, attribute := range info.SignedAttributes.ExtendedAttributes {
		name := fmt.Sprint(attribute.Key)
		switch {
		case name == pluginAttribute:
			return failed(verify.ReasonUnsupported, "the signature is to be verified by the plugin %s, and Gatehouse runs none: sign the image without it", quoted(fmt.Sprint(attribute.Value)))
		case attribute.Critical, name == pluginVersionAttribute:
			critical = append(critical, name)
		}
	}
	if len(critical) > 0 {
		return failed(verify.ReasonUnsupported, "the signature has the critical attribute %s, which Gatehouse does not know: sign the image without it", quoted(slices.Min(critical)))
	}
	return nil
}

// about refuses what signs another subject: another digest, or the same bytes as
// something else than what the manifest says they are.
func about(subject image.Pinned, claimed *ocispec.Descriptor, payload []byte) *fault {
	var signed struct {
		TargetArtifact *ocispec.Descriptor `json:"targetArtifact"`
	}
	if err := json.Unmarshal(payload, &signed); err != nil || signed.TargetArtifact == nil {
		return failed(verify.ReasonMalformed, "the signature's payload names no target artifact: sign the image again, with notation")
	}
	target := signed.TargetArtifact
	if target.Digest.String() != subject.Digest().String() {
		return failed(verify.ReasonOtherSubject, "the signature signs %s: it was copied to this image from another", shortened(target.Digest.String()))
	}
	if target.MediaType != claimed.MediaType || target.Size != claimed.Size {
		return failed(verify.ReasonOtherSubject, "the signature signs %s as %s of %d bytes, and its manifest is about %s of %d bytes: sign the image again",
			subject.Digest().Short(), quoted(target.MediaType), target.Size, quoted(claimed.MediaType), claimed.Size)
	}
	return nil
}

// authentic decides whether the signer is vouched for by a trust store, and is one
// of those whose signatures count.
func (j *judgement) authentic(info *signature.SignerInfo) *fault {
	scheme, kind := info.SignedAttributes.SigningScheme, CA
	if scheme == signature.SigningSchemeX509SigningAuthority {
		kind = SigningAuthority
	}
	a := j.anchors[scheme]
	leaf, root := info.CertificateChain[0], info.CertificateChain[len(info.CertificateChain)-1]
	if len(a.certificates) == 0 {
		return failed(verify.ReasonUntrustedSigner, "the signature is vouched for by a store of type %s, and trustStores has none: add one with %s, if it is to be trusted", kind, describe(root))
	}
	if !a.vouch(info.CertificateChain) {
		return failed(verify.ReasonUntrustedSigner, "the signer's certificate leads to %s, which is not in the trust stores %s: add it to trustStores, if it is to be trusted", describe(root), listed(a.stores))
	}
	if fault := usable(info.CertificateChain); fault != nil {
		return fault
	}
	for _, i := range j.identities {
		if i.matches(leaf.Subject) {
			return nil
		}
	}
	return failed(verify.ReasonIdentityMismatch, "the signer %s is none of trustedIdentities: add it there, if it is to be trusted", quoted(strings.TrimPrefix(j.signer, "x509:")))
}

// listed names trust stores, whose names are the configuration's own.
func listed(stores []string) string {
	sorted := slices.Sorted(slices.Values(stores))
	return strings.Join(sorted, ", ")
}
