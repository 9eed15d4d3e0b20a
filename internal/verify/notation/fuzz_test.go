package notation

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/gatehouse-dev/gatehouse/internal/verify"
	authority "github.com/gatehouse-dev/gatehouse/test/signatures/notation"
)

// fuzzed judges without the recovery that keeps Gatehouse alive, so that a panic
// is found, and holds every outcome to what must be true whatever was altered.
func fuzzed(t *testing.T, verifier *Verifier, artifact *verify.Artifact) {
	j := judgement{Verifier: verifier, subject: pinned(t, app), artifact: artifact}
	if fault := j.judge(t.Context()); fault != nil {
		if fault.outcome == verify.Passed || fault.message == "" || len(fault.message) > 2000 {
			t.Errorf("the fault is %+v", fault)
		}
		return
	}
	if j.signer != "x509:CN=release,O=Example,ST=WA,C=US" {
		t.Errorf("signed by %s", j.signer)
	}
}

func fuzzEnvelopes(f *testing.F, format string) {
	ca := newAuthority(f, authority.Options{})
	signer := issue(f, ca, authority.Leaf{})
	stamper := must[*authority.Timestamper](f)(ca.Timestamper(time.Now()))
	other := app
	other.Digest = digest.FromString("another image")
	for _, signing := range []authority.Signing{
		{}, {Timestamps: stamper}, {SigningAuthority: true}, {Attributes: map[string]string{"x": "y"}},
	} {
		signing.Format = format
		f.Add(sign(f, signer, signing).Envelope)
	}
	f.Add(must[*authority.Signature](f)(signer.Sign(other, authority.Signing{Format: format})).Envelope)
	f.Add(sign(f, issue(f, newAuthority(f, authority.Options{}), authority.Leaf{}), authority.Signing{Format: format}).Envelope)
	plain := must[*Verifier](f)(New(trusting(ca)))
	stamped := must[*Verifier](f)(New(stampedBy(trusting(ca), ca)))
	f.Fuzz(func(t *testing.T, envelope []byte) {
		signature, err := authority.Attach(app, format, envelope)
		if err != nil {
			t.Fatal(err)
		}
		fuzzed(t, plain, artifactOf(t, signature))
		fuzzed(t, stamped, artifactOf(t, signature))
	})
}

func FuzzJWS(f *testing.F) { fuzzEnvelopes(f, authority.JWS) }

func FuzzCOSE(f *testing.F) { fuzzEnvelopes(f, authority.COSE) }

func FuzzManifest(f *testing.F) {
	ca := newAuthority(f, authority.Options{})
	signature := sign(f, issue(f, ca, authority.Leaf{}), authority.Signing{})
	f.Add(signature.Manifest)
	f.Add([]byte(`{"layers":[{"mediaType":"application/cose","size":-1}],"subject":{"digest":"` + app.Digest.String() + `"},"annotations":{"io.cncf.notary.x509chain.thumbprint#S256":"[\"00\""}}`))
	verifier := must[*Verifier](f)(New(trusting(ca)))
	f.Fuzz(func(t *testing.T, encoded []byte) {
		artifact := artifactOf(t, signature)
		artifact.Manifest = ocispec.Manifest{}
		if json.Unmarshal(encoded, &artifact.Manifest) != nil {
			return
		}
		fuzzed(t, verifier, artifact)
	})
}
