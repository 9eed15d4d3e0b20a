package cosign

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/digitorus/timestamp"

	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/verify"
	signing "github.com/gatehouse-dev/gatehouse/test/signatures/cosign"
)

// What must be logged and stamped is, by a log and an authority of the trust
// root.
func TestLogEntriesAndTimestampsThatAreMissingOrForeign(t *testing.T) {
	w := theWorld()
	identities := []Identity{{Issuer: issuer, Subject: workflow}}
	for _, by := range []struct {
		name   string
		signer signing.Signer
		config Config
	}{
		{"a key", signing.Signer{Key: w.key, Sigstore: w.sigstore}, Config{Keys: keysOf(w.key)}},
		{"one of keys", signing.Signer{Key: w.key, Sigstore: w.sigstore}, Config{Keys: keysOf(w.other, w.key)}},
		{"an identity", *keyless(), Config{Identities: identities}},
	} {
		config := by.config
		config.TransparencyLog = Required
		logged := trust(t, config)
		config.Timestamps = Required
		both := trust(t, config)
		for _, form := range forms {
			t.Run(form.name+" by "+by.name, func(t *testing.T) {
				unlogged, unstamped := by.signer, by.signer
				unlogged.Unlogged, unstamped.Unstamped = true, true
				fails(t, logged, form.sign(&unlogged), verify.ReasonNotLogged, "it has no entry in a transparency log, which transparencyLog: Required demands")
				fails(t, both, form.sign(&unlogged), verify.ReasonNotLogged, "it has no entry in a transparency log")
				fails(t, both, form.sign(&unstamped), verify.ReasonNoTimestamp, "it has no time stamp, which timestamps: Required demands")
				if by.signer.Key != nil {
					foreign := by.signer
					foreign.Sigstore = w.foreign
					fails(t, logged, form.sign(&foreign), verify.ReasonNotLogged, "is not signed by a log of the trust root")
				}
			})
		}
	}
}

// A log entry counts for the payload, the signature and the key that it states.
func TestForeignLogEntries(t *testing.T) {
	w := theWorld()
	by := &signing.Signer{Key: w.key, Sigstore: w.sigstore, Unstamped: true}
	byOther := &signing.Signer{Key: w.other, Sigstore: w.sigstore, Unstamped: true}
	verifier := trust(t, Config{Keys: keysOf(w.key), TransparencyLog: Required})
	people := trust(t, Config{Identities: []Identity{{Issuer: issuer, Subject: workflow}}})

	entryOf := func(other *signing.Signature) func(*signing.Signature) {
		return func(made *signing.Signature) {
			made.Annotations[signing.AnnotationLogEntry] = other.Annotations[signing.AnnotationLogEntry]
		}
	}
	another := must(by.Sign(signing.Payload(repository, image.DigestOf(elsewhere))))
	fails(t, verifier, signed(by, payload(), entryOf(another)), verify.ReasonNotLogged, "its log entry is about another signature")
	fails(t, verifier, signed(by, payload(), entryOf(must(byOther.Sign(payload())))), verify.ReasonNotLogged, "its log entry is about another signature")
	fails(t, people, signed(keyless(), payload(), entryOf(must(keyless().Sign(payload())))), verify.ReasonNotLogged, "its log entry is about another signature")
	fails(t, verifier, signed(by, payload(), entryOf(must(by.Sign(payload())))), verify.ReasonNotLogged, "its log entry is about another signature")

	// The entry of this signature, of which something was changed.
	spoilt := func(change func(map[string]any)) *signing.Artifact {
		return signed(by, payload(), func(made *signing.Signature) {
			made.Annotations[signing.AnnotationLogEntry] = string(edited([]byte(made.Annotations[signing.AnnotationLogEntry]), change))
		})
	}
	untrusted := "is not signed by a log of the trust root"
	fails(t, verifier, spoilt(func(entry map[string]any) { at(entry, "Payload")["integratedTime"] = time.Now().Unix() - 7 }), verify.ReasonNotLogged, untrusted)
	fails(t, verifier, spoilt(func(entry map[string]any) { at(entry, "Payload")["logIndex"] = 1 }), verify.ReasonNotLogged, untrusted)
	fails(t, verifier, spoilt(func(entry map[string]any) { at(entry, "Payload")["logID"] = strings.Repeat("ab", 32) }), verify.ReasonNotLogged, untrusted)
	fails(t, verifier, spoilt(func(entry map[string]any) { entry["SignedEntryTimestamp"] = "AAAA" }), verify.ReasonNotLogged, untrusted)
	fails(t, verifier, spoilt(func(entry map[string]any) { delete(entry, "SignedEntryTimestamp") }), verify.ReasonMalformed, "it lacks the SignedEntryTimestamp")
	fails(t, verifier, spoilt(func(entry map[string]any) { at(entry, "Payload")["body"] = "AAAA" }), verify.ReasonMalformed, "its body cannot be read")

	// The same in bundles.
	first, second := must(by.SignStatement(statement())), must(by.SignStatement(statement()))
	entries := func(bundle []byte) (entries any) {
		edited(bundle, func(content map[string]any) { entries = at(content, "verificationMaterial")["tlogEntries"] })
		return entries
	}
	with := func(entries any) *signing.Artifact {
		return bundled(edited(first, func(content map[string]any) { at(content, "verificationMaterial")["tlogEntries"] = entries }))
	}
	passes(t, verifier, with(entries(first)), w.key.Signer())
	fails(t, verifier, with(entries(second)), verify.ReasonNotLogged, "its log entry is about another signature")
	fails(t, verifier, with(entries(must(by.SignManifest(manifest)))), verify.ReasonNotLogged, "its log entry is about another signature")
	many := make([]any, maxEntries+1)
	for i := range many {
		many[i] = entries(first).([]any)[0]
	}
	if finding := one(t, verifier, with(many)); finding.Outcome != verify.Undecided || finding.Reason != verify.ReasonTooLarge {
		t.Errorf("many entries: %+v", finding)
	}
}

