package verify_test

import (
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/verify"
	"github.com/gatehouse-dev/gatehouse/internal/verify/cosign"
	"github.com/gatehouse-dev/gatehouse/internal/verify/notation"
	"github.com/gatehouse-dev/gatehouse/internal/verify/policy"
	"github.com/gatehouse-dev/gatehouse/test/distribution"
	testregistry "github.com/gatehouse-dev/gatehouse/test/registry"
	madecosign "github.com/gatehouse-dev/gatehouse/test/signatures/cosign"
	madenotation "github.com/gatehouse-dev/gatehouse/test/signatures/notation"
)

func must[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// company is a registry and who signs in it, with real signatures.
type company struct {
	*scene
	authority *madenotation.Authority
	release   *madenotation.Signer
	build     *madecosign.Signer
}

func newCompany(t *testing.T, options ...testregistry.Option) *company {
	t.Helper()
	c := &company{scene: newScene(t, options...)}
	c.authority = must[*madenotation.Authority](t)(madenotation.New(madenotation.Options{}))
	c.release = must[*madenotation.Signer](t)(c.authority.Issue(madenotation.Leaf{}))
	c.build = &madecosign.Signer{Key: must[*madecosign.Key](t)(madecosign.NewKey(madecosign.ECDSAP256))}
	return c
}

func (c *company) config() verify.Config {
	return verify.Config{
		Verifiers: []verify.Verifier{
			must[*notation.Verifier](c.T)(notation.New(notation.Config{
				Name:              "release-signers",
				Revocation:        notation.Skip,
				TrustedIdentities: []string{"x509.subject: CN=release,O=Example,ST=WA,C=US"},
				TrustStores:       []notation.TrustStore{{Name: "corp", Type: notation.CA, Certificates: [][]byte{c.authority.PEM()}}},
			})),
			must[*cosign.Verifier](c.T)(cosign.New(cosign.Config{
				Name: "builders", Keys: []cosign.Key{{Name: "k1", PEM: c.build.Key.PublicPEM()}},
				TransparencyLog: cosign.Ignored, Timestamps: cosign.Ignored,
			})),
		},
		Policy: []policy.Group{{Name: "both", Min: 2, Of: []string{"release-signers", "builders"}}},
	}
}

// notate signs an image as the Notary Project does, and refers to subject.
func (c *company) notate(what, subject image.Pinned) {
	c.Helper()
	signed := must[*madenotation.Signature](c.T)(c.release.Sign(*c.hub.Subject(c, repository, what.Digest()), madenotation.Signing{}))
	if what != subject {
		signed = must[*madenotation.Signature](c.T)(madenotation.Attach(*c.hub.Subject(c, repository, subject.Digest()), madenotation.JWS, signed.Envelope))
	}
	var blobs [][]byte
	for _, blob := range signed.Blobs() {
		blobs = append(blobs, blob)
	}
	c.hub.PushArtifact(c, repository, "", ocispec.MediaTypeImageManifest, signed.Manifest, blobs...)
}

// cosign signs an image as cosign does, under the tag of subject.
func (c *company) cosign(what, subject image.Pinned) {
	c.Helper()
	signature := must[*madecosign.Signature](c.T)(c.build.Sign(madecosign.Payload(what.Repository(), what.Digest())))
	artifact := madecosign.Tagged(subject.Digest(), signature)
	var blobs [][]byte
	for _, blob := range artifact.Blobs {
		blobs = append(blobs, blob.Content)
	}
	c.hub.PushArtifact(c, repository, artifact.Tag, artifact.MediaType, artifact.Manifest, blobs...)
}

// Real signatures, by the libraries that people sign with, in registries with and
// without the referrers API: ours, and the one of the distribution project.
func TestRealSignaturesInRealRegistries(t *testing.T) {
	for name, options := range map[string][]testregistry.Option{
		"with the referrers API":      nil,
		"without it":                  {testregistry.WithoutReferrers()},
		"of the distribution project": {testregistry.WithContent(distribution.New(t))},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCompany(t, options...)
			signed := c.subject
			c.notate(signed, signed)
			c.cosign(signed, signed)
			got := c.verify(c.config())
			c.want(got, verify.Passed, "signed by release-signers (x509:CN=release,O=Example,ST=WA,C=US), builders (key k1)")

			// The signatures of one image, moved to another.
			c.subject = pin(t, c.hub, c.hub.PushImage(t, repository, "2.0"))
			c.want(c.verify(c.config()), verify.Failed, "policy both: 2 of release-signers, builders: no signature by release-signers, builders; no signature found")
			c.notate(signed, c.subject)
			c.cosign(signed, c.subject)
			c.want(c.verify(c.config()), verify.Failed, "policy both: 2 of release-signers, builders: no signature by release-signers (1 found: one over another digest), builders (1 found: one over another digest)")
		})
	}
}

// Real verifiers cost no request more than the engine's own.
func TestARealVerificationIsAtItsFloor(t *testing.T) {
	c := newCompany(t)
	c.notate(c.subject, c.subject)
	c.cosign(c.subject, c.subject)
	if got := c.verify(c.config()); !got.Satisfies() {
		t.Fatal(got.Decision)
	}
	if n := len(c.asked()); n != 5 { // the list, two manifests, two contents
		t.Errorf("%d requests, want 5: %v", n, c.asked())
	}
}
