package notation

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/veraison/go-cose"

	"github.com/gatehouse-dev/gatehouse/internal/verify"
	authority "github.com/gatehouse-dev/gatehouse/test/signatures/notation"
)

func eachFormat(t *testing.T, test func(t *testing.T, format string)) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(formats)) {
		t.Run(name, func(t *testing.T) { test(t, formats[name]) })
	}
}

func TestGoodSignaturePasses(t *testing.T) {
	ca := newAuthority(t, authority.Options{})
	eachFormat(t, func(t *testing.T, format string) {
		finding := judged(t, trusting(ca), sign(t, issue(t, ca, authority.Leaf{}), authority.Signing{Format: format, Expiry: time.Now().Add(time.Hour)}))
		expect(t, finding, verify.Passed, verify.ReasonVerified, "CN=release,O=Example,ST=WA,C=US")
		if finding.Signer != "x509:CN=release,O=Example,ST=WA,C=US" {
			t.Errorf("the signer is %q", finding.Signer)
		}
		if len(finding.Warnings) > 0 {
			t.Errorf("there are warnings: %q", finding.Warnings)
		}
	})
}

func TestRSAAndSelfSignedSignersPass(t *testing.T) {
	ca := newAuthority(t, authority.Options{})
	key := must[*rsa.PrivateKey](t)(rsa.GenerateKey(rand.Reader, 2048))
	eachFormat(t, func(t *testing.T, format string) {
		expect(t, judged(t, trusting(ca), sign(t, issue(t, ca, authority.Leaf{Key: key}), authority.Signing{Format: format})), verify.Passed, verify.ReasonVerified)
	})

	// What `notation cert generate-test` makes: a signer that vouches for itself.
	template := &x509.Certificate{
		SerialNumber: ca.Root.SerialNumber,
		Subject:      pkix.Name{Country: []string{"US"}, Province: []string{"WA"}, Organization: []string{"Example"}, CommonName: "release"},
		NotBefore:    time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
	}
	der := must[[]byte](t)(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))
	self := must[*x509.Certificate](t)(x509.ParseCertificate(der))
	config := trusting(ca)
	config.TrustStores[0].Certificates = [][]byte{authority.PEM(self)}
	signer := &authority.Signer{Chain: []*x509.Certificate{self}, Key: key}
	expect(t, judged(t, config, sign(t, signer, authority.Signing{})), verify.Passed, verify.ReasonVerified)
}

func TestSignatureOfAnotherSubject(t *testing.T) {
	ca := newAuthority(t, authority.Options{})
	signer := issue(t, ca, authority.Leaf{})
	other := app
	other.Digest = digest.FromString("another image")
	eachFormat(t, func(t *testing.T, format string) {
		ofOther := must[*authority.Signature](t)(signer.Sign(other, authority.Signing{Format: format}))

		// Its manifest is left as it is: the registry returned what it should not.
		expect(t, judged(t, trusting(ca), ofOther), verify.Failed, verify.ReasonOtherSubject, "another image")

		// Its envelope is attached to the app.
		moved := must[*authority.Signature](t)(authority.Attach(app, format, ofOther.Envelope))
		expect(t, judged(t, trusting(ca), moved), verify.Failed, verify.ReasonOtherSubject, "sha256:"+other.Digest.Encoded()[:12])

		// The same bytes, signed as something else than what they are said to be.
		asIndex := app
		asIndex.MediaType = ocispec.MediaTypeImageIndex
		disguised := must[*authority.Signature](t)(authority.Attach(app, format, must[*authority.Signature](t)(signer.Sign(asIndex, authority.Signing{Format: format})).Envelope))
		expect(t, judged(t, trusting(ca), disguised), verify.Failed, verify.ReasonOtherSubject, ocispec.MediaTypeImageIndex)
	})
	signed := artifactOf(t, sign(t, signer, authority.Signing{}))
	signed.Manifest.Subject = nil
	expect(t, judgedArtifact(t, trusting(ca), signed), verify.Failed, verify.ReasonMalformed, "no subject")
}

// resigned is a signature of whatever payload.
func resigned(t *testing.T, signer *authority.Signer, format, payload string) *authority.Signature {
	t.Helper()
	return sign(t, signer, authority.Signing{Format: format, Payload: []byte(payload)})
}

