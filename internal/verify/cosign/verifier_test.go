package cosign

import (
	"crypto"
	"testing"

	"github.com/gatehouse-dev/gatehouse/internal/verify"
	signing "github.com/gatehouse-dev/gatehouse/test/signatures/cosign"
)

// What a listed key signed passes, in every form and by every algorithm.
func TestKeys(t *testing.T) {
	w := theWorld()
	for _, form := range forms {
		for algorithm, key := range w.keys {
			if form.name == "a bundle with a message signature" && key != w.key && algorithm != signing.RSA2048 {
				continue // these sign another digest of the manifest than the one that the image is known by
			}
			t.Run(form.name+" "+string(algorithm), func(t *testing.T) {
				passes(t, trust(t, Config{Keys: keysOf(key)}), form.sign(&signing.Signer{Key: key}), key.Signer())
				if form.name == "a bundle with an envelope" && (algorithm == signing.ECDSAP384 || algorithm == signing.ECDSAP521) {
					key = &signing.Key{Private: key.Private, Hash: crypto.SHA256} // the log takes envelopes with no other hash
				}
				passes(t, trust(t, Config{Keys: keysOf(key), TransparencyLog: Required}),
					form.sign(&signing.Signer{Key: key, Sigstore: w.sigstore, Unstamped: true}), key.Signer())
				passes(t, trust(t, Config{Keys: keysOf(key), TransparencyLog: Required, Timestamps: Required}),
					form.sign(&signing.Signer{Key: key, Sigstore: w.sigstore}), key.Signer())
			})
		}
	}
}

// Old versions of cosign sign with SHA-256 whatever the curve.
func TestKeysOfLargerCurvesMaySignWithSHA256(t *testing.T) {
	for _, algorithm := range []signing.Algorithm{signing.ECDSAP384, signing.ECDSAP521} {
		key := &signing.Key{Private: theWorld().keys[algorithm].Private, Hash: crypto.SHA256}
		for _, form := range forms {
			t.Run(string(algorithm)+" "+form.name, func(t *testing.T) {
				passes(t, trust(t, Config{Keys: keysOf(key)}), form.sign(&signing.Signer{Key: key}), key.Signer())
			})
		}
	}
}

// Every key is tried, and the finding names the one that fits.
func TestEachKeyIsTried(t *testing.T) {
	w := theWorld()
	verifier := trust(t, Config{Keys: keysOf(w.other, w.keys[signing.Ed25519], w.keys[signing.RSA2048], w.key)})
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			finding := one(t, verifier, form.sign(&signing.Signer{Key: w.key}))
			if finding.Signer != w.key.Signer() || finding.Message != "signed with key k4" {
				t.Errorf("signer %q, message %q", finding.Signer, finding.Message)
			}
		})
	}
}

// What a listed identity signed passes, in every form, with each kind of proof
// of when it was signed.
func TestIdentities(t *testing.T) {
	identities := []Identity{{Issuer: issuer, Subject: workflow, SourceRepository: project}}
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			logged, stamped := keyless(), keyless()
			logged.Unstamped, stamped.Unlogged = true, true
			signer := logged.Identity.Signer()
			passes(t, trust(t, Config{Identities: identities}), form.sign(logged), signer)
			passes(t, trust(t, Config{Identities: identities, TransparencyLog: Ignored, Timestamps: Required}), form.sign(stamped), signer)
			passes(t, trust(t, Config{Identities: identities, Timestamps: Required}), form.sign(keyless()), signer)
			passes(t, trust(t, Config{Identities: identities}), form.sign(keyless()), signer)
		})
	}
}

// Keys and identities stand beside each other.
func TestKeysBesideIdentities(t *testing.T) {
	w := theWorld()
	verifier := trust(t, Config{Keys: keysOf(w.other, w.key), Identities: []Identity{{Issuer: issuer, Subject: workflow}}})
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			passes(t, verifier, form.sign(&signing.Signer{Key: w.key, Sigstore: w.sigstore}), w.key.Signer())
			passes(t, verifier, form.sign(keyless()), keyless().Identity.Signer())
		})
	}
}