// A time stamp counts for the signature that it is about.
func TestForeignTimestamps(t *testing.T) {
	w := theWorld()
	verifier := trust(t, Config{Keys: keysOf(w.key), Timestamps: Required})
	by := &signing.Signer{Key: w.key, Sigstore: w.sigstore, Unlogged: true}
	another := must(by.Sign(payload()))
	for name, stamp := range map[string]string{
		"of another signature": another.Annotations[signing.AnnotationTimestamp],
		"of another authority": must((&signing.Signer{Key: w.key, Sigstore: w.foreign}).Sign(payload())).Annotations[signing.AnnotationTimestamp],
	} {
		t.Run(name, func(t *testing.T) {
			made := signed(by, payload(), func(made *signing.Signature) { made.Annotations[signing.AnnotationTimestamp] = stamp })
			fails(t, verifier, made, verify.ReasonNoTimestamp, "its time stamp is none of a timestamp authority of the trust root, or is about something else")
		})
	}
	for name, stamp := range map[string]string{"of nothing": `{"SignedRFC3161Timestamp":"AAAA"}`, "that is empty": `{}`} {
		t.Run(name, func(t *testing.T) {
			made := signed(by, payload(), func(made *signing.Signature) { made.Annotations[signing.AnnotationTimestamp] = stamp })
			fails(t, verifier, made, verify.ReasonNoTimestamp, "it has no time stamp")
		})
	}
	twice := signed(by, payload(), func(made *signing.Signature) {
		made.Annotations[signing.AnnotationTimestamp] = `{"SignedRFC3161Timestamp":"AAAA","SignedRFC3161Timestamp":"AAAA"}`
	})
	fails(t, verifier, twice, verify.ReasonMalformed, `it has the key "SignedRFC3161Timestamp" twice`)
	// Where no stamp is demanded, none does harm.
	passes(t, trust(t, Config{Keys: keysOf(w.key)}), twice, w.key.Signer())
}

