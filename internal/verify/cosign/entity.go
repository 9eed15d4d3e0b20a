package cosign

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"errors"

	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/tlog"
	sigstore "github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/options"
)

// entity is one signature with what proves it, as sigstore-go verifies it. It is
// judged by one goroutine.
type entity struct {
	signature     []byte
	certificate   *x509.Certificate // nil: signed with a key
	intermediates []*x509.Certificate
	entries       []*tlog.Entry
	stamps        [][]byte
	content       sigstore.SignatureContent

	// message is what is signed; nil if only its digest is known.
	message []byte
	// digest is that of what is signed, by hash; unset where an envelope is signed.
	digest []byte
	hash   crypto.Hash
	// artifact is what the content must be about.
	artifact func() sigstore.ArtifactPolicyOption

	// byKey presents the entity as signed with a key even if it has a
	// certificate.
	byKey bool
}

var _ sigstore.SignedEntity = (*entity)(nil)

// errEmpty cannot come up: an entity is made with content.
var errEmpty = errors.New("the signature has no content")

// SignatureContent is the message signature or the envelope.
func (e *entity) SignatureContent() (sigstore.SignatureContent, error) {
	if e.content == nil {
		return nil, errEmpty
	}
	return e.content, nil
}

// VerificationContent is the certificate, or the wish for a key.
func (e *entity) VerificationContent() (sigstore.VerificationContent, error) {
	if e.certificate == nil || e.byKey {
		return &bundle.PublicKey{}, nil
	}
	// The library changes the certificate that it gets.
	leaf := *e.certificate
	return broughtCertificate{bundle.NewCertificate(&leaf), e.intermediates}, nil
}

// broughtCertificate is a certificate that brings intermediate ones.
type broughtCertificate struct {
	*leafCertificate
	intermediates []*x509.Certificate
}

// leafCertificate has a name under which it can be embedded: its own is that of
// one of its methods.
type leafCertificate = bundle.Certificate

func (c broughtCertificate) Intermediates() []*x509.Certificate { return c.intermediates }

// TlogEntries are the entries in transparency logs.
func (e *entity) TlogEntries() ([]*tlog.Entry, error) { return e.entries, nil }

// Timestamps are the time stamps of authorities.
func (e *entity) Timestamps() ([][]byte, error) { return e.stamps, nil }

// HasInclusionPromise reports whether a log has promised to include it.
func (e *entity) HasInclusionPromise() bool {
	for _, entry := range e.entries {
		if entry.HasInclusionPromise() {
			return true
		}
	}
	return false
}

// HasInclusionProof reports whether a log has proven to include it.
func (e *entity) HasInclusionProof() bool {
	for _, entry := range e.entries {
		if entry.HasInclusionProof() {
			return true
		}
	}
	return false
}

// Version is that of bundles whose rules apply. They let certificates of the
// larger curves sign with SHA-256.
func (e *entity) Version() (string, error) { return "v0.3", nil }

// signedIn is what the content must be about where it is signed in one way. A payload
// was hashed once, here, and is not hashed again by a scheme that signs that hash.
func (e *entity) signedIn(with *scheme) sigstore.ArtifactPolicyOption {
	if e.digest != nil && e.hash == with.hash {
		return sigstore.WithArtifactDigest(digestNames[e.hash], e.digest)
	}
	return e.artifact()
}

// digestNames are the names of the hashes that are used, as digests have them.
var digestNames = map[crypto.Hash]string{crypto.SHA256: "sha256", crypto.SHA384: "sha384", crypto.SHA512: "sha512"}

// holds reports whether the signature is one by the key of the verifier.
func (e *entity) holds(check signature.Verifier) bool {
	var opts []signature.VerifyOption
	if e.message == nil {
		if _, plain := check.(*signature.ED25519Verifier); plain {
			return false // it signs messages, and never their digests
		}
		opts = append(opts, options.WithDigest(e.digest))
	}
	return check.VerifySignature(bytes.NewReader(e.signature), bytes.NewReader(e.message), opts...) == nil
}
