package cosign

import (
	"bytes"
	"context"
	"crypto"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/tlog"
	sigstore "github.com/sigstore/sigstore-go/pkg/verify"

	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/verify"
)

// The annotations of a layer, which hold the signature of its content and what
// proves it.
const (
	annotationSignature   = "dev.cosignproject.cosign/signature"
	annotationCertificate = "dev.sigstore.cosign/certificate"
	annotationChain       = "dev.sigstore.cosign/chain"
	annotationLogEntry    = "dev.sigstore.cosign/bundle"
	annotationTimestamp   = "dev.sigstore.cosign/rfc3161timestamp"
)

// Bounds of annotations.
const (
	maxAnnotation = 64 << 10 // bytes
	maxSignature  = 2048     // bytes of base64: more than an RSA key of 8192 bits makes
	maxChain      = 4        // intermediate certificates
)

// verifySimpleSigning judges a layer whose content is the payload.
func (v *Verifier) verifySimpleSigning(ctx context.Context, subject image.Pinned, artifact *verify.Artifact, layer ocispec.Descriptor) verify.Finding {
	signed, refused := v.readAnnotations(layer.Annotations)
	if refused != nil {
		return *refused
	}
	payload, refused := fetch(ctx, artifact, layer, maxPayload)
	if refused != nil {
		return *refused
	}
	refused, elsewhere := checkPayload(payload, subject)
	if refused != nil {
		return *refused
	}
	signed.sign(payload)
	finding := v.judge(signed)
	if elsewhere != "" && finding.Outcome == verify.Passed {
		finding.Message += "; its docker-reference is " + quote(elsewhere) + ", which proves nothing"
	}
	return finding
}

// readAnnotations makes an entity of the annotations, without what it signs.
// What is not required by the configuration is not read.
func (v *Verifier) readAnnotations(annotations map[string]string) (*entity, *verify.Finding) {
	malformed := func(what string) (*entity, *verify.Finding) {
		finding := failed(verify.ReasonMalformed, what)
		return nil, &finding
	}
	for _, name := range []string{annotationCertificate, annotationChain, annotationLogEntry, annotationTimestamp} {
		if len(annotations[name]) > maxAnnotation {
			finding := undecided(verify.ReasonTooLarge, "its annotation "+name+" is too large")
			return nil, &finding
		}
	}
	encoded := annotations[annotationSignature]
	if encoded == "" {
		return malformed("it has no annotation " + annotationSignature + ", which would be the signature")
	}
	if len(encoded) > maxSignature {
		return malformed("its annotation " + annotationSignature + " is longer than any signature")
	}
	made, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(made) == 0 {
		return malformed("its annotation " + annotationSignature + " is not base64")
	}
	signed := &entity{signature: made}
	if text := annotations[annotationCertificate]; text != "" {
		certificates, ok := parseCertificates(text, 1)
		if !ok || len(certificates) != 1 {
			return malformed("its annotation " + annotationCertificate + " is not one certificate in PEM")
		}
		signed.certificate = certificates[0]
		// What is wrong with the rest of the chain shows when it is needed.
		signed.intermediates = parseChain(annotations[annotationChain])
	}
	if text := annotations[annotationLogEntry]; text != "" && v.log {
		entry, err := parseLogEntry([]byte(text))
		if err != nil {
			return malformed("its annotation " + annotationLogEntry + " is no entry of a log: " + err.Error())
		}
		signed.entries = []*tlog.Entry{entry}
	}
	if text := annotations[annotationTimestamp]; text != "" && (v.stamps || signed.certificate != nil) {
		stamp, err := parseTimestamp([]byte(text))
		switch {
		case err != nil && v.stamps:
			return malformed("its annotation " + annotationTimestamp + " is no time stamp: " + err.Error())
		case err == nil && checkStamp(stamp) == nil:
			signed.stamps = [][]byte{stamp}
		}
	}
	return signed, nil
}

// sign completes the entity by what it signs. A log entry says with which hash;
// the payload is hashed here, whatever it says.
func (e *entity) sign(payload []byte) {
	hash, name := crypto.SHA256, protocommon.HashAlgorithm_SHA2_256
	if len(e.entries) > 0 {
		switch _, stated, _ := e.entries[0].GetHashedRekordDigest(); stated {
		case "sha384":
			hash, name = crypto.SHA384, protocommon.HashAlgorithm_SHA2_384
		case "sha512":
			hash, name = crypto.SHA512, protocommon.HashAlgorithm_SHA2_512
		}
	}
	hasher := hash.New()
	hasher.Write(payload)
	e.message, e.digest, e.hash = payload, hasher.Sum(nil), hash
	e.content = bundle.NewMessageSignature(e.digest, name.String(), e.signature)
	e.artifact = func() sigstore.ArtifactPolicyOption { return sigstore.WithArtifact(bytes.NewReader(payload)) }
}

// parseCertificates reads PEM that holds certificates, at most so many, and
// nothing else.
func parseCertificates(text string, most int) ([]*x509.Certificate, bool) {
	var certificates []*x509.Certificate
	for rest := []byte(text); len(bytes.TrimSpace(rest)) > 0; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil || block.Type != "CERTIFICATE" || len(certificates) == most {
			return nil, false
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, false
		}
		certificates = append(certificates, certificate)
	}
	return certificates, true
}

// parseChain keeps of a chain what may help to reach an authority: its
// intermediate authorities. Roots come from the trust root alone, and keys that
// would be slow to verify with are left out.
func parseChain(text string) []*x509.Certificate {
	certificates, ok := parseCertificates(text, maxChain+1)
	if !ok {
		return nil
	}
	var intermediates []*x509.Certificate
	for _, certificate := range certificates {
		selfIssued := bytes.Equal(certificate.RawIssuer, certificate.RawSubject)
		if certificate.IsCA && !selfIssued && usable(certificate.PublicKey) == nil {
			intermediates = append(intermediates, certificate)
		}
	}
	return intermediates
}
