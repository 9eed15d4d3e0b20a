package verify_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/registry"
	"github.com/gatehouse-dev/gatehouse/internal/verify"
	testregistry "github.com/gatehouse-dev/gatehouse/test/registry"
)

// Each attack on the way from a registry to a verifier has a good signature
// within reach of somebody who believes what he is told.
func TestNothingIsTakenFromWhatIsClaimed(t *testing.T) {
	of := func(s *scene, what image.Digest) *ocispec.Descriptor {
		return &ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.Digest(what.String()), Size: 1}
	}
	for name, row := range map[string]struct {
		given    func(s *scene)
		config   verify.Config
		options  []testregistry.Option
		outcome  verify.Outcome
		decision string
	}{
		"an index lists another image's referrer": {
			func(s *scene) {
				m := s.referrer(notationType, 1)
				m.Subject = of(s, another)
				pushed := s.hub.PushReferrer(s, repository, m, signature("ann", s.subject.Digest()))
				s.hub.PushIndexOf(s, repository, registry.ReferrersTag(s.subject.Digest()), ocispec.Index{
					Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex,
					Manifests: []ocispec.Descriptor{{MediaType: ocispec.MediaTypeImageManifest, ArtifactType: notationType, Digest: digest.Digest(pushed.String()), Size: 1}},
				})
			},
			by(releaseSigners("ann")), []testregistry.Option{testregistry.WithoutReferrers()},
			verify.Failed, "no signature by release-signers; 1 signature found: one over another digest",
		},
		"a referrer that names no subject": {
			func(s *scene) {
				m := s.referrer(notationType, 1)
				s.hub.Doctor(func(index *ocispec.Index) {
					m.Subject = nil
					index.Manifests = []ocispec.Descriptor{*s.hub.Subject(s, repository, s.hub.PushTagged(s, repository, "loose", m, signature("ann", s.subject.Digest())))}
				})
			},
			by(releaseSigners("ann")), nil,
			verify.Failed, "no signature by release-signers; 1 signature found: one over another digest",
		},
		"another image's signature under this one's tag": {
			func(s *scene) { s.tag(signature("bob", another)) }, by(builders("bob")), nil,
			verify.Failed, "no signature by builders; 1 signature found: one over another digest",
		},
		"an index claims that an SBOM is a signature": {
			func(s *scene) {
				s.refer("application/spdx+json", signature("ann", s.subject.Digest()))
				s.claim(notationType)
			},
			by(releaseSigners("ann")), nil,
			verify.Failed, "no signature by release-signers; no signature found",
		},
		"an index claims that a signature is an SBOM": {
			func(s *scene) {
				s.refer(notationType, signature("ann", s.subject.Digest()))
				s.claim("application/spdx+json")
			},
			by(releaseSigners("ann")), nil,
			verify.Passed, "signed by release-signers (ann)",
		},
		"an index claims nothing": {
			func(s *scene) {
				s.refer(notationType, signature("ann", s.subject.Digest()))
				s.hub.Doctor(func(index *ocispec.Index) {
					for i := range index.Manifests {
						index.Manifests[i] = ocispec.Descriptor{Digest: index.Manifests[i].Digest}
					}
				})
			},
			by(releaseSigners("ann")), nil,
			verify.Passed, "signed by release-signers (ann)",
		},
		"an index lists what is gone": {
			func(s *scene) {
				s.hub.Doctor(func(index *ocispec.Index) {
					index.Manifests = append(index.Manifests, ocispec.Descriptor{ArtifactType: notationType, Digest: digest.FromString("gone"), Size: 4})
				})
			},
			by(releaseSigners("ann")), nil,
			verify.Failed, "no signature by release-signers; no signature found",
		},
		"a manifest with a key twice": {
			func(s *scene) {
				sound, err := json.Marshal(s.referrer(notationType, 0))
				if err != nil {
					s.Fatal(err)
				}
				twice := strings.Replace(string(sound), `"layers":null`, `"layers":[],"layers":[]`, 1)
				twice = strings.Replace(twice, `"schemaVersion":0`, `"schemaVersion":2`, 1)
				pushed := s.hub.PushManifest(s, repository, "twice", ocispec.MediaTypeImageManifest, twice)
				s.hub.Doctor(func(index *ocispec.Index) {
					index.Manifests = []ocispec.Descriptor{{ArtifactType: notationType, Digest: digest.Digest(pushed.String())}}
				})
			},
			by(releaseSigners("ann")), nil,
			verify.Failed, "no signature by release-signers; 1 signature found: one malformed",
		},
		"an index under cosign's tag": {
			func(s *scene) {
				s.hub.PushIndexOf(s, repository, strings.Replace(s.subject.Digest().String(), ":", "-", 1)+".sig", ocispec.Index{
					Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{},
				})
			},
			by(builders("bob")), nil,
			verify.Failed, "no signature by builders; 1 signature found: one malformed",
		},
		"a signature's content is another": {
			func(s *scene) {
				s.refer(notationType, signature("mallory", s.subject.Digest()))
				s.hub.BreakPath("/blobs/", testregistry.Forge(string(signature("ann", s.subject.Digest()))))
			},
			by(releaseSigners("ann")), nil,
			verify.Undecided, "cannot decide: verifier release-signers: registry HOST: sent a blob that does not match its digest",
		},
		"a signature's manifest is another": {
			func(s *scene) {
				s.refer(notationType, signature("mallory", s.subject.Digest()))
				s.hub.BreakPath("/manifests/", testregistry.Forge(`{"schemaVersion":2}`))
			},
			by(releaseSigners("ann")), nil,
			verify.Undecided, "cannot decide: registry HOST: sent a manifest that does not match its digest",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, row.options...)
			row.given(s)
			s.want(s.verify(row.config), row.outcome, strings.ReplaceAll(row.decision, "HOST", s.hub.Host))
		})
	}
}