func TestPayloadsThatAreNone(t *testing.T) {
	ca := newAuthority(t, authority.Options{})
	signer := issue(t, ca, authority.Leaf{})
	eachFormat(t, func(t *testing.T, format string) {
		for _, payload := range []string{`{}`, `{"targetArtifact":null}`, `{"targetArtifact":"x"}`} {
			expect(t, judged(t, trusting(ca), resigned(t, signer, format, payload)), verify.Failed, verify.ReasonMalformed)
		}
		expect(t, judged(t, trusting(ca), resigned(t, signer, format, `{"targetArtifact":{}}`)), verify.Failed, verify.ReasonOtherSubject)
	})
	// COSE may sign anything, so also what reads in two ways.
	good := `{"mediaType":"` + app.MediaType + `","digest":"` + app.Digest.String() + `","size":1234}`
	for name, payload := range map[string]string{
		"key twice":                 `{"targetArtifact":{},"targetArtifact":` + good + `}`,
		"key twice in another case": `{"TARGETARTIFACT":{},"targetArtifact":` + good + `}`,
		"key twice by folding":      `{"targetArtifact":{"diGest":"x",` + good[1:] + `}`,
		"something after":           `{"targetArtifact":` + good + `}{}`,
		"not JSON":                  `targetArtifact`,
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, judged(t, trusting(ca), resigned(t, signer, authority.COSE, payload)), verify.Failed, verify.ReasonMalformed, "one way")
		})
	}
}

func TestContentOfAnotherType(t *testing.T) {
	ca := newAuthority(t, authority.Options{})
	eachFormat(t, func(t *testing.T, format string) {
		signature := sign(t, issue(t, ca, authority.Leaf{}), authority.Signing{Format: format, ContentType: "application/vnd.example.sbom+json"})
		expect(t, judged(t, trusting(ca), signature), verify.Failed, verify.ReasonUnsupported, `"application/vnd.example.sbom+json"`)
	})
}

// editedJWS is a JWS envelope with its members altered.
func editedJWS(t *testing.T, signature *authority.Signature, edit func(members map[string]any)) *authority.Signature {
	t.Helper()
	var members map[string]any
	if err := json.Unmarshal(signature.Envelope, &members); err != nil {
		t.Fatal(err)
	}
	edit(members)
	return must[*authority.Signature](t)(authority.Attach(app, authority.JWS, must[[]byte](t)(json.Marshal(members))))
}

// editedCOSE is a COSE envelope, altered.
func editedCOSE(t *testing.T, signature *authority.Signature, edit func(message *cose.Sign1Message)) *authority.Signature {
	t.Helper()
	var message cose.Sign1Message
	if err := message.UnmarshalCBOR(signature.Envelope); err != nil {
		t.Fatal(err)
	}
	message.Headers.RawUnprotected = nil // what is decoded is what is written
	edit(&message)
	return must[*authority.Signature](t)(authority.Attach(app, authority.COSE, must[[]byte](t)(message.MarshalCBOR())))
}

func TestTamperedSignature(t *testing.T) {
	ca := newAuthority(t, authority.Options{})
	signer, thief := issue(t, ca, authority.Leaf{}), issue(t, newAuthority(t, authority.Options{}), authority.Leaf{})
	other := app
	other.Digest = digest.FromString("another image")
	forOther := must[*authority.Signature](t)(signer.Sign(other, authority.Signing{}))
	payload := must[[]byte](t)(json.Marshal(map[string]ocispec.Descriptor{"targetArtifact": app}))

	for name, tampered := range map[string]*authority.Signature{
		"JWS payload": editedJWS(t, forOther, func(m map[string]any) { m["payload"] = base64.RawURLEncoding.EncodeToString(payload) }),
		"JWS certificate of another": editedJWS(t, sign(t, thief, authority.Signing{}), func(m map[string]any) {
			var chain []string
			for _, c := range signer.Chain {
				chain = append(chain, base64.StdEncoding.EncodeToString(c.Raw))
			}
			m["header"].(map[string]any)["x5c"] = chain
		}),
		"COSE payload": editedCOSE(t, must[*authority.Signature](t)(signer.Sign(other, authority.Signing{Format: authority.COSE})), func(m *cose.Sign1Message) { m.Payload = payload }),
		"COSE certificate of another": editedCOSE(t, sign(t, thief, authority.Signing{Format: authority.COSE}), func(m *cose.Sign1Message) {
			var chain []any
			for _, c := range signer.Chain {
				chain = append(chain, c.Raw)
			}
			m.Headers.Unprotected[cose.HeaderLabelX5Chain] = chain
		}),
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, judged(t, trusting(ca), tampered), verify.Failed, verify.ReasonInvalidSignature, "altered")
		})
	}
}

