package cosign

import (
	"encoding/json"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/verify"
	signing "github.com/gatehouse-dev/gatehouse/test/signatures/cosign"
)

// skeptic trusts what nobody has signed, so that nothing that is fed to it may
// pass.
func skeptic(f *testing.F) *Verifier {
	return trust(f, Config{
		Keys:       keysOf(must(signing.NewKey(signing.ECDSAP256)), must(signing.NewKey(signing.Ed25519))),
		Identities: []Identity{{Issuer: issuer, Subject: "nobody@example.com"}}, TransparencyLog: Required, Timestamps: Required,
	})
}

func judged(t *testing.T, verifier *Verifier, pushed *signing.Artifact) {
	t.Helper()
	for _, finding := range verifier.Verify(t.Context(), subject(t), artifact(t, pushed)) {
		if finding.Outcome == verify.Passed || finding.Reason == "" || finding.Message == "" || finding.Signer != "" {
			t.Errorf("%+v", finding)
		}
	}
}

func FuzzPayload(f *testing.F) {
	verifier, made := skeptic(f), must(keyless().Sign(payload()))
	f.Add(payload())
	f.Add([]byte(`{"critical":null}`))
	f.Add([]byte(`[{"a":[1,"b",null,true]}]`))
	f.Fuzz(func(t *testing.T, content []byte) {
		judged(t, verifier, signing.Tagged(image.DigestOf(manifest), &signing.Signature{Payload: content, Annotations: made.Annotations}))
	})
}

func FuzzAnnotations(f *testing.F) {
	verifier, made := skeptic(f), must(keyless().Sign(payload())).Annotations
	f.Add(made[signing.AnnotationSignature], made[signing.AnnotationCertificate], made[signing.AnnotationChain],
		made[signing.AnnotationLogEntry], made[signing.AnnotationTimestamp])
	f.Add("AAAA", "", "", `{"Payload":{"body":"e30="}}`, `{"SignedRFC3161Timestamp":"MAA="}`)
	f.Fuzz(func(t *testing.T, signature, certificate, chain, entry, stamp string) {
		judged(t, verifier, signing.Tagged(image.DigestOf(manifest), &signing.Signature{Payload: payload(), Annotations: map[string]string{
			signing.AnnotationSignature: signature, signing.AnnotationCertificate: certificate, signing.AnnotationChain: chain,
			signing.AnnotationLogEntry: entry, signing.AnnotationTimestamp: stamp,
		}}))
	})
}

func FuzzBundle(f *testing.F) {
	verifier := skeptic(f)
	f.Add(must(keyless().SignStatement(statement())))
	f.Add(must(keyless().SignManifest(manifest)))
	f.Add(must((&signing.Signer{Key: theWorld().key}).SignStatement(statement())))
	f.Fuzz(func(t *testing.T, content []byte) { judged(t, verifier, bundled(content)) })
}

func FuzzStatement(f *testing.F) {
	verifier := skeptic(f)
	f.Add("application/vnd.in-toto+json", statement())
	f.Fuzz(func(t *testing.T, kind string, content []byte) {
		bundle := edited(must((&signing.Signer{Key: theWorld().key}).SignStatement(statement())), func(bundle map[string]any) {
			envelope := at(bundle, "dsseEnvelope")
			envelope["payloadType"], envelope["payload"] = kind, content
		})
		judged(t, verifier, bundled(bundle))
	})
}

// FuzzLogEntry feeds what a log would have signed: the body of an entry.
func FuzzLogEntry(f *testing.F) {
	made := must(keyless().Sign(payload()))
	var stored struct{ Payload struct{ Body []byte } }
	if err := json.Unmarshal([]byte(made.Annotations[signing.AnnotationLogEntry]), &stored); err != nil {
		f.Fatal(err)
	}
	verifier := skeptic(f)
	f.Add(stored.Payload.Body)
	f.Add([]byte(`{"apiVersion":"0.0.1","kind":"dsse","spec":{"signatures":[]}}`))
	f.Add([]byte(`{"apiVersion":"0.0.2","kind":"intoto","spec":{"content":{"envelope":{"signatures":[{}]}}}}`))
	f.Add([]byte(`{"apiVersion":"0.0.2","kind":"hashedrekord","spec":{"hashedRekordV002":{}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		judged(t, verifier, signed(keyless(), payload(), func(made *signing.Signature) {
			made.Annotations[signing.AnnotationLogEntry] = string(edited([]byte(made.Annotations[signing.AnnotationLogEntry]), func(entry map[string]any) {
				at(entry, "Payload")["body"] = body
			}))
		}))
	})
}

func FuzzManifest(f *testing.F) {
	verifier := skeptic(f)
	f.Add(tagged(keyless()).Manifest)
	f.Add(enveloped(keyless()).Manifest)
	f.Fuzz(func(t *testing.T, content []byte) {
		var read ocispec.Manifest
		if json.Unmarshal(content, &read) != nil {
			return
		}
		pushed := tagged(keyless())
		pushed.Manifest = content
		if findings := verifier.Verify(t.Context(), subject(t), artifact(t, pushed)); len(findings) == 0 || len(findings) > verify.MaxFindings {
			t.Errorf("%d findings", len(findings))
		}
	})
}
