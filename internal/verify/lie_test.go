package verify_test

import (
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/verify"
	testregistry "github.com/gatehouse-dev/gatehouse/test/registry"
)

// An image that is signed, at a registry that lies: an honest one would have let it
// pass, so nothing is known of it, and it neither passes nor fails.
func TestALyingRegistryDecidesNothing(t *testing.T) {
	lies := map[string]struct {
		path  string
		fault testregistry.Fault
	}{
		"another digest of everything":           {"", testregistry.LieAboutDigest(image.DigestOf([]byte("another")))},
		"another digest of manifests":            {"/manifests/", testregistry.LieAboutDigest(image.DigestOf([]byte("another")))},
		"a digest that is none":                  {"", testregistry.AnswerHeaders(map[string]string{"Docker-Content-Digest": "sha256:short"}, "{}")},
		"other bytes of everything":              {"", testregistry.Forge("nonsense")},
		"other bytes of manifests":               {"/manifests/", testregistry.Forge(`{"schemaVersion":2}`)},
		"other bytes of what is signed":          {"/blobs/", testregistry.Forge("nonsense")},
		"a part of what is signed":               {"/blobs/", testregistry.Forge("{")},
		"more than what is signed":               {"/blobs/", testregistry.Forge(strings.Repeat("{", 8<<10))},
		"that every manifest is an index":        {"/manifests/", testregistry.LieAboutType(ocispec.MediaTypeImageIndex)},
		"that every manifest is a picture":       {"/manifests/", testregistry.LieAboutType("image/png")},
		"that it cannot find out about anything": {"", testregistry.Answer(500)},
	}
	for name, lie := range lies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCompany(t)
			c.notate(c.subject, c.subject)
			c.cosign(c.subject, c.subject)
			for _, verifier := range c.config().Verifiers {
				if got := c.verify(by(verifier)); got.Outcome != verify.Passed {
					t.Fatalf("%s, of an honest registry: %s", verifier.Name(), got.Decision)
				}
				c.hub.BreakPath(lie.path, lie.fault)
				if got := c.verify(by(verifier)); got.Outcome != verify.Undecided {
					t.Errorf("%s: %s (%s), want cannot decide", verifier.Name(), got.Outcome, got.Decision)
				}
				c.hub.Heal()
			}
		})
	}
}

// What no registry could have made a signature of is decided: whoever wrote it down is
// at fault.
func TestAWrongDescriptorIsNoSignature(t *testing.T) {
	for name, spoil := range map[string]func(*ocispec.Descriptor){
		"a size that is less":    func(d *ocispec.Descriptor) { d.Size-- },
		"a size that is more":    func(d *ocispec.Descriptor) { d.Size++ },
		"a size below nothing":   func(d *ocispec.Descriptor) { d.Size = -1 },
		"a digest that is none":  func(d *ocispec.Descriptor) { d.Digest = "sha256:../../secret" },
		"content that is absent": func(d *ocispec.Descriptor) { d.Digest = digest.FromString("gone") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			content := signature("ann", s.subject.Digest())
			m := s.referrer(notationType, 1)
			m.Layers[0] = s.hub.PushBlob(s, repository, signedType, content)
			spoil(&m.Layers[0])
			s.hub.PushReferrer(s, repository, m)
			s.want(s.verify(by(releaseSigners("ann"))), verify.Failed, "no signature by release-signers; 1 signature found: one malformed")
		})
	}
}