func TestAmbiguousEnvelopes(t *testing.T) {
	ca := newAuthority(t, authority.Options{})
	good := sign(t, issue(t, ca, authority.Leaf{}), authority.Signing{})
	text := string(good.Envelope)
	var members map[string]string
	_ = json.Unmarshal(good.Envelope, &members) // all but the header
	header := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"ES256","alg":"none"}`))
	for name, envelope := range map[string]string{
		"payload twice":        strings.Replace(text, `"payload":`, `"payload":"e30","payload":`, 1),
		"payload in two cases": strings.Replace(text, `"payload":`, `"Payload":"e30","payload":`, 1),
		"protected twice":      strings.Replace(text, members["protected"], header, 1),
		"chain twice":          strings.Replace(text, `"x5c":`, `"x5c":[],"x5c":`, 1),
		"more signatures":      strings.Replace(text, `{`, `{"signatures":[],`, 1),
		"something after":      text + `{}`,
		"nothing":              ``,
		"null":                 `null`,
		"a list":               `[]`,
		"deep":                 strings.Repeat("[", 100_000),
	} {
		t.Run(name, func(t *testing.T) {
			signature := must[*authority.Signature](t)(authority.Attach(app, authority.JWS, []byte(envelope)))
			expect(t, judged(t, trusting(ca), signature), verify.Failed, verify.ReasonMalformed)
		})
	}
	t.Run("COSE key twice", func(t *testing.T) {
		good := sign(t, issue(t, ca, authority.Leaf{}), authority.Signing{Format: authority.COSE})
		var message cose.Sign1Message
		if err := message.UnmarshalCBOR(good.Envelope); err != nil {
			t.Fatal(err)
		}
		raw := string(message.Headers.RawUnprotected)
		if raw[0] != 0xa2 {
			t.Fatalf("the unprotected header is no map of two: %x", raw[0])
		}
		agent := "\x78\x1bio.cncf.notary.signingAgent"
		for key, want := range map[string]verify.Outcome{
			agent: verify.Failed,
			strings.Replace(agent, "Agent", "Other", 1): verify.Passed, // it is the key that is at fault
		} {
			envelope := strings.Replace(string(good.Envelope), raw, "\xa3"+raw[1:]+key+"\x61x", 1)
			signature := must[*authority.Signature](t)(authority.Attach(app, authority.COSE, []byte(envelope)))
			if finding := judged(t, trusting(ca), signature); finding.Outcome != want {
				t.Errorf("with %q again: %s, %s", key, finding.Outcome, finding.Message)
			}
		}
	})
	t.Run("COSE garbage", func(t *testing.T) {
		for _, envelope := range []string{"", "\xd2", "\xd2\x84\x40\xa0\x40\x40", string(good.Envelope)} {
			signature := must[*authority.Signature](t)(authority.Attach(app, authority.COSE, []byte(envelope)))
			expect(t, judged(t, trusting(ca), signature), verify.Failed, verify.ReasonMalformed, "COSE")
		}
	})
}

func TestUntrustedSigners(t *testing.T) {
	ca, stranger := newAuthority(t, authority.Options{}), newAuthority(t, authority.Options{})
	eachFormat(t, func(t *testing.T, format string) {
		for _, level := range []Level{Strict, Permissive, Audit} {
			config := trusting(ca)
			config.Level = level

			finding := judged(t, config, sign(t, issue(t, stranger, authority.Leaf{}), authority.Signing{Format: format}))
			expect(t, finding, verify.Failed, verify.ReasonUntrustedSigner, "trust stores corp", "Example Root")
			if finding.Identity == "" {
				t.Error("nobody is said to claim the signature")
			}

			authoritative := sign(t, issue(t, ca, authority.Leaf{}), authority.Signing{Format: format, SigningAuthority: true})
			expect(t, judged(t, config, authoritative), verify.Failed, verify.ReasonUntrustedSigner, "SigningAuthority")
		}
	})
}

func TestSigningAuthority(t *testing.T) {
	ca := newAuthority(t, authority.Options{})
	config := trusting(ca)
	config.TrustStores[0].Type = SigningAuthority
	// Its certificate has expired since, which is why the time is authentic.
	signer := issue(t, ca, authority.Leaf{NotAfter: time.Now().Add(-time.Hour)})
	eachFormat(t, func(t *testing.T, format string) {
		signature := sign(t, signer, authority.Signing{Format: format, SigningAuthority: true, Time: time.Now().Add(-2 * time.Hour)})
		expect(t, judged(t, config, signature), verify.Passed, verify.ReasonVerified)
		expect(t, judged(t, config, sign(t, issue(t, ca, authority.Leaf{}), authority.Signing{Format: format})), verify.Failed, verify.ReasonUntrustedSigner, "type CA")
	})
}

func TestIdentityMatchedByAFragment(t *testing.T) {
	ca := newAuthority(t, authority.Options{})
	name := func(cn, o string) pkix.Name {
		return pkix.Name{Country: []string{"US"}, Province: []string{"WA"}, Organization: []string{o}, CommonName: cn}
	}
	twice := name("x", "Example")
	twice.CommonName = ""
	twice.ExtraNames = []pkix.AttributeTypeAndValue{
		{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "evil"},
		{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "release"},
	}
	same := twice
	same.ExtraNames = []pkix.AttributeTypeAndValue{twice.ExtraNames[1], twice.ExtraNames[1]}
	for what, subject := range map[string]pkix.Name{
		"longer name":           name("release-nightly", "Example"),
		"shorter name":          name("releas", "Example"),
		"another case":          name("Release", "Example"),
		"a space":               name("release ", "Example"),
		"attributes in a value": name("release,O=Example,ST=WA,C=US", "Evil"),
		"another organization":  name("release", "Example Inc"),
		"no common name":        name("", "Example"),
		"two common names":      twice,
		"a name twice":          same,
	} {
		t.Run(what, func(t *testing.T) {
			signature := sign(t, issue(t, ca, authority.Leaf{Subject: subject}), authority.Signing{})
			for _, level := range []Level{Strict, Permissive, Audit} {
				config := trusting(ca)
				config.Level = level
				expect(t, judged(t, config, signature), verify.Failed, verify.ReasonIdentityMismatch, "trustedIdentities")
			}
		})
	}
	t.Run("more attributes than are asked for", func(t *testing.T) {
		subject := name("release", "Example")
		subject.OrganizationalUnit = []string{"one", "two"}
		finding := judged(t, trusting(ca), sign(t, issue(t, ca, authority.Leaf{Subject: subject}), authority.Signing{}))
		expect(t, finding, verify.Passed, verify.ReasonVerified)
	})
	t.Run("everyone", func(t *testing.T) {
		config := trusting(ca)
		config.TrustedIdentities = []string{"*"}
		subject := pkix.Name{CommonName: "line\nbreak"}
		finding := judged(t, config, sign(t, issue(t, ca, authority.Leaf{Subject: subject}), authority.Signing{}))
		expect(t, finding, verify.Passed, verify.ReasonVerified)
		if finding.Signer != `x509:CN=line\nbreak` {
			t.Errorf("the signer is %q", finding.Signer)
		}
	})
}

func TestOneSignerHasOneText(t *testing.T) {
	ca, second := newAuthority(t, authority.Options{}), newAuthority(t, authority.Options{Name: "Second"})
	config := trusting(ca)
	config.TrustStores[0].Certificates = append(config.TrustStores[0].Certificates, second.PEM())
	reordered := pkix.Name{ExtraNames: []pkix.AttributeTypeAndValue{
		{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "release"},
		{Type: asn1.ObjectIdentifier{2, 5, 4, 10}, Value: "Example"},
		{Type: asn1.ObjectIdentifier{2, 5, 4, 6}, Value: "US"},
		{Type: asn1.ObjectIdentifier{2, 5, 4, 8}, Value: "WA"},
	}}
	signers := map[string]bool{}
	for _, signer := range []*authority.Signer{
		issue(t, ca, authority.Leaf{}), issue(t, ca, authority.Leaf{}), issue(t, second, authority.Leaf{}),
		issue(t, ca, authority.Leaf{Subject: reordered}),
	} {
		for _, format := range formats {
			finding := judged(t, config, sign(t, signer, authority.Signing{Format: format}))
			expect(t, finding, verify.Passed, verify.ReasonVerified)
			signers[finding.Signer] = true
		}
	}
	if len(signers) != 1 {
		t.Errorf("one signer has the texts %v", signers)
	}
}

func TestSignersThatCannotBeTold(t *testing.T) {
	ca := newAuthority(t, authority.Options{})
	config := trusting(ca)
	config.TrustedIdentities = []string{"*"}
	t.Run("very long", func(t *testing.T) {
		long := issue(t, ca, authority.Leaf{Subject: pkix.Name{CommonName: strings.Repeat("x", maxSubject)}})
		expect(t, judged(t, config, sign(t, long, authority.Signing{})), verify.Failed, verify.ReasonMalformed, "1024 bytes")
	})
	t.Run("empty", func(t *testing.T) {
		// An authority's certificate may not be without, a signer's may.
		nobody := issue(t, ca, authority.Leaf{Edit: func(c *x509.Certificate) { c.Subject = pkix.Name{} }})
		expect(t, judged(t, config, sign(t, nobody, authority.Signing{})), verify.Failed, verify.ReasonMalformed, "empty")
	})
}

func TestPluginsAndCriticalAttributes(t *testing.T) {
	ca := newAuthority(t, authority.Options{})
	signer := issue(t, ca, authority.Leaf{})
	eachFormat(t, func(t *testing.T, format string) {
		for _, level := range []Level{Strict, Audit} {
			config := trusting(ca)
			config.Level = level
			plugin := sign(t, signer, authority.Signing{Format: format, Attributes: map[string]string{
				"io.cncf.notary.verificationPlugin": "com.example.kms", "io.cncf.notary.verificationPluginMinVersion": "1.0.0",
			}})
			expect(t, judged(t, config, plugin), verify.Failed, verify.ReasonUnsupported, `plugin "com.example.kms"`)
			unknown := sign(t, signer, authority.Signing{Format: format, Attributes: map[string]string{"com.example.only-staging": "yes", "com.example.b": "yes"}})
			expect(t, judged(t, config, unknown), verify.Failed, verify.ReasonUnsupported, `"com.example.b"`)
		}
	})
}

func TestExpirySignatureAndCertificates(t *testing.T) {
	now := time.Now()
	ca := newAuthority(t, authority.Options{})
	short := newAuthority(t, authority.Options{IntermediateNotAfter: now.Add(time.Hour)})
	later := now.Add(2 * time.Hour)
	for name, test := range map[string]struct {
		ca        *authority.Authority
		leaf      authority.Leaf
		signing   authority.Signing
		at        time.Time
		says      string
		tolerated bool
	}{
		"signature expired":               {ca: ca, signing: authority.Signing{Expiry: now.Add(time.Hour)}, at: later, says: "the signature expired on"},
		"leaf expired":                    {ca: ca, leaf: authority.Leaf{NotAfter: now.Add(time.Hour)}, at: later, says: `"CN=release`},
		"leaf not yet valid":              {ca: ca, leaf: authority.Leaf{NotBefore: now.Add(-time.Hour)}, at: now.Add(-2 * time.Hour), says: "not yet valid"},
		"intermediate certificate":        {ca: short, leaf: authority.Leaf{NotAfter: now.AddDate(1, 0, 0)}, at: later, says: "Example Signing"},
		"at the very moment of an expiry": {ca: ca, signing: authority.Signing{Expiry: later.Truncate(time.Second)}, at: later.Truncate(time.Second), says: "expired"},
	} {
		t.Run(name, func(t *testing.T) {
			eachFormat(t, func(t *testing.T, format string) {
				test.signing.Format = format
				signature := sign(t, issue(t, test.ca, test.leaf), test.signing)
				config := at(trusting(test.ca), test.at)
				expect(t, judged(t, config, signature), verify.Failed, verify.ReasonExpired, test.says)
				for _, level := range []Level{Permissive, Audit} {
					config.Level = level
					finding := judged(t, config, signature)
					expect(t, finding, verify.Passed, verify.ReasonVerified)
					if len(finding.Warnings) != 1 || !strings.Contains(finding.Warnings[0], test.says) {
						t.Errorf("%s: the warnings are %q", level, finding.Warnings)
					}
				}
			})
		})
	}
}

