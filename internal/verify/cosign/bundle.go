package cosign

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	sigstore "github.com/sigstore/sigstore-go/pkg/verify"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/verify"
	"github.com/gatehouse-dev/gatehouse/internal/verify/strictjson"
)

// Bounds of a bundle.
const (
	maxBundle  = 4 << 20 // bytes
	maxEntries = 4       // log entries, and time stamps
)

// verifyBundle judges a layer whose content is a Sigstore bundle.
func (v *Verifier) verifyBundle(ctx context.Context, subject image.Pinned, artifact *verify.Artifact, layer ocispec.Descriptor) verify.Finding {
	content, refused := fetch(ctx, artifact, layer, maxBundle)
	if refused != nil {
		return *refused
	}
	signed, refused := readBundle(content, subject)
	if refused != nil {
		return *refused
	}
	return v.judge(signed)
}

// readBundle makes an entity of a bundle that signs exactly the subject.
func readBundle(content []byte, subject image.Pinned) (*entity, *verify.Finding) {
	refuse := func(reason verify.Reason, message string) (*entity, *verify.Finding) {
		finding := failed(reason, message)
		return nil, &finding
	}
	var stated struct {
		MediaType string `json:"mediaType"`
	}
	if err := strictjson.Decode(content, maxDepth, &stated); err != nil {
		return refuse(verify.ReasonMalformed, "its bundle cannot be read: "+err.Error())
	}
	if stated.MediaType != typesBundle+".v0.3+json" && stated.MediaType != typesBundle+"+json;version=0.3" {
		return refuse(verify.ReasonUnsupported, "it is a bundle of type "+quote(stated.MediaType)+"; only version 0.3 is read")
	}
	// The library verifies parts of log entries while it reads them, so that they
	// are bounded first.
	var raw protobundle.Bundle
	if err := protojson.Unmarshal(content, &raw); err != nil {
		return refuse(verify.ReasonMalformed, "it does not read as a Sigstore bundle of version 0.3")
	}
	entries := raw.GetVerificationMaterial().GetTlogEntries()
	stamps := raw.GetVerificationMaterial().GetTimestampVerificationData().GetRfc3161Timestamps()
	if len(entries) > maxEntries || len(stamps) > maxEntries {
		finding := undecided(verify.ReasonTooLarge, fmt.Sprintf("its bundle has more than %d log entries or time stamps", maxEntries))
		return nil, &finding
	}
	for _, entry := range entries {
		if err := checkEntry(entry); err != nil {
			return refuse(verify.ReasonMalformed, "its log entry cannot be read: "+err.Error())
		}
	}
	read, err := bundle.NewBundle(&raw)
	if err != nil {
		return refuse(verify.ReasonMalformed, "it does not read as a Sigstore bundle of version 0.3")
	}
	signed := &entity{}
	if signed.content, err = read.SignatureContent(); err != nil {
		return refuse(verify.ReasonMalformed, "its bundle has no signature")
	}
	signed.signature = signed.content.Signature()
	if len(signed.signature) == 0 {
		return refuse(verify.ReasonMalformed, "its bundle has no signature")
	}
	if refused := signed.about(subject); refused != nil {
		return nil, refused
	}
	by, err := read.VerificationContent()
	if err != nil {
		return refuse(verify.ReasonMalformed, "its bundle has no certificate that can be read")
	}
	signed.certificate = by.Certificate()
	if signed.entries, err = read.TlogEntries(); err != nil {
		return refuse(verify.ReasonMalformed, "its bundle has log entries that cannot be read")
	}
	if signed.stamps, err = read.Timestamps(); err != nil {
		return refuse(verify.ReasonMalformed, "its bundle has time stamps that cannot be read")
	}
	signed.stamps = slices.DeleteFunc(signed.stamps, func(stamp []byte) bool { return checkStamp(stamp) != nil })
	return signed, nil
}

// about refuses content that is not about exactly the subject, and completes the
// entity by what it signs.
func (e *entity) about(subject image.Pinned) *verify.Finding {
	algorithm, encoded, _ := strings.Cut(subject.Digest().String(), ":")
	digest, err := hex.DecodeString(encoded)
	if err != nil {
		finding := failed(verify.ReasonOtherSubject, "the image has no digest")
		return &finding
	}
	e.artifact = func() sigstore.ArtifactPolicyOption { return sigstore.WithArtifactDigest(algorithm, digest) }
	if envelope := e.content.EnvelopeContent(); envelope != nil {
		return e.envelope(envelope, algorithm, encoded)
	}
	message := e.content.MessageSignatureContent()
	known := map[string]string{"SHA2_256": "sha256", "SHA2_384": "sha384", "SHA2_512": "sha512"}[message.DigestAlgorithm()]
	var finding verify.Finding
	switch {
	case known == "":
		finding = failed(verify.ReasonUnsupported, "its bundle signs a digest of an algorithm that is not supported")
	case known != algorithm:
		finding = failed(verify.ReasonUnsupported, fmt.Sprintf("its bundle signs a %s digest, and the image is known by its %s digest; sign an in-toto statement, as cosign sign does", known, algorithm))
	case hex.EncodeToString(message.Digest()) != encoded:
		finding = failed(verify.ReasonOtherSubject, "it signs another image: "+digestText(known+":"+hex.EncodeToString(message.Digest())))
	default:
		e.digest = digest
		return nil
	}
	return &finding
}

// envelope refuses an envelope that is not cosign's signature of the subject.
func (e *entity) envelope(envelope sigstore.EnvelopeContent, algorithm, encoded string) *verify.Finding {
	raw := envelope.RawEnvelope()
	payload, err := raw.DecodeB64Payload()
	if err != nil {
		finding := failed(verify.ReasonMalformed, "its envelope cannot be read")
		return &finding
	}
	if refused := checkStatement(raw.PayloadType, payload, algorithm, encoded); refused != nil {
		return refused
	}
	if len(raw.Signatures) != 1 {
		finding := failed(verify.ReasonMalformed, fmt.Sprintf("its envelope has %d signatures; one of a bundle has exactly one", len(raw.Signatures)))
		return &finding
	}
	if len(payload) > maxPayload {
		finding := undecided(verify.ReasonTooLarge, fmt.Sprintf("its statement is larger than %d bytes", maxPayload))
		return &finding
	}
	e.message = dsse.PAE(raw.PayloadType, payload)
	return nil
}