// The library verifies every signature of an entry that asks to be entered with
// every key of it. Such entries are not shown to it.
func TestLogEntriesThatWouldBeSlow(t *testing.T) {
	w := theWorld()
	by := &signing.Signer{Key: w.key, Sigstore: w.sigstore}
	verifier := trust(t, Config{Keys: keysOf(w.key), TransparencyLog: Required})
	huge := must(x509.MarshalPKIXPublicKey(&rsa.PublicKey{N: new(big.Int).SetBit(big.NewInt(1), maxRSA+1, 1), E: 65537}))
	for _, test := range []struct{ name, body, says string }{
		{"a proposed envelope", `{"kind":"dsse","apiVersion":"0.0.1","spec":{"proposedContent":{"envelope":"{}","verifiers":["AAAA"]}}}`, "its body asks to be entered"},
		{"a proposed statement", `{"kind":"intoto","apiVersion":"0.0.2","spec":{"content":{"envelope":{"payload":"AAAA","payloadType":"a","signatures":[]}}}}`, "its body asks to be entered"},
		{"many signatures", `{"kind":"dsse","apiVersion":"0.0.1","spec":{"signatures":[{},{}]}}`, "its body has more than one signature"},
		{"many signatures of a statement", `{"kind":"intoto","apiVersion":"0.0.2","spec":{"content":{"envelope":{"signatures":[{},{}]}}}}`, "its body has more than one signature"},
		{"a huge key", `{"kind":"hashedrekord","apiVersion":"0.0.1","spec":{"signature":{"publicKey":{"content":"` +
			base64.StdEncoding.EncodeToString(encoded("PUBLIC KEY", huge)) + `"}}}}`, "its body has a key that is not supported"},
		{"a huge body", `{"kind":"` + strings.Repeat("a", maxBody) + `"}`, "its body is too large"},
		{"a body that reads in two ways", `{"kind":"dsse","kind":"intoto"}`, `it has the key "kind" twice`},
	} {
		t.Run(test.name, func(t *testing.T) {
			fails(t, verifier, signed(by, payload(), func(made *signing.Signature) {
				made.Annotations[signing.AnnotationLogEntry] = string(edited([]byte(made.Annotations[signing.AnnotationLogEntry]), func(entry map[string]any) {
					at(entry, "Payload")["body"] = []byte(test.body)
				}))
			}), verify.ReasonMalformed, test.says)
			fails(t, verifier, bundled(edited(must(by.SignStatement(statement())), func(content map[string]any) {
				first(at(content, "verificationMaterial")["tlogEntries"])["canonicalizedBody"] = []byte(test.body)
			})), verify.ReasonMalformed, test.says)
		})
	}
	fails(t, verifier, bundled(edited(must(by.SignStatement(statement())), func(content map[string]any) {
		at(first(at(content, "verificationMaterial")["tlogEntries"]), "inclusionProof", "checkpoint")["envelope"] = strings.Repeat("a", maxCheckpoint+1)
	})), verify.ReasonMalformed, "its proof of inclusion is too large")
	padded := strings.TrimSuffix(string(statement()), "}") + `,"padding":"` + strings.Repeat("a", maxPayload) + `"}`
	if finding := one(t, verifier, bundled(must(by.SignStatement([]byte(padded))))); finding.Outcome != verify.Undecided || finding.Reason != verify.ReasonTooLarge {
		t.Errorf("a large statement: %+v", finding)
	}
}

// A time stamp with a key that is slow to verify does not count.
func TestTimestampsThatWouldBeSlow(t *testing.T) {
	stamp := must((&signing.Signer{Key: theWorld().key, Sigstore: theWorld().sigstore}).Sign(payload())).Annotations[signing.AnnotationTimestamp]
	good := must(parseTimestamp([]byte(stamp)))
	if err := checkStamp(good); err != nil {
		t.Error(err)
	}
	if err := checkStamp(append(good, make([]byte, maxStamp)...)); err == nil {
		t.Error("a large one is taken")
	}
	if err := checkStamp(nil); err == nil {
		t.Error("an empty one is taken")
	}
	key := must(rsa.GenerateKey(rand.Reader, 1024)) // the other bound would take long to make a key for
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageTimeStamping}}
	certificate := must(x509.ParseCertificate(must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))))
	made := timestamp.Timestamp{
		HashAlgorithm: crypto.SHA256, HashedMessage: make([]byte, 32), Time: time.Now(), Policy: []int{1, 2, 3}, AddTSACertificate: true,
	}
	if err := checkStamp(must(made.CreateResponseWithOpts(certificate, key, crypto.SHA256))); err == nil || !strings.Contains(err.Error(), "a key that is not supported") {
		t.Errorf("one with a key out of bounds: %v", err)
	}
}