func TestTimestamps(t *testing.T) {
	now := time.Now()
	tsa, stranger := newAuthority(t, authority.Options{Name: "Time"}), newAuthority(t, authority.Options{Name: "Stranger"})
	ca := newAuthority(t, authority.Options{IntermediateNotAfter: now.Add(time.Hour)})
	leaf := authority.Leaf{NotAfter: now.Add(30 * time.Minute)}
	signer := issue(t, ca, leaf)
	stamper := func(by *authority.Authority, at time.Time) *authority.Timestamper {
		return must[*authority.Timestamper](t)(by.Timestamper(at))
	}
	later := now.Add(24 * time.Hour) // all but the roots have expired
	eachFormat(t, func(t *testing.T, format string) {
		stamped := sign(t, signer, authority.Signing{Format: format, Timestamps: stamper(tsa, now)})
		plain := sign(t, signer, authority.Signing{Format: format})
		config := at(stampedBy(trusting(ca), tsa), later)

		expect(t, judged(t, config, stamped), verify.Passed, verify.ReasonVerified)
		expect(t, judged(t, at(trusting(ca), later), stamped), verify.Failed, verify.ReasonExpired, "trust store of type TSA")
		expect(t, judged(t, config, plain), verify.Failed, verify.ReasonNoTimestamp, "has no time stamp")
		// Also while the certificates are valid: it cannot be told when it was signed.
		expect(t, judged(t, at(config, now), plain), verify.Failed, verify.ReasonNoTimestamp)

		ofStranger := sign(t, signer, authority.Signing{Format: format, Timestamps: stamper(stranger, now)})
		expect(t, judged(t, config, ofStranger), verify.Failed, verify.ReasonNoTimestamp, "trust stores time")
		late := sign(t, signer, authority.Signing{Format: format, Timestamps: stamper(tsa, now.Add(2*time.Hour))})
		expect(t, judged(t, config, late), verify.Failed, verify.ReasonExpired, "time-stamped")
		// The time stamp is good to the second: one that may have been made just
		// after the expiry does not count.
		edge := sign(t, signer, authority.Signing{Format: format, Timestamps: stamper(tsa, signer.Chain[0].NotAfter)})
		expect(t, judged(t, config, edge), verify.Failed, verify.ReasonExpired)

		token := func(signature *authority.Signature, token []byte) *authority.Signature {
			if format == authority.JWS {
				return editedJWS(t, signature, func(m map[string]any) {
					m["header"].(map[string]any)["io.cncf.notary.timestampSignature"] = base64.StdEncoding.EncodeToString(token)
				})
			}
			return editedCOSE(t, signature, func(m *cose.Sign1Message) {
				m.Headers.Unprotected["io.cncf.notary.timestampSignature"] = token
			})
		}
		good := tokenOf(t, format, stamped.Envelope)
		expect(t, judged(t, config, token(stamped, repeated(t, good, asn1.ClassUniversal, asn1.TagSet, 1))), verify.Passed, verify.ReasonVerified)
		expect(t, judged(t, config, token(stamped, repeated(t, good, asn1.ClassUniversal, asn1.TagSet, 2))), verify.Failed, verify.ReasonNoTimestamp, "2 signers")
		expect(t, judged(t, config, token(stamped, repeated(t, good, asn1.ClassContextSpecific, 0, 9))), verify.Undecided, verify.ReasonTooLarge, "18 certificates")
		expect(t, judged(t, config, token(plain, good)), verify.Failed, verify.ReasonNoTimestamp, "not for this signature")
		expect(t, judged(t, config, token(plain, []byte("garbage"))), verify.Failed, verify.ReasonNoTimestamp, "RFC 3161")
		broken := slices.Clone(good)
		broken[len(broken)-1] ^= 1
		expect(t, judged(t, config, token(stamped, broken)), verify.Failed, verify.ReasonNoTimestamp, "altered")

		config.Level = Permissive
		finding := judged(t, config, plain)
		expect(t, finding, verify.Passed, verify.ReasonVerified)
		if len(finding.Warnings) != 1 {
			t.Errorf("the warnings are %q", finding.Warnings)
		}
	})
}