// claim lets the registry say of every referrer that it is of a type.
func (s *scene) claim(artifactType string) {
	s.hub.Doctor(func(index *ocispec.Index) {
		for i := range index.Manifests {
			index.Manifests[i].ArtifactType = artifactType
		}
	})
}

// An index's signature is the index's own: whoever runs a child by its digest asks
// about the child.
func TestASignatureCoversTheIndexAndNotItsChildren(t *testing.T) {
	s := newScene(t)
	indexed := s.hub.PushIndex(t, repository, "multi")
	var index ocispec.Index
	if err := json.Unmarshal(s.hub.Content(t, repository, indexed), &index); err != nil {
		t.Fatal(err)
	}
	child, err := image.ParseDigest(string(index.Manifests[0].Digest))
	if err != nil {
		t.Fatal(err)
	}
	s.subject = pin(t, s.hub, indexed)
	s.refer(notationType, signature("ann", indexed))
	s.want(s.verify(by(releaseSigners("ann"))), verify.Passed, "signed by release-signers (ann)")
	s.subject = pin(t, s.hub, child)
	s.want(s.verify(by(releaseSigners("ann"))), verify.Failed, "no signature by release-signers; no signature found")
}

// Whoever meets a bound has not decided, unless what was seen before decides.
func TestBoundsLeaveItUndecided(t *testing.T) {
	many := func(s *scene, n int, artifactType, signer string) {
		for i := range n {
			s.refer(artifactType, signature(signer, s.subject.Digest(), fmt.Sprint(i)))
		}
	}
	for name, row := range map[string]struct {
		given    func(s *scene)
		limits   verify.Limits
		session  registry.SessionOptions
		decision string // after "cannot decide: "
	}{
		"artifacts": {
			func(s *scene) { many(s, 6, notationType, "mallory") }, verify.Limits{MaxArtifacts: 5}, registry.SessionOptions{},
			"store registry: more than 5 artifacts with signatures",
		},
		"manifests": {
			func(s *scene) { many(s, 6, "application/spdx+json", "mallory") }, verify.Limits{MaxManifests: 5}, registry.SessionOptions{},
			"store registry: more than 5 referrers",
		},
		"signatures": {
			func(s *scene) {
				var all [][]byte
				for i := range 6 {
					all = append(all, signature("mallory", s.subject.Digest(), fmt.Sprint(i)))
				}
				s.refer(notationType, all...)
			},
			verify.Limits{MaxSignatures: 5}, registry.SessionOptions{},
			"store registry: more than 5 signatures",
		},
		"signatures of one artifact": {
			func(s *scene) {
				var all [][]byte
				for i := range verify.MaxFindings + 1 {
					all = append(all, signature("mallory", s.subject.Digest(), fmt.Sprint(i)))
				}
				s.refer(notationType, all...)
			},
			verify.Limits{}, registry.SessionOptions{},
			"verifier release-signers: it holds more than 32 signatures",
		},
		"10,000 referrers": {
			func(s *scene) {
				s.hub.Doctor(func(index *ocispec.Index) {
					for i := range 10_000 {
						index.Manifests = append(index.Manifests, ocispec.Descriptor{ArtifactType: notationType, Digest: digest.FromString(fmt.Sprint(i))})
					}
				})
			},
			verify.Limits{}, registry.SessionOptions{},
			"store registry: more than 200 referrers",
		},
		"requests": {
			func(s *scene) { many(s, 3, notationType, "mallory") }, verify.Limits{Concurrency: 1}, registry.SessionOptions{MaxRequests: 3},
			"registry HOST: not asked more than 3 questions about one image",
		},
		"a signature of a gigabyte": {
			func(s *scene) {
				m := s.referrer(notationType, 1)
				m.Layers[0].Digest, m.Layers[0].Size = digest.FromString("huge"), 1<<30
				s.hub.PushReferrer(s, repository, m)
			},
			verify.Limits{}, registry.SessionOptions{},
			"verifier release-signers: a blob of 1073741824 bytes is larger than the 1024 that are read",
		},
		"a signature that drips": {
			func(s *scene) {
				many(s, 1, notationType, "mallory")
				s.hub.BreakPath("/blobs/", testregistry.Drip(time.Second))
			},
			verify.Limits{}, registry.SessionOptions{Timeout: 3 * time.Second},
			"verifier release-signers: registry HOST: did not answer within its deadline",
		},
		"a registry that hangs": {
			func(s *scene) { s.hub.Break(testregistry.Hang()) }, verify.Limits{Deadline: 300 * time.Millisecond}, registry.SessionOptions{},
			"store registry: not all of it was looked at in the time there was",
		},
		"a list that is cut": {
			func(s *scene) { s.hub.BreakPath("/referrers/", testregistry.Cut()) }, verify.Limits{}, registry.SessionOptions{},
			"registry HOST: broke off before the end of its answer",
		},
		"a registry that is down": {
			func(s *scene) { s.hub.Down() }, verify.Limits{}, registry.SessionOptions{},
			"registry HOST: connection refused",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			row.given(s)
			config := verify.Config{Verifiers: []verify.Verifier{releaseSigners("ann")}, Limits: row.limits, Stores: []verify.Store{s.store(row.session)}}
			s.want(s.verify(config), verify.Undecided, "cannot decide: "+strings.ReplaceAll(row.decision, "HOST", s.hub.Host))
		})
	}
}

// What was seen before a bound was met decides, if it does.
func TestAPassBeforeABoundIsAPass(t *testing.T) {
	s := newScene(t)
	s.refer(notationType, signature("ann", s.subject.Digest()))
	s.hub.Doctor(func(index *ocispec.Index) {
		for i := range 10_000 {
			index.Manifests = append(index.Manifests, ocispec.Descriptor{ArtifactType: "application/spdx+json", Digest: digest.FromString(fmt.Sprint(i))})
		}
	})
	s.want(s.verify(by(releaseSigners("ann"))), verify.Passed, "signed by release-signers (ann)")
	if n := len(s.asked()); n != 3 {
		t.Errorf("%d requests, want 3: what is less likely is not fetched before the likelier was judged: %v", n, s.asked())
	}
}