// An identity is matched as a whole, or not at all.
func TestIdentityMatching(t *testing.T) {
	tests := []struct {
		name     string
		identity Identity
		want     bool
	}{
		{"exactly", Identity{Issuer: issuer, Subject: workflow}, true},
		{"by patterns", Identity{IssuerRegExp: `https://token\.example\.com`, SubjectRegExp: `https://git\.example\.com/team/app/.*`}, true},
		{"by a pattern with its own anchors", Identity{Issuer: issuer, SubjectRegExp: `^https://git\.example\.com/team/app/.*$`}, true},
		{"by alternatives", Identity{Issuer: issuer, SubjectRegExp: `nobody|https://git\.example\.com/.*`}, true},
		{"with the repository", Identity{Issuer: issuer, Subject: workflow, SourceRepository: project}, true},

		{"by another issuer", Identity{Issuer: "https://other.example.com", Subject: workflow}, false},
		{"by another subject", Identity{Issuer: issuer, Subject: "robot@example.com"}, false},
		{"from another repository", Identity{Issuer: issuer, Subject: workflow, SourceRepository: project + "-fork"}, false},
		{"by a fragment of the subject", Identity{Issuer: issuer, SubjectRegExp: `git\.example\.com/team/app`}, false},
		{"by the beginning of the subject", Identity{Issuer: issuer, SubjectRegExp: `https://git\.example\.com/team/app`}, false},
		{"by the end of the subject", Identity{Issuer: issuer, SubjectRegExp: `refs/heads/main`}, false},
		{"by an alternative that is a fragment", Identity{Issuer: issuer, SubjectRegExp: `nobody|team`}, false},
		{"by a line of the subject", Identity{Issuer: issuer, SubjectRegExp: `(?m)^main$`}, false},
		{"by a fragment of the issuer", Identity{IssuerRegExp: `token`, Subject: workflow}, false},
		{"by the beginning of the issuer", Identity{IssuerRegExp: `https://token`, Subject: workflow}, false},
	}
	pushed := tagged(keyless())
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			verifier := trust(t, Config{Identities: []Identity{test.identity}})
			if test.want {
				passes(t, verifier, pushed, keyless().Identity.Signer())
			} else {
				fails(t, verifier, pushed, verify.ReasonIdentityMismatch, `it is signed by "`+workflow+`" of issuer "`+issuer+`"`)
			}
		})
	}
}

// Entries of version 2 of Rekor prove that they are in the log and state no time:
// a keyless signature then needs a time stamp, which counts also where none is
// required.
func TestLogEntriesWithoutATime(t *testing.T) {
	w := theWorld()
	config := Config{Identities: []Identity{{Issuer: issuer, Subject: workflow}}, TransparencyLog: Required}
	verifier := trust(t, config)
	config.Timestamps = Required
	both := trust(t, config)
	for _, form := range forms[2:] {
		t.Run(form.name, func(t *testing.T) {
			signer := keyless()
			signer.Tiles = true
			passes(t, verifier, form.sign(signer), signer.Identity.Signer())
			passes(t, both, form.sign(signer), signer.Identity.Signer())
			signer.Unstamped = true
			fails(t, verifier, form.sign(signer), verify.ReasonNoTimestamp, "it has no time stamp, and its log entry states no time")
			foreign := keyless()
			foreign.Tiles, foreign.Sigstore = true, w.foreign
			fails(t, verifier, form.sign(foreign), verify.ReasonUntrustedSigner, "leads to no certificate authority")
			for _, key := range []*signing.Key{w.key, w.keys[signing.RSA2048]} {
				byKey := trust(t, Config{Keys: keysOf(w.other, key), TransparencyLog: Required})
				passes(t, byKey, form.sign(&signing.Signer{Key: key, Sigstore: w.sigstore, Tiles: true}), key.Signer())
				fails(t, byKey, form.sign(&signing.Signer{Key: key, Sigstore: w.foreign, Tiles: true}), verify.ReasonNotLogged, "is not signed by a log of the trust root")
			}
		})
	}
}