// tokenOf is the time stamp of an envelope.
func tokenOf(t *testing.T, format string, envelope []byte) []byte {
	t.Helper()
	content, fault := open(format, envelope, nil)
	if fault != nil {
		t.Fatal(fault)
	}
	return content.SignerInfo.UnsignedAttributes.TimestampSignature
}

// repeated is a time stamp with more of the same: of its certificates, or of its
// signers.
func repeated(t *testing.T, token []byte, class, tag, times int) []byte {
	t.Helper()
	var content struct {
		Type    asn1.ObjectIdentifier
		Content asn1.RawValue
	}
	if _, err := asn1.Unmarshal(token, &content); err != nil {
		t.Fatal(err)
	}
	var signed asn1.RawValue
	if _, err := asn1.Unmarshal(content.Content.Bytes, &signed); err != nil {
		t.Fatal(err)
	}
	var fields []byte
	for rest := signed.Bytes; len(rest) > 0; {
		var field asn1.RawValue
		var err error
		if rest, err = asn1.Unmarshal(rest, &field); err != nil {
			t.Fatal(err)
		}
		// The digest algorithms are a set as well, and come before the content.
		if field.Class == class && field.Tag == tag && (class != asn1.ClassUniversal || len(rest) == 0) {
			field.Bytes, field.FullBytes = bytes.Repeat(field.Bytes, times), nil
		}
		fields = append(fields, must[[]byte](t)(asn1.Marshal(field))...)
	}
	signed.Bytes, signed.FullBytes = fields, nil
	content.Content.Bytes, content.Content.FullBytes = must[[]byte](t)(asn1.Marshal(signed)), nil
	return must[[]byte](t)(asn1.Marshal(content))
}

