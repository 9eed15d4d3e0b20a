package cosign

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/verify"
	signing "github.com/gatehouse-dev/gatehouse/test/signatures/cosign"
)

// signed signs any payload and stores it under the image's tag, after a change.
func signed(signer *signing.Signer, payload []byte, change func(*signing.Signature)) *signing.Artifact {
	made := must(signer.Sign(payload))
	if change != nil {
		change(made)
	}
	return signing.Tagged(image.DigestOf(manifest), made)
}

func payload() []byte { return signing.Payload(repository, image.DigestOf(manifest)) }

// bundled stores any bundle as a referrer of the image.
func bundled(bundle []byte) *signing.Artifact {
	return signing.Bundled(described(manifest), bundle, signing.PredicateSignature)
}

// edited changes the JSON of a bundle.
func edited(bundle []byte, change func(map[string]any)) []byte {
	var content map[string]any
	if err := json.Unmarshal(bundle, &content); err != nil {
		panic(err)
	}
	change(content)
	return must(json.Marshal(content))
}

func at(content map[string]any, path ...string) map[string]any {
	for _, name := range path {
		content = content[name].(map[string]any)
	}
	return content
}

func statement() []byte {
	return signing.Statement(image.DigestOf(manifest), signing.PredicateSignature)
}

// A signature of another image is none of this one, wherever it is stored.
func TestSignaturesOfOtherImages(t *testing.T) {
	w := theWorld()
	signer, other := &signing.Signer{Key: w.key}, image.DigestOf(elsewhere)
	verifier := trust(t, Config{Keys: keysOf(w.key)})
	made := must(signer.Sign(signing.Payload(repository, other)))
	says := "it signs another image: " + other.Short()
	fails(t, verifier, signing.Tagged(image.DigestOf(manifest), made), verify.ReasonOtherSubject, says)
	fails(t, verifier, signing.Referring(described(manifest), made), verify.ReasonOtherSubject, says)
	fails(t, verifier, bundled(must(signer.SignStatement(signing.Statement(other, signing.PredicateSignature)))), verify.ReasonOtherSubject, says)
	fails(t, verifier, bundled(must(signer.SignManifest(elsewhere))), verify.ReasonOtherSubject, says)

	// Nor is one of which the digest is only a part, or written in another way.
	digest := image.DigestOf(manifest).String()
	for _, near := range []string{digest + "0", digest[:len(digest)-1], strings.ToUpper(digest), " " + digest, digest[7:], ""} {
		written := strings.Replace(string(payload()), digest, near, 1)
		fails(t, verifier, signed(signer, []byte(written), nil), verify.ReasonOtherSubject, "it signs another image: ")
		if _, hex, ok := strings.Cut(near, ":"); ok {
			about := strings.Replace(string(statement()), digest[7:], hex, 1)
			if about != string(statement()) {
				fails(t, verifier, bundled(must(signer.SignStatement([]byte(about)))), verify.ReasonOtherSubject, "it signs another image: ")
			}
		}
	}
}

