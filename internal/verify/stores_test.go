package verify_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/gatehouse-dev/gatehouse/internal/registry"
	"github.com/gatehouse-dev/gatehouse/internal/verify"
	testregistry "github.com/gatehouse-dev/gatehouse/test/registry"
)

// mirror writes an OCI layout with signatures of the subject, as referrers.
func (s *scene) mirror(signatures ...[]byte) verify.Store {
	s.Helper()
	root := s.TempDir()
	blobs := filepath.Join(root, "mirror", "blobs", "sha256")
	if err := os.MkdirAll(blobs, 0o755); err != nil {
		s.Fatal(err)
	}
	write := func(content []byte) ocispec.Descriptor {
		of := digest.FromBytes(content)
		if err := os.WriteFile(filepath.Join(blobs, of.Encoded()), content, 0o644); err != nil {
			s.Fatal(err)
		}
		return ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: of, Size: int64(len(content))}
	}
	encode := func(v any) []byte {
		body, err := json.Marshal(v)
		if err != nil {
			s.Fatal(err)
		}
		return body
	}
	index := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}}
	for _, signature := range signatures {
		m := s.referrer(notationType, 0)
		m.Versioned = specs.Versioned{SchemaVersion: 2}
		m.MediaType = ocispec.MediaTypeImageManifest
		m.Layers = []ocispec.Descriptor{write(signature)}
		index.Manifests = append(index.Manifests, write(encode(m)))
	}
	if err := os.WriteFile(filepath.Join(root, "mirror", "index.json"), encode(index), 0o644); err != nil {
		s.Fatal(err)
	}
	layout, err := registry.OpenLayout(root, "mirror")
	if err != nil {
		s.Fatal(err)
	}
	return verify.LayoutStore("mirror", layout, registry.SessionOptions{})
}

// Stores are asked in order until the policy is satisfied; what they hold counts
// together.
func TestStoresAreAskedInOrder(t *testing.T) {
	down := func(s *scene) verify.Store {
		return verify.UnusableStore("mirror", errors.New("the mirror is away"))
	}
	for name, row := range map[string]struct {
		registry func(s *scene)
		mirror   func(s *scene) verify.Store
		config   verify.Config
		asked    bool // whether the registry is
		outcome  verify.Outcome
		decision string
	}{
		"the first one is enough": {
			func(*scene) {}, func(s *scene) verify.Store { return s.mirror(signature("ann", s.subject.Digest())) }, by(releaseSigners("ann")), false,
			verify.Passed, "signed by release-signers (ann)",
		},
		"the first one has none": {
			func(s *scene) { s.refer(notationType, signature("ann", s.subject.Digest())) },
			func(s *scene) verify.Store { return s.mirror() }, by(releaseSigners("ann")), true,
			verify.Passed, "signed by release-signers (ann)",
		},
		"the first one has a bad one": {
			func(s *scene) { s.refer(notationType, signature("ann", s.subject.Digest())) },
			func(s *scene) verify.Store { return s.mirror(signature("mallory", s.subject.Digest())) }, by(releaseSigners("ann")), true,
			verify.Passed, "signed by release-signers (ann)",
		},
		"neither has a good one": {
			func(s *scene) { s.refer(notationType, signature("ann", another)) },
			func(s *scene) verify.Store { return s.mirror(signature("mallory", s.subject.Digest())) }, by(releaseSigners("ann")), true,
			verify.Failed, "no signature by release-signers; 2 signatures found: one over another digest, one by an untrusted CA",
		},
		"each has a half": {
			func(s *scene) { s.tag(signature("bob", s.subject.Digest())) },
			func(s *scene) verify.Store { return s.mirror(signature("ann", s.subject.Digest())) }, by(releaseSigners("ann"), builders("bob")), true,
			verify.Passed, "signed by release-signers (ann), builders (bob)",
		},
		"the first one is away, the second has it": {
			func(s *scene) { s.refer(notationType, signature("ann", s.subject.Digest())) }, down, by(releaseSigners("ann")), true,
			verify.Passed, "signed by release-signers (ann)",
		},
		"the first one is away, the second has none": {
			func(*scene) {}, down, by(releaseSigners("ann")), true,
			verify.Undecided, "cannot decide: the mirror is away",
		},
		"both have the same one": {
			func(s *scene) { s.refer(notationType, signature("mallory", s.subject.Digest())) },
			func(s *scene) verify.Store { return s.mirror(signature("mallory", s.subject.Digest())) }, by(releaseSigners("ann")), true,
			verify.Failed, "no signature by release-signers; 2 signatures found: 2 by an untrusted CA",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			row.registry(s)
			row.config.Stores = []verify.Store{row.mirror(s), s.store()}
			got := s.verify(row.config)
			s.want(got, row.outcome, row.decision)
			if asked := len(s.asked()) > 0; asked != row.asked {
				t.Errorf("the registry was asked %v", s.asked())
			}
			if want := 1 + map[bool]int{true: 1}[row.asked]; len(got.Stores) != want {
				t.Errorf("stores %+v, want %d", got.Stores, want)
			}
		})
	}
}

// What could not be fetched from one store may be fetched from the next.
func TestALaterStoreMakesUpForAnEarlierOne(t *testing.T) {
	s := newScene(t)
	s.refer(notationType, signature("mallory", s.subject.Digest()))
	s.hub.BreakPath("/blobs/", testregistry.Answer(503))
	stores := []verify.Store{s.store(), s.mirror(signature("ann", s.subject.Digest()))}
	s.want(s.verify(verify.Config{Verifiers: []verify.Verifier{releaseSigners("ann")}, Stores: stores}), verify.Passed, "signed by release-signers (ann)")
}

func TestAnEngineThatCannotDecideIsRefused(t *testing.T) {
	s := newScene(t)
	for name, row := range map[string]struct {
		config verify.Config
		want   string
	}{
		"no store":        {verify.Config{Stores: []verify.Store{}, Verifiers: []verify.Verifier{releaseSigners()}}, "no store is given; name a place in which signatures are found"},
		"a store twice":   {verify.Config{Stores: []verify.Store{s.store(), s.store()}, Verifiers: []verify.Verifier{releaseSigners()}}, "store registry: the name is given twice"},
		"no verifier":     {verify.Config{Stores: []verify.Store{s.store()}}, "policy: no verifier is given; a policy decides by what verifiers say"},
		"an unknown mode": {verify.Config{Stores: []verify.Store{s.store()}, Verifiers: []verify.Verifier{releaseSigners()}, Mode: "Warn"}, `mode is "Warn"; write Enforce or Audit`},
		"an unknown kind": {verify.Config{Stores: []verify.Store{s.store()}, Verifiers: []verify.Verifier{toy{"x", "pgp", nil}}}, `verifier x: nothing is known of signatures of kind "pgp"`},
	} {
		if _, err := verify.New(row.config); err == nil || err.Error() != row.want {
			t.Errorf("%s: got %v, want %s", name, err, row.want)
		}
	}
}
