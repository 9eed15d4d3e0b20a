package cosign

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/gatehouse-dev/gatehouse/internal/verify"
)

// rooted trusts an identity by the trust root of all tests, after a change.
func rooted(t *testing.T, change func(root map[string]any)) *Verifier {
	t.Helper()
	var content map[string]any
	if err := json.Unmarshal(theWorld().root, &content); err != nil {
		t.Fatal(err)
	}
	change(content)
	return must(New(Config{
		Identities: []Identity{{Issuer: issuer, Subject: workflow}}, TrustRoot: must(json.Marshal(content)),
		TransparencyLog: Required, Timestamps: Ignored,
	}))
}

func first(list any) map[string]any { return list.([]any)[0].(map[string]any) }

// Intermediate authorities may come with a signature, roots never.
func TestIntermediateAuthorities(t *testing.T) {
	rootAlone := rooted(t, func(root map[string]any) {
		chain := at(first(root["certificateAuthorities"]), "certChain")
		chain["certificates"] = chain["certificates"].([]any)[1:]
	})
	passes(t, rootAlone, tagged(keyless()), keyless().Identity.Signer())
	// A bundle of version 0.3 brings its own certificate alone.
	fails(t, rootAlone, enveloped(keyless()), verify.ReasonUntrustedSigner, "leads to no certificate authority of the trust root")
	foreign := keyless()
	foreign.Sigstore = theWorld().foreign
	fails(t, rootAlone, tagged(foreign), verify.ReasonUntrustedSigner, "leads to no certificate authority of the trust root")
}

// Authorities and logs count for as long as the trust root says.
func TestValidityOfAuthorities(t *testing.T) {
	yesterday := time.Now().Add(-24 * time.Hour).UTC().Format(time.RFC3339)
	retired := rooted(t, func(root map[string]any) {
		at(first(root["certificateAuthorities"]), "validFor")["end"] = yesterday
	})
	closed := rooted(t, func(root map[string]any) {
		at(first(root["tlogs"]), "publicKey", "validFor")["end"] = yesterday
	})
	closedCertificates := rooted(t, func(root map[string]any) {
		at(first(root["ctlogs"]), "publicKey", "validFor")["end"] = yesterday
	})
	past := keyless()
	past.Time = time.Now().Add(-48 * time.Hour)
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			fails(t, retired, form.sign(keyless()), verify.ReasonExpired, "was not valid when it was signed")
			fails(t, closedCertificates, form.sign(keyless()), verify.ReasonNotLogged, "has no promise (SCT)")
			for _, verifier := range []*Verifier{retired, closed, closedCertificates} {
				passes(t, verifier, form.sign(past), past.Identity.Signer())
			}
		})
	}
	for _, form := range forms[:2] { // of bundles the proof of inclusion counts, which states no time
		fails(t, closed, form.sign(keyless()), verify.ReasonNotLogged, "is not signed by a log of the trust root")
	}
}
