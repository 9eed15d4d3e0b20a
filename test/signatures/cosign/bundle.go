package cosign

import (
	"encoding/base64"
	"encoding/json"
	"fmt"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protodsse "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/gatehouse-dev/gatehouse/internal/image"
)

// The predicate types of statements: a signature, and two of attestations.
const (
	PredicateSignature  = "https://sigstore.dev/cosign/sign/v1"
	PredicateSBOM       = "https://spdx.dev/Document"
	PredicateProvenance = "https://slsa.dev/provenance/v1"
)

// statementType is what the payload of an envelope is.
const statementType = "application/vnd.in-toto+json"

// Statement is an in-toto statement about an image. With PredicateSignature it is
// what cosign signs for a bundle; with another predicate it is an attestation.
func Statement(subject image.Digest, predicateType string) []byte {
	algorithm, hex := split(subject)
	statement, err := json.Marshal(map[string]any{
		"_type":         "https://in-toto.io/Statement/v1",
		"subject":       []any{map[string]any{"digest": map[string]string{algorithm: hex}}},
		"predicateType": predicateType,
		"predicate":     map[string]any{},
	})
	if err != nil {
		panic(err) // maps of strings have an encoding
	}
	return statement
}

// SignStatement signs a statement, as a bundle with a DSSE envelope.
func (s *Signer) SignStatement(statement []byte) ([]byte, error) {
	made, err := s.open()
	if err != nil {
		return nil, err
	}
	signedBytes := dsse.PAE(statementType, statement)
	if made.signature, err = made.key.sign(signedBytes, made.logs() && s.Tiles); err != nil {
		return nil, err
	}
	switch {
	case made.logs() && s.Tiles:
		made.entry, err = s.Sigstore.enterTiles(signedBytes, made.signature, made.key.Private.Public(), made.certificate)
		if err != nil {
			return nil, err
		}
	case made.logs():
		envelope, err := json.Marshal(dsse.Envelope{
			PayloadType: statementType,
			Payload:     base64.StdEncoding.EncodeToString(statement),
			Signatures:  []dsse.Signature{{Sig: base64.StdEncoding.EncodeToString(made.signature)}},
		})
		if err != nil {
			return nil, err
		}
		if made.entry, err = s.Sigstore.logEnvelope(envelope, made.verifier(), made.at); err != nil {
			return nil, err
		}
	}
	if err := made.timestamp(); err != nil {
		return nil, err
	}
	return made.bundle(&protobundle.Bundle{Content: &protobundle.Bundle_DsseEnvelope{DsseEnvelope: &protodsse.Envelope{
		PayloadType: statementType,
		Payload:     statement,
		Signatures:  []*protodsse.Signature{{Sig: made.signature}},
	}}})
}

// SignManifest signs the manifest of an image itself, as a bundle with a message
// signature.
func (s *Signer) SignManifest(manifest []byte) ([]byte, error) {
	made, err := s.open()
	if err != nil {
		return nil, err
	}
	if err := made.signMessage(manifest); err != nil {
		return nil, err
	}
	hash := made.key.hash()
	algorithm, ok := map[int]protocommon.HashAlgorithm{
		32: protocommon.HashAlgorithm_SHA2_256,
		48: protocommon.HashAlgorithm_SHA2_384,
		64: protocommon.HashAlgorithm_SHA2_512,
	}[hash.Size()]
	if !ok {
		return nil, fmt.Errorf("bundles know no %s", hash)
	}
	hasher := hash.New()
	hasher.Write(manifest)
	return made.bundle(&protobundle.Bundle{Content: &protobundle.Bundle_MessageSignature{MessageSignature: &protocommon.MessageSignature{
		MessageDigest: &protocommon.HashOutput{Algorithm: algorithm, Digest: hasher.Sum(nil)},
		Signature:     made.signature,
	}}})
}

// bundle adds what proves the signature, and writes it all.
func (m *signing) bundle(bundle *protobundle.Bundle) ([]byte, error) {
	bundle.MediaType = TypeBundle
	material := &protobundle.VerificationMaterial{}
	if m.certificate != nil {
		material.Content = &protobundle.VerificationMaterial_Certificate{
			Certificate: &protocommon.X509Certificate{RawBytes: m.certificate.Raw},
		}
	} else {
		material.Content = &protobundle.VerificationMaterial_PublicKey{
			PublicKey: &protocommon.PublicKeyIdentifier{Hint: "any"},
		}
	}
	if m.entry != nil {
		material.TlogEntries = []*protorekor.TransparencyLogEntry{m.entry}
	}
	if m.stamp != nil {
		material.TimestampVerificationData = &protobundle.TimestampVerificationData{
			Rfc3161Timestamps: []*protocommon.RFC3161SignedTimestamp{{SignedTimestamp: m.stamp}},
		}
	}
	bundle.VerificationMaterial = material
	return protojson.Marshal(bundle)
}

// Bundled is the manifest of a bundle that refers to an image. predicateType is
// what its annotation claims, and may be empty.
func Bundled(subject ocispec.Descriptor, bundle []byte, predicateType string) *Artifact {
	blobs := []Blob{
		{MediaType: ocispec.MediaTypeEmptyJSON, Content: ocispec.DescriptorEmptyJSON.Data},
		{MediaType: TypeBundle, Content: bundle},
	}
	manifest := ocispec.Manifest{
		ArtifactType: TypeBundle,
		Config:       blobs[0].Descriptor(),
		Layers:       []ocispec.Descriptor{blobs[1].Descriptor()},
		Subject:      &subject,
	}
	if predicateType != "" {
		manifest.Annotations = map[string]string{
			"dev.sigstore.bundle.content":       "dsse-envelope",
			"dev.sigstore.bundle.predicateType": predicateType,
		}
	}
	return stored(manifest, blobs)
}