func TestBounds(t *testing.T) {
	ca := newAuthority(t, authority.Options{})
	signer := issue(t, ca, authority.Leaf{})
	good := sign(t, signer, authority.Signing{})

	t.Run("a bomb is not fetched", func(t *testing.T) {
		artifact := artifactOf(t, good)
		artifact.Manifest.Layers[0].Size = 1 << 40
		artifact.Blob = func(context.Context, ocispec.Descriptor, int64) ([]byte, error) {
			t.Error("it is fetched")
			return nil, errors.New("it is fetched")
		}
		expect(t, judgedArtifact(t, trusting(ca), artifact), verify.Undecided, verify.ReasonTooLarge)
	})
	t.Run("the limit is handed on", func(t *testing.T) {
		artifact := artifactOf(t, good)
		blob := artifact.Blob
		artifact.Blob = func(ctx context.Context, layer ocispec.Descriptor, limit int64) ([]byte, error) {
			if limit != maxEnvelope {
				t.Errorf("the limit is %d", limit)
			}
			return blob(ctx, layer, limit)
		}
		expect(t, judgedArtifact(t, trusting(ca), artifact), verify.Passed, verify.ReasonVerified)
	})
	t.Run("unreachable", func(t *testing.T) {
		artifact := artifactOf(t, good)
		artifact.Blob = func(context.Context, ocispec.Descriptor, int64) ([]byte, error) {
			return nil, &verify.UndecidedError{Reason: verify.ReasonUnreachable, Err: errors.New("the store registry does not answer")}
		}
		expect(t, judgedArtifact(t, trusting(ca), artifact), verify.Undecided, verify.ReasonUnreachable, "the store registry does not answer")
	})
	t.Run("content that contradicts its descriptor", func(t *testing.T) {
		artifact := artifactOf(t, good)
		artifact.Manifest.Layers[0].Size++
		expect(t, judgedArtifact(t, trusting(ca), artifact), verify.Failed, verify.ReasonMalformed)
	})
	t.Run("layers", func(t *testing.T) {
		artifact := artifactOf(t, good)
		artifact.Manifest.Layers = append(artifact.Manifest.Layers, artifact.Manifest.Layers[0])
		expect(t, judgedArtifact(t, trusting(ca), artifact), verify.Failed, verify.ReasonMalformed, "2 layers")
		artifact.Manifest.Layers = nil
		expect(t, judgedArtifact(t, trusting(ca), artifact), verify.Failed, verify.ReasonMalformed, "0 layers")
	})
	t.Run("format", func(t *testing.T) {
		artifact := artifactOf(t, good)
		artifact.Manifest.Layers[0].MediaType = "application/pgp-signature"
		expect(t, judgedArtifact(t, trusting(ca), artifact), verify.Failed, verify.ReasonUnsupported, `"application/pgp-signature"`)
	})
	t.Run("a long chain", func(t *testing.T) {
		long := editedJWS(t, good, func(m map[string]any) {
			header := m["header"].(map[string]any)
			chain := header["x5c"].([]any)
			for len(chain) <= maxChain {
				chain = append(chain, chain[len(chain)-1])
			}
			header["x5c"] = chain
		})
		expect(t, judged(t, trusting(ca), long), verify.Undecided, verify.ReasonTooLarge, "certificates")
	})
	t.Run("a huge key", func(t *testing.T) {
		// The key is never used, so that it need not be made of primes.
		huge := must[[]byte](t)(x509.CreateCertificate(rand.Reader, ca.Intermediate, signer.Chain[0], hugeKey(t), signer.Key))
		signature := editedJWS(t, good, func(m map[string]any) {
			header := m["header"].(map[string]any)
			header["x5c"].([]any)[1] = base64.StdEncoding.EncodeToString(huge)
		})
		expect(t, judged(t, trusting(ca), signature), verify.Undecided, verify.ReasonTooLarge, "RSA key")
	})
}

