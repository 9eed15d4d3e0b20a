package notation

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"testing"
	"time"

	notationgo "github.com/notaryproject/notation-go"
	notationverifier "github.com/notaryproject/notation-go/verifier"
	"github.com/notaryproject/notation-go/verifier/trustpolicy"
	"github.com/notaryproject/notation-go/verifier/truststore"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/gatehouse-dev/gatehouse/internal/verify"
	authority "github.com/gatehouse-dev/gatehouse/test/signatures/notation"
)

type trusted map[truststore.Type][]*x509.Certificate

func (s trusted) GetCertificates(_ context.Context, kind truststore.Type, _ string) ([]*x509.Certificate, error) {
	return s[kind], nil
}

func notationGoPasses(t *testing.T, stores trusted, identity, format string, envelope []byte) bool {
	t.Helper()
	statement := trustpolicy.TrustPolicy{
		Name: "all", RegistryScopes: []string{"*"}, TrustedIdentities: []string{identity},
		SignatureVerification: trustpolicy.SignatureVerification{VerificationLevel: "strict"},
	}
	for kind := range stores {
		statement.TrustStores = append(statement.TrustStores, string(kind)+":all")
	}
	verifier := must[notationgo.Verifier](t)(notationverifier.New(&trustpolicy.Document{Version: "1.0", TrustPolicies: []trustpolicy.TrustPolicy{statement}}, stores, nil))
	_, err := verifier.Verify(t.Context(), app, envelope, notationgo.VerifierVerifyOptions{
		ArtifactReference: "registry.example.com/team/app@" + app.Digest.String(), SignatureMediaType: format,
	})
	return err == nil
}

// What notation's own verifier refuses at level strict is never passed at Strict.
// Where it is looser, which is said here, Gatehouse refuses.
func TestNeverLooserThanNotation(t *testing.T) {
	now := time.Now()
	ca, stranger, tsa := newAuthority(t, authority.Options{}), newAuthority(t, authority.Options{}), newAuthority(t, authority.Options{})
	stamper := must[*authority.Timestamper](t)(tsa.Timestamper(now))
	name := func(cn string) pkix.Name {
		return pkix.Name{Country: []string{"US"}, Province: []string{"WA"}, Organization: []string{"Example"}, CommonName: cn}
	}
	other := app
	other.Digest = digest.FromString("another image")

	signers := map[string]authority.Leaf{
		"release":       {},
		"other":         {Subject: name("other")},
		"expired leaf":  {NotAfter: now.Add(-time.Minute)},
		"future leaf":   {NotBefore: now.Add(time.Hour)},
		"server's leaf": {Edit: func(c *x509.Certificate) { c.ExtKeyUsage = append(c.ExtKeyUsage, x509.ExtKeyUsageServerAuth) }},
		"no usage":      {Edit: func(c *x509.Certificate) { c.ExtKeyUsage = nil }},
		"wrong usage":   {Edit: func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageKeyEncipherment }},
		"issuing leaf":  {Edit: func(c *x509.Certificate) { c.IsCA = true }},
		"unknown extras": {Edit: func(c *x509.Certificate) {
			c.ExtraExtensions = []pkix.Extension{{Id: []int{1, 2, 3}, Value: []byte{5, 0}}}
		}},
	}
	signings := map[string]authority.Signing{
		"plain":     {},
		"stamped":   {Timestamps: stamper},
		"expired":   {Time: now.Add(-time.Hour), Expiry: now.Add(-time.Minute)},
		"expiring":  {Expiry: now.Add(time.Hour)},
		"authority": {SigningAuthority: true},
		"plugin":    {Attributes: map[string]string{"io.cncf.notary.verificationPlugin": "x"}},
		"critical":  {Attributes: map[string]string{"x": "y"}}, // which notation ignores
	}
	var both, neither, stricter int
	for leafName, leaf := range signers {
		for _, issuer := range []*authority.Authority{ca, stranger} {
			signer := issue(t, issuer, leaf)
			for signingName, signing := range signings {
				for formatName, format := range formats {
					for _, subject := range []ocispec.Descriptor{app, other} {
						for _, stamps := range []bool{false, true} {
							for _, identity := range []string{release, "*"} {
								if leafName != "release" && (subject.Digest != app.Digest || identity != release || format == authority.COSE) {
									continue // what is compared with the good leaf already
								}
								signing.Format = format
								if signing.Time.IsZero() && leafName == "expired leaf" {
									signing.Time = now.Add(-2 * time.Minute)
								}
								if leafName == "future leaf" {
									signing.Time = now.Add(2 * time.Hour)
								}
								made, err := signer.Sign(subject, signing)
								if err != nil {
									continue // the library refuses to sign so
								}
								signature := must[*authority.Signature](t)(authority.Attach(app, format, made.Envelope))
								config, stores := trusting(ca), trusted{truststore.TypeCA: {ca.Root}}
								config.TrustedIdentities = []string{identity}
								if stamps {
									config = stampedBy(config, tsa)
									stores[truststore.TypeTSA] = []*x509.Certificate{tsa.Root}
								}
								theirs := notationGoPasses(t, stores, identity, format, signature.Envelope)
								finding := judged(t, config, signature)
								ours := finding.Outcome == verify.Passed
								what := fmt.Sprintf("%s, %s, %s, stamps %v, %s", leafName, signingName, formatName, stamps, identity)
								switch {
								case ours && !theirs:
									t.Errorf("%s: passed, and notation refuses it", what)
								case ours:
									both++
								case !theirs:
									neither++
								case signingName == "critical":
									stricter++
								default:
									t.Errorf("%s: refused (%s: %s), and notation passes it", what, finding.Reason, finding.Message)
								}
							}
						}
					}
				}
			}
		}
	}
	t.Logf("passed by both %d, by neither %d, by notation alone %d", both, neither, stricter)
	if both == 0 || neither == 0 || stricter == 0 {
		t.Error("nothing was compared")
	}
}
