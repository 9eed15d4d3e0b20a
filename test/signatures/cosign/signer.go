package cosign

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"time"

	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"

	"github.com/gatehouse-dev/gatehouse/internal/image"
)

// The annotations of a signature's layer.
const (
	AnnotationSignature   = "dev.cosignproject.cosign/signature"
	AnnotationCertificate = "dev.sigstore.cosign/certificate"
	AnnotationChain       = "dev.sigstore.cosign/chain"
	AnnotationLogEntry    = "dev.sigstore.cosign/bundle"
	AnnotationTimestamp   = "dev.sigstore.cosign/rfc3161timestamp"
)

// Signer signs with a key, or keyless. What it signs is logged and time-stamped
// if it has a Sigstore.
type Signer struct {
	// Key signs; without one, a key made for each signature, with a certificate
	// that Sigstore issues for Identity.
	Key      *Key
	Identity Identity
	Sigstore *Sigstore

	// Unlogged leaves out the entry in the transparency log, Unstamped the time
	// stamp, and UnloggedCertificate the certificate log's promise in the
	// certificate.
	Unlogged, Unstamped, UnloggedCertificate bool
	// Tiles logs a bundle as version 2 of Rekor does, whose entries state no
	// time.
	Tiles bool
	// Time is when it is signed; zero is now. Issued is when the certificate
	// was issued; zero is Time.
	Time, Issued time.Time
}

// Signature is a simple-signing signature: a layer of a manifest.
type Signature struct {
	// Payload is what is signed, and the layer's content.
	Payload []byte
	// Annotations of the layer hold the signature and what proves it.
	Annotations map[string]string
}

// Payload is what cosign signs for an image.
func Payload(repository string, digest image.Digest) []byte {
	payload, err := json.Marshal(map[string]any{
		"critical": map[string]any{
			"identity": map[string]string{"docker-reference": repository},
			"image":    map[string]string{"docker-manifest-digest": digest.String()},
			"type":     "cosign container image signature",
		},
		"optional": nil,
	})
	if err != nil {
		panic(err) // maps of strings have an encoding
	}
	return payload
}

// Sign signs a payload.
func (s *Signer) Sign(payload []byte) (*Signature, error) {
	made, err := s.open()
	if err != nil {
		return nil, err
	}
	if err := made.signMessage(payload); err != nil {
		return nil, err
	}
	signature := &Signature{Payload: payload, Annotations: map[string]string{
		AnnotationSignature: base64.StdEncoding.EncodeToString(made.signature),
	}}
	if made.certificate != nil {
		signature.Annotations[AnnotationCertificate] = string(made.verifier())
		signature.Annotations[AnnotationChain] = string(append(
			encode(s.Sigstore.intermediate), encode(s.Sigstore.root)...))
	}
	if made.entry.GetInclusionPromise() != nil {
		bundle, err := json.Marshal(map[string]any{
			"SignedEntryTimestamp": made.entry.InclusionPromise.SignedEntryTimestamp,
			"Payload":              payloadOf(made.entry),
		})
		if err != nil {
			return nil, err
		}
		signature.Annotations[AnnotationLogEntry] = string(bundle)
	}
	if made.stamp != nil {
		stamp, err := json.Marshal(map[string]any{"SignedRFC3161Timestamp": made.stamp})
		if err != nil {
			return nil, err
		}
		signature.Annotations[AnnotationTimestamp] = string(stamp)
	}
	return signature, nil
}

// signing is one act of signing.
type signing struct {
	signer      *Signer
	key         *Key
	certificate *x509.Certificate // nil with a key
	at          time.Time

	signature []byte
	entry     *protorekor.TransparencyLogEntry
	stamp     []byte
}

func (s *Signer) open() (*signing, error) {
	made := &signing{signer: s, key: s.Key, at: s.Time}
	if made.at.IsZero() {
		made.at = time.Now()
	}
	if s.Key != nil {
		return made, nil
	}
	if s.Sigstore == nil {
		return nil, errors.New("a signer needs a key or a Sigstore")
	}
	var err error
	if made.key, err = NewKey(ECDSAP256); err != nil {
		return nil, err
	}
	issued := s.Issued
	if issued.IsZero() {
		issued = made.at
	}
	made.certificate, err = s.Sigstore.certify(s.Identity, made.key.Private.Public(), issued.Truncate(time.Second), s.UnloggedCertificate)
	return made, err
}

// logs reports whether it is entered into the log.
func (m *signing) logs() bool { return m.signer.Sigstore != nil && !m.signer.Unlogged }

// verifier is the PEM of what verifies the signature.
func (m *signing) verifier() []byte {
	if m.certificate != nil {
		return encode(m.certificate)
	}
	return m.key.PublicPEM()
}

func (m *signing) signMessage(message []byte) (err error) {
	if m.signature, err = m.key.sign(message, m.logs()); err != nil {
		return err
	}
	switch {
	case m.logs() && m.signer.Tiles:
		m.entry, err = m.signer.Sigstore.enterTiles(message, m.signature, m.key.Private.Public(), m.certificate)
	case m.logs():
		m.entry, err = m.signer.Sigstore.logMessage(message, m.signature, m.verifier(), m.key.hash(), m.at)
	}
	if err != nil {
		return err
	}
	return m.timestamp()
}

func (m *signing) timestamp() (err error) {
	if m.signer.Sigstore != nil && !m.signer.Unstamped {
		m.stamp, err = m.signer.Sigstore.stamp(m.signature, m.at)
	}
	return err
}

func encode(certificate *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
}
