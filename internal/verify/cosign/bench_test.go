package cosign

import (
	"bytes"
	"encoding/base64"
	"testing"

	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	sigstore "github.com/sigstore/sigstore-go/pkg/verify"

	"github.com/gatehouse-dev/gatehouse/internal/verify"
	signing "github.com/gatehouse-dev/gatehouse/test/signatures/cosign"
)

// Beside each form stands what the library alone takes for the same checks.
func BenchmarkVerify(b *testing.B) {
	w := theWorld()
	byKey := trust(b, Config{Keys: keysOf(w.key)})
	byIdentity := trust(b, Config{Identities: []Identity{{Issuer: issuer, Subject: workflow}}})
	run := func(name string, verifier *Verifier, pushed *signing.Artifact) {
		b.Run(name, func(b *testing.B) {
			found, asked := artifact(b, pushed), subject(b)
			b.ReportAllocs()
			for b.Loop() {
				if verifier.Verify(b.Context(), asked, found)[0].Outcome != verify.Passed {
					b.Fatal("refused")
				}
			}
		})
	}
	run("key/tag", byKey, tagged(&signing.Signer{Key: w.key}))
	b.Run("key/floor", func(b *testing.B) {
		made := must((&signing.Signer{Key: w.key}).Sign(payload()))
		check := byKey.keys[0].schemes[0].check
		b.ReportAllocs()
		for b.Loop() {
			encoded := must(base64.StdEncoding.DecodeString(made.Annotations[signing.AnnotationSignature]))
			if err := check.VerifySignature(bytes.NewReader(encoded), bytes.NewReader(made.Payload)); err != nil {
				b.Fatal(err)
			}
		}
	})
	run("keyless/tag", byIdentity, tagged(keyless()))
	pushed := enveloped(keyless())
	run("keyless/bundle", byIdentity, pushed)
	b.Run("keyless/floor", func(b *testing.B) {
		trusted := must(root.NewTrustedRootFromJSON(w.root))
		verifier := must(sigstore.NewVerifier(trusted, byIdentity.keylessOptions()...))
		b.ReportAllocs()
		for b.Loop() {
			var read bundle.Bundle
			if err := read.UnmarshalJSON(pushed.Blobs[1].Content); err != nil {
				b.Fatal(err)
			}
			must(verifier.Verify(&read, sigstore.NewPolicy(sigstore.WithArtifact(bytes.NewReader(manifest)), byIdentity.listed...)))
		}
	})
}
