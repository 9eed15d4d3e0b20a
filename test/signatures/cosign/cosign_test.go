package cosign

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"testing"

	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/signature"

	"github.com/gatehouse-dev/gatehouse/internal/image"
)

var manifest = []byte(`{"schemaVersion":2}`)

// What is made here verifies with sigstore-go, against all that it can demand.
func TestKeylessBundlesVerify(t *testing.T) {
	sigstore, err := NewSigstore()
	if err != nil {
		t.Fatal(err)
	}
	signer := &Signer{Sigstore: sigstore, Identity: Identity{
		Issuer: "https://token.example.com", Subject: "https://example.com/app/release.yml@main",
		SourceRepository: "https://example.com/app",
	}}
	content, err := sigstore.TrustRoot()
	if err != nil {
		t.Fatal(err)
	}
	trusted, err := root.NewTrustedRootFromJSON(content)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := verify.NewVerifier(trusted, verify.WithTransparencyLog(1),
		verify.WithObserverTimestamps(2), verify.WithSignedCertificateTimestamps(1))
	if err != nil {
		t.Fatal(err)
	}
	identity, err := verify.NewShortCertificateIdentity("https://token.example.com", "", "https://example.com/app/release.yml@main", "")
	if err != nil {
		t.Fatal(err)
	}
	identity.SourceRepositoryURI = "https://example.com/app"

	for name, sign := range map[string]func() ([]byte, error){
		"an envelope": func() ([]byte, error) {
			return signer.SignStatement(Statement(image.DigestOf(manifest), PredicateSignature))
		},
		"a message signature": func() ([]byte, error) { return signer.SignManifest(manifest) },
	} {
		t.Run(name, func(t *testing.T) {
			made, err := sign()
			if err != nil {
				t.Fatal(err)
			}
			read := &bundle.Bundle{}
			if err := read.UnmarshalJSON(made); err != nil {
				t.Fatal(err)
			}
			if _, err := verifier.Verify(read, verify.NewPolicy(verify.WithArtifact(bytes.NewReader(manifest)),
				verify.WithCertificateIdentity(identity))); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A signature by a key is over the payload that the manifest names.
func TestTaggedSignaturesVerify(t *testing.T) {
	for _, algorithm := range []Algorithm{ECDSAP256, RSA2048, Ed25519} {
		t.Run(string(algorithm), func(t *testing.T) {
			key, err := NewKey(algorithm)
			if err != nil {
				t.Fatal(err)
			}
			digest := image.DigestOf(manifest)
			made, err := (&Signer{Key: key}).Sign(Payload("registry.example.com/app", digest))
			if err != nil {
				t.Fatal(err)
			}
			artifact := Tagged(digest, made)
			sum := sha256.Sum256(manifest)
			if want := "sha256-" + hex.EncodeToString(sum[:]) + ".sig"; artifact.Tag != want {
				t.Errorf("tag %s, want %s", artifact.Tag, want)
			}
			verifier, err := signature.LoadVerifier(key.Private.Public(), crypto.SHA256)
			if err != nil {
				t.Fatal(err)
			}
			if err := verifier.VerifySignature(bytes.NewReader(decode(t, made.Annotations[AnnotationSignature])), bytes.NewReader(artifact.Blobs[1].Content)); err != nil {
				t.Error(err)
			}
		})
	}
}

func decode(t *testing.T, s string) []byte {
	t.Helper()
	decoded, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return decoded
}