func hugeKey(t *testing.T) *rsa.PublicKey {
	t.Helper()
	key := must[*rsa.PrivateKey](t)(rsa.GenerateKey(rand.Reader, 2048)).PublicKey
	for key.N.BitLen() <= maxRSABits {
		key.N.Mul(key.N, key.N)
	}
	return &key
}

func TestChainsThatMayNotSign(t *testing.T) {
	for name, test := range map[string]struct {
		options authority.Options
		leaf    authority.Leaf
		reason  verify.Reason
	}{
		"intermediate for servers only": {
			options: authority.Options{Edit: func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }},
			reason:  verify.ReasonUntrustedSigner,
		},
		"critical extension that is not known": {
			leaf: authority.Leaf{Edit: func(c *x509.Certificate) {
				c.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 2, 3}, Critical: true, Value: []byte{5, 0}}}
			}},
			reason: verify.ReasonUnsupported,
		},
	} {
		t.Run(name, func(t *testing.T) {
			ca := newAuthority(t, test.options)
			expect(t, judged(t, trusting(ca), sign(t, issue(t, ca, test.leaf), authority.Signing{})), verify.Failed, test.reason)
		})
	}
	t.Run("a chain that is none", func(t *testing.T) {
		ca := newAuthority(t, authority.Options{})
		good := sign(t, issue(t, ca, authority.Leaf{}), authority.Signing{})
		for _, keep := range [][]int{{0}, {0, 1}, {0, 2}, {0, 2, 1}} {
			cut := editedJWS(t, good, func(m map[string]any) {
				header := m["header"].(map[string]any)
				var chain []any
				for _, i := range keep {
					chain = append(chain, header["x5c"].([]any)[i])
				}
				header["x5c"] = chain
			})
			expect(t, judged(t, trusting(ca), cut), verify.Failed, verify.ReasonUntrustedSigner, "chain")
		}
	})
	t.Run("no chain", func(t *testing.T) {
		ca := newAuthority(t, authority.Options{})
		none := editedJWS(t, sign(t, issue(t, ca, authority.Leaf{}), authority.Signing{}), func(m map[string]any) { delete(m, "header") })
		expect(t, judged(t, trusting(ca), none), verify.Failed, verify.ReasonMalformed)
	})
}

