package notation

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/notaryproject/notation-core-go/signature"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/gatehouse-dev/gatehouse/internal/verify"
	authority "github.com/gatehouse-dev/gatehouse/test/signatures/notation"
)

// fuzzed judges without the recovery that keeps Gatehouse alive, so that a panic
// is found, and holds every outcome to what must be true whatever was altered.
// The processes of the fuzzer have an authority each, so what vouches for an
// envelope is the root that it brings: then all steps are reached.
func fuzzed(t *testing.T, verifier *Verifier, artifact *verify.Artifact) {
	if layer, content, fault := fetch(t.Context(), pinned(t, app), artifact); fault == nil {
		if chain, fault := peek(layer.MediaType, content, nil); fault == nil {
			roots := chain[len(chain)-1:]
			trusting := *verifier
			trusting.anchors = map[signature.SigningScheme]anchors{
				signature.SigningSchemeX509:                 {certificates: roots},
				signature.SigningSchemeX509SigningAuthority: {certificates: roots},
			}
			if len(trusting.timestamps.certificates) > 0 {
				trusting.timestamps.certificates = roots
			}
			verifier = &trusting
		}
	}
	j := judgement{Verifier: verifier, subject: pinned(t, app), artifact: artifact}
	if fault := j.judge(t.Context()); fault != nil {
		if fault.outcome == verify.Passed || fault.message == "" || len(fault.message) > 1000 {
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
		attached, err := authority.Attach(app, format, envelope)
		if err != nil {
			t.Fatal(err)
		}
		fuzzed(t, plain, artifactOf(t, attached))
		fuzzed(t, stamped, artifactOf(t, attached))
	})
}

func FuzzJWS(f *testing.F) { fuzzEnvelopes(f, authority.JWS) }

func FuzzCOSE(f *testing.F) { fuzzEnvelopes(f, authority.COSE) }

func FuzzManifest(f *testing.F) {
	ca := newAuthority(f, authority.Options{})
	good := sign(f, issue(f, ca, authority.Leaf{}), authority.Signing{})
	f.Add(good.Manifest)
	f.Add([]byte(`{"layers":[{"mediaType":"application/cose","size":-1}],"subject":{"digest":"` + app.Digest.String() + `"},"annotations":{"io.cncf.notary.x509chain.thumbprint#S256":"[\"00\""}}`))
	verifier := must[*Verifier](f)(New(trusting(ca)))
	f.Fuzz(func(t *testing.T, encoded []byte) {
		artifact := artifactOf(t, good)
		artifact.Manifest = ocispec.Manifest{}
		if json.Unmarshal(encoded, &artifact.Manifest) != nil {
			return
		}
		fuzzed(t, verifier, artifact)
	})
}