// A payload is read in one way, or not at all.
func TestPayloadsThatReadInTwoWays(t *testing.T) {
	w := theWorld()
	verifier, signer := trust(t, Config{Keys: keysOf(w.key)}), &signing.Signer{Key: w.key}
	good, other := image.DigestOf(manifest).String(), image.DigestOf(elsewhere).String()
	critical := func(digest string) string {
		return `{"identity":{"docker-reference":""},"image":{"docker-manifest-digest":"` + digest + `"},"type":"cosign container image signature"}`
	}
	passes(t, verifier, signed(signer, []byte(`{"critical":`+critical(good)+`}`), nil), w.key.Signer())
	tests := []struct{ name, payload, says string }{
		{"a key twice", `{"critical":` + critical(other) + `,"critical":` + critical(good) + `}`, `it has the key "critical" twice in one object`},
		{"a key twice, deep", `{"critical":` + strings.Replace(critical(good), `"image":{`, `"image":{"docker-manifest-digest":"`+other+`",`, 1) + `}`, `it has the key "docker-manifest-digest" twice`},
		{"a key in two cases", `{"Critical":` + critical(other) + `,"critical":` + critical(good) + `}`, `it has the key "critical" twice`},
		{"a key in another alphabet's case", `{"cr\u0131tical":1,"cRitical":` + critical(other) + `,"critical":` + critical(good) + `}`, `twice in one object`},
		{"a key twice, of what nobody reads", `{"critical":` + critical(good) + `,"optional":{"a":1,"a":2}}`, `it has the key "a" twice`},
		{"a key escaped", `{"critical":` + critical(good) + `,"\u0063ritical":` + critical(other) + `}`, `it has the key "critical" twice`},
		{"the wrong case", `{"Critical":` + critical(good) + `}`, "says nothing of an image"},
		{"more than one value", `{"critical":` + critical(good) + `} {}`, "it is more than one JSON value"},
		{"half a value", `{"critical":` + critical(good), "it is not JSON"},
		{"no JSON", "signed", "it is not JSON"},
		{"nothing", "", "it is not JSON"},
		{"null", "null", "says nothing of an image"},
		{"another type", `{"critical":7}`, "a value is of another type"},
		{"what is not UTF-8", `{"critical":` + critical(good) + `,"a":"` + "\xff" + `"}`, "it is not UTF-8"},
		{"a deep nest", strings.Repeat("[", 100000), "it is nested deeper than 64 levels"},
		{"another kind of payload", `{"critical":` + strings.Replace(critical(good), "cosign container image signature", "atomic container signature", 1) + `}`, `its payload is of type "atomic container signature"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			fails(t, verifier, signed(signer, []byte(test.payload), nil), verify.ReasonMalformed, test.says)
		})
	}
}

// The docker-reference is the signer's word, and is passed on as such.
func TestTheDockerReferenceProvesNothing(t *testing.T) {
	w := theWorld()
	verifier, signer := trust(t, Config{Keys: keysOf(w.key)}), &signing.Signer{Key: w.key}
	digest := image.DigestOf(manifest)
	for reference, says := range map[string]string{
		repository:                         "signed with key k1",
		repository + ":1.4.2":              "signed with key k1",
		repository + "@" + digest.String(): "signed with key k1",
		"mirror.example.com/app":           `signed with key k1; its docker-reference is "mirror.example.com/app", which proves nothing`,
		"a\nb":                             `signed with key k1; its docker-reference is "a\nb", which proves nothing`,
	} {
		finding := one(t, verifier, signed(signer, signing.Payload(reference, digest), nil))
		if finding.Outcome != verify.Passed || finding.Message != says {
			t.Errorf("%q: %v, %q; want %q", reference, finding.Outcome, finding.Message, says)
		}
	}
}

// What else is attached to images is no signature, by whomever it is signed.
func TestAttestationsAreNoSignatures(t *testing.T) {
	w := theWorld()
	verifier, signer := trust(t, Config{Keys: keysOf(w.key)}), &signing.Signer{Key: w.key}
	for _, predicate := range []string{signing.PredicateSBOM, signing.PredicateProvenance, "", signing.PredicateSignature + "/", "https://sigstore.dev/cosign/sign/v1 "} {
		attestation := must(signer.SignStatement(signing.Statement(image.DigestOf(manifest), predicate)))
		says := "it is an attestation with predicate type " + quote(predicate)
		fails(t, verifier, signing.Bundled(described(manifest), attestation, ""), verify.ReasonNotASignature, says)
		fails(t, verifier, bundled(attestation), verify.ReasonNotASignature, says) // it poses as a signature
	}
	other := edited(must(signer.SignStatement(statement())), func(content map[string]any) {
		at(content, "dsseEnvelope")["payloadType"] = "text/plain"
	})
	fails(t, verifier, bundled(other), verify.ReasonNotASignature, `it is no signature, but an envelope of type "text/plain"`)
	large := signing.Bundled(described(manifest), make([]byte, maxBundle+1), signing.PredicateSBOM)
	fails(t, verifier, large, verify.ReasonNotASignature, signing.PredicateSBOM)

	under := tagged(signer)
	relabelled := func(mediaType string, annotations map[string]string) *signing.Artifact {
		var content ocispec.Manifest
		if err := json.Unmarshal(under.Manifest, &content); err != nil {
			t.Fatal(err)
		}
		content.Layers[0].MediaType, content.Layers[0].Annotations = mediaType, annotations
		return &signing.Artifact{Tag: under.Tag, Manifest: must(json.Marshal(content)), Blobs: under.Blobs}
	}
	fails(t, verifier, relabelled(typeEnvelope, nil), verify.ReasonNotASignature, "it is an attestation")
	fails(t, verifier, relabelled(typeEnvelope, map[string]string{"predicateType": "https://slsa.dev/provenance/v1"}), verify.ReasonNotASignature, "https://slsa.dev/provenance/v1")
	fails(t, verifier, relabelled("text/plain", nil), verify.ReasonUnsupported, `its media type "text/plain" is none of a signature of cosign`)
	attached := artifact(t, under)
	attached.Tagged, attached.ArtifactType = false, "application/vnd.dev.cosign.artifact.sbom.v1+json"
	if findings := verifier.Verify(t.Context(), subject(t), attached); len(findings) != 1 || findings[0].Reason != verify.ReasonNotASignature {
		t.Errorf("an SBOM: %+v", findings)
	}
}

// A signature that anybody else made, or whose content was changed, is none.
func TestWrongKeysAndChangedContent(t *testing.T) {
	w := theWorld()
	two := trust(t, Config{Keys: keysOf(w.other, w.keys[signing.Ed25519])})
	logged := trust(t, Config{Keys: keysOf(w.other), TransparencyLog: Required})
	people := trust(t, Config{Identities: []Identity{{Issuer: issuer, Subject: workflow}}})
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			fails(t, two, form.sign(&signing.Signer{Key: w.key}), verify.ReasonInvalidSignature, "the signature is not made with any of the keys k1, k2")
			fails(t, logged, form.sign(&signing.Signer{Key: w.key, Sigstore: w.sigstore}), verify.ReasonInvalidSignature, "the signature is not made with key k1")
			fails(t, two, form.sign(keyless()), verify.ReasonUntrustedSigner, "it is signed keyless, and the verifier lists no identities")
			fails(t, people, form.sign(&signing.Signer{Key: w.key, Sigstore: w.sigstore}), verify.ReasonUntrustedSigner, "it is signed with a key, and the verifier lists no keys")
		})
	}

	verifier := trust(t, Config{Keys: keysOf(w.key), Identities: []Identity{{Issuer: issuer, Subject: workflow}}})
	tampered := func(made *signing.Signature) { made.Payload = append([]byte(" "), made.Payload...) }
	fails(t, verifier, signed(&signing.Signer{Key: w.key}, payload(), tampered), verify.ReasonInvalidSignature, "its content was changed")
	fails(t, verifier, signed(keyless(), payload(), tampered), verify.ReasonInvalidSignature, "its content was changed")
	for name, signer := range map[string]*signing.Signer{"key": {Key: w.key}, "keyless": keyless()} {
		bundle := edited(must(signer.SignStatement(statement())), func(content map[string]any) {
			envelope := at(content, "dsseEnvelope")
			envelope["payload"] = []byte(" " + string(statement()))
		})
		t.Run("a bundle by "+name, func(t *testing.T) {
			fails(t, verifier, bundled(bundle), verify.ReasonInvalidSignature, "its content was changed")
		})
	}
}

// A certificate counts that an authority of the trust root issued, that was
// logged, and that was valid when it signed.
func TestCertificates(t *testing.T) {
	w := theWorld()
	config := Config{Identities: []Identity{{Issuer: issuer, Subject: workflow}}}
	verifier := trust(t, config)
	config.TransparencyLog, config.Timestamps = Ignored, Required
	stamped := trust(t, config)
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			foreign := keyless()
			foreign.Sigstore = w.foreign
			fails(t, verifier, form.sign(foreign), verify.ReasonUntrustedSigner, "its certificate leads to no certificate authority of the trust root")

			unlogged := keyless()
			unlogged.UnloggedCertificate = true
			fails(t, verifier, form.sign(unlogged), verify.ReasonNotLogged, "its certificate has no promise (SCT)")

			late := keyless()
			late.Issued = time.Now().Add(-time.Hour)
			fails(t, verifier, form.sign(late), verify.ReasonExpired, "its certificate was not valid when it was logged")
			fails(t, stamped, form.sign(late), verify.ReasonExpired, "was not valid when it was signed")

			old := keyless()
			old.Time = time.Now().Add(-2 * 365 * 24 * time.Hour)
			fails(t, stamped, form.sign(old), verify.ReasonNoTimestamp, "its time stamp is none of a timestamp authority of the trust root")

			// A signature stays good after its certificate has expired.
			past := keyless()
			past.Time = time.Now().Add(-30 * 24 * time.Hour)
			passes(t, verifier, form.sign(past), past.Identity.Signer())
			passes(t, stamped, form.sign(past), past.Identity.Signer())
		})
	}
}

// Annotations and bundles that do not read as what they should be.
func TestMalformedSignatures(t *testing.T) {
	w := theWorld()
	verifier := trust(t, Config{Keys: keysOf(w.key), Identities: []Identity{{Issuer: issuer, Subject: workflow}}})
	annotated := func(name, value string) *signing.Artifact {
		return signed(keyless(), payload(), func(made *signing.Signature) { made.Annotations[name] = value })
	}
	certificate := must(keyless().Sign(payload())).Annotations[signing.AnnotationCertificate]
	for _, test := range []struct {
		name   string
		pushed *signing.Artifact
		says   string
	}{
		{"no signature", annotated(signing.AnnotationSignature, ""), "it has no annotation dev.cosignproject.cosign/signature"},
		{"a signature that is not base64", annotated(signing.AnnotationSignature, "%"), "is not base64"},
		{"an endless signature", annotated(signing.AnnotationSignature, strings.Repeat("A", 4096)), "is longer than any signature"},
		{"a certificate that is none", annotated(signing.AnnotationCertificate, "x"), "is not one certificate in PEM"},
		{"a blank certificate", annotated(signing.AnnotationCertificate, " "), "is not one certificate in PEM"},
		{"two certificates", annotated(signing.AnnotationCertificate, certificate+certificate), "is not one certificate in PEM"},
		{"a log entry that is none", annotated(signing.AnnotationLogEntry, "x"), "it is not JSON"},
		{"a log entry that reads in two ways", annotated(signing.AnnotationLogEntry, `{"Payload":{},"payload":{}}`), "twice in one object"},
		{"a bundle that is none", bundled([]byte("x")), "its bundle cannot be read: it is not JSON"},
		{"an empty bundle", bundled([]byte(`{"mediaType":"` + signing.TypeBundle + `"}`)), "it does not read as a Sigstore bundle"},
		{"a bundle that reads in two ways", bundled([]byte(strings.Replace(string(must(keyless().SignStatement(statement()))), "{", `{"dsseEnvelope":{},`, 1))), `twice in one object`},
		{"a statement that reads in two ways", bundled(must(keyless().SignStatement([]byte(strings.Replace(string(statement()), "{", `{"subject":[],`, 1))))), `it has the key "subject" twice`},
		{"a statement about two images", bundled(must(keyless().SignStatement([]byte(strings.Replace(string(statement()), `"subject":[`, `"subject":[{"digest":{}},`, 1))))), "its statement is about 2 subjects"},
		{"a statement about nothing", bundled(must(keyless().SignStatement([]byte(`{"_type":"` + statementType + `","predicateType":"` + predicateSignature + `"}`)))), "its statement is about 0 subjects"},
		{"a statement of another version", bundled(must(keyless().SignStatement([]byte(strings.Replace(string(statement()), "Statement/v1", "Statement/v9", 1))))), "its statement is of type"},
		{"an envelope without a signature", bundled(edited(must(keyless().SignStatement(statement())), func(content map[string]any) {
			at(content, "dsseEnvelope")["signatures"] = []any{}
		})), "its bundle has no signature"},
		{"an envelope with two signatures", bundled(edited(must(keyless().SignStatement(statement())), func(content map[string]any) {
			envelope := at(content, "dsseEnvelope")
			envelope["signatures"] = append(envelope["signatures"].([]any), envelope["signatures"].([]any)[0])
		})), "its envelope has 2 signatures"},
	} {
		t.Run(test.name, func(t *testing.T) {
			fails(t, verifier, test.pushed, verify.ReasonMalformed, test.says)
		})
	}
	older := edited(must(keyless().SignStatement(statement())), func(content map[string]any) {
		content["mediaType"] = "application/vnd.dev.sigstore.bundle+json;version=0.1"
	})
	fails(t, verifier, bundled(older), verify.ReasonUnsupported, "only version 0.3 is read")
}