func TestTrustInAnIntermediateIsEnough(t *testing.T) {
	ca := newAuthority(t, authority.Options{})
	config := trusting(ca)
	config.TrustStores[0].Certificates = [][]byte{authority.PEM(ca.Intermediate)}
	expect(t, judged(t, config, sign(t, issue(t, ca, authority.Leaf{}), authority.Signing{})), verify.Passed, verify.ReasonVerified)
}

func TestReadsOnlyNotation(t *testing.T) {
	verifier := must[*Verifier](t)(New(trusting(newAuthority(t, authority.Options{}))))
	for artifactType, reads := range map[string]bool{
		"application/vnd.cncf.notary.signature":           true,
		"application/vnd.dev.sigstore.bundle.v0.3+json":   false,
		"application/vnd.oci.image.config.v1+json":        false,
		"application/vnd.cncf.notary.signature.something": false,
		"": false,
	} {
		if verifier.Reads(&verify.Artifact{ArtifactType: artifactType}) != reads {
			t.Errorf("%q: read is not %v", artifactType, reads)
		}
	}
	if verifier.Name() != "signers" || verifier.Kind() != verify.Notation {
		t.Errorf("it is %s, %s", verifier.Name(), verifier.Kind())
	}
}

// What a manifest's annotations say is nobody's word: they change nothing.
func TestAnnotationsAreIgnored(t *testing.T) {
	ca := newAuthority(t, authority.Options{})
	artifact := artifactOf(t, sign(t, issue(t, ca, authority.Leaf{}), authority.Signing{}))
	before := judgedArtifact(t, trusting(ca), artifact)
	artifact.Manifest.Annotations = map[string]string{
		"io.cncf.notary.x509chain.thumbprint#S256": `["00"]`,
		"org.opencontainers.image.created":         "never",
	}
	if after := judgedArtifact(t, trusting(ca), artifact); after.Message != before.Message || after.Outcome != before.Outcome {
		t.Errorf("%v became %v", before, after)
	}
}
