package verify_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/registry"
	"github.com/gatehouse-dev/gatehouse/internal/verify"
	"github.com/gatehouse-dev/gatehouse/internal/verify/policy"
	testregistry "github.com/gatehouse-dev/gatehouse/test/registry"
)

const (
	notationType = "application/vnd.cncf.notary.signature"
	bundleType   = "application/vnd.dev.sigstore.bundle.v0.3+json"
	signedType   = "text/signed"
)

// toy is a verifier of signatures that are written out: the layer says "SIGNER
// signs DIGEST". What the engine does is the same as with real ones, and what
// each signature comes to is plain to see.
type toy struct {
	name   string
	kind   verify.Kind
	trusts []string
}

func (v toy) Name() string      { return v.name }
func (v toy) Kind() verify.Kind { return v.kind }

func (v toy) Reads(a *verify.Artifact) bool {
	switch v.kind {
	case verify.Notation:
		return a.ArtifactType == notationType
	default:
		return a.Tagged || a.ArtifactType == bundleType
	}
}

func (v toy) Verify(ctx context.Context, subject image.Pinned, a *verify.Artifact) []verify.Finding {
	var findings []verify.Finding
	for _, layer := range a.Manifest.Layers {
		findings = append(findings, v.judge(ctx, subject, a, layer))
	}
	return findings
}

func (v toy) judge(ctx context.Context, subject image.Pinned, a *verify.Artifact, layer ocispec.Descriptor) verify.Finding {
	content, err := a.Blob(ctx, layer, 1<<10)
	var undecided *verify.UndecidedError
	if errors.As(err, &undecided) {
		return verify.Finding{Outcome: verify.Undecided, Reason: undecided.Reason, Message: undecided.Error()}
	}
	if err != nil {
		return verify.Finding{Outcome: verify.Failed, Reason: verify.ReasonMalformed, Message: err.Error()}
	}
	signer, of, signs := strings.Cut(string(content), " signs ")
	of, _, _ = strings.Cut(of, " ") // another signature by the same signer has more words
	switch {
	case signer == "broken":
		panic("a bug that a signature finds")
	case signer == "offline":
		return verify.Finding{Outcome: verify.Undecided, Reason: verify.ReasonRevocationUnknown, Message: "the responder did not answer"}
	case signer == "scan":
		return verify.Finding{Outcome: verify.Failed, Reason: verify.ReasonNotASignature, Message: "an attestation"}
	case !signs:
		return verify.Finding{Outcome: verify.Failed, Reason: verify.ReasonMalformed, Message: "no signature"}
	case of != subject.Digest().String():
		return verify.Finding{Outcome: verify.Failed, Reason: verify.ReasonOtherSubject, Identity: signer, Message: "signs " + of}
	case !slices.Contains(v.trusts, signer):
		return verify.Finding{Outcome: verify.Failed, Reason: verify.ReasonUntrustedSigner, Identity: signer, Message: "nobody knows " + signer}
	}
	return verify.Finding{Outcome: verify.Passed, Reason: verify.ReasonVerified, Signer: "person:" + signer, Identity: signer, Message: "good"}
}

// scene is one image in one registry, and who judges it.
type scene struct {
	*testing.T
	hub     *testregistry.Registry
	subject image.Pinned
	client  *registry.Client
}

const repository = "team/gateway"

func newScene(t *testing.T, options ...testregistry.Option) *scene {
	t.Helper()
	hub := testregistry.Start(t, options...)
	client := registry.New(registry.Options{Reach: registry.Reach{Loopback: true}})
	t.Cleanup(client.Close)
	return &scene{t, hub, pin(t, hub, hub.PushImage(t, repository, "1.0")), client}
}

func pin(t *testing.T, hub *testregistry.Registry, of image.Digest) image.Pinned {
	t.Helper()
	pinned, err := image.ParsePinned(hub.Host + "/" + repository + "@" + of.String())
	if err != nil {
		t.Fatal(err)
	}
	return pinned
}

// signature is the content of a toy signature.
func signature(signer string, of image.Digest, more ...string) []byte {
	return []byte(strings.Join(append([]string{signer + " signs " + of.String()}, more...), " "))
}

// refer pushes signatures, one layer each, as a referrer of the subject.
func (s *scene) refer(artifactType string, signatures ...[]byte) image.Digest {
	s.Helper()
	return s.hub.PushReferrer(s, repository, s.referrer(artifactType, len(signatures)), signatures...)
}

func (s *scene) referrer(artifactType string, layers int) ocispec.Manifest {
	m := ocispec.Manifest{
		ArtifactType: artifactType,
		Subject:      &ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.Digest(s.subject.Digest().String()), Size: 1},
	}
	for range layers {
		m.Layers = append(m.Layers, ocispec.Descriptor{MediaType: signedType})
	}
	return m
}

// tag pushes signatures under cosign's tag of the subject.
func (s *scene) tag(signatures ...[]byte) image.Digest {
	s.Helper()
	tag := strings.Replace(s.subject.Digest().String(), ":", "-", 1) + ".sig"
	m := ocispec.Manifest{}
	m.Config.MediaType = ocispec.MediaTypeImageConfig
	return s.hub.PushTagged(s, repository, tag, m, signatures...)
}

func (s *scene) store(options ...registry.SessionOptions) verify.Store {
	var session registry.SessionOptions
	for _, o := range options {
		session = o
	}
	if session.Timeout == 0 {
		session.Timeout = time.Minute // the machine may be slow
	}
	return verify.RegistryStore("registry", s.client, registry.Access{PlainHTTP: true}, session)
}

func (s *scene) engine(config verify.Config) *verify.Engine {
	s.Helper()
	if config.Name == "" {
		config.Name = "production"
	}
	if config.Stores == nil {
		config.Stores = []verify.Store{s.store()}
	}
	if config.Limits.Deadline == 0 {
		config.Limits.Deadline = 2 * time.Minute
	}
	engine, err := verify.New(config)
	if err != nil {
		s.Fatal(err)
	}
	return engine
}

// verify judges the subject, from a registry that has not been asked before.
func (s *scene) verify(config verify.Config) verify.Report {
	s.Helper()
	engine := s.engine(config)
	s.hub.Forget()
	return engine.Verify(s.Context(), s.subject)
}

// by is a configuration of verifiers alone.
func by(verifiers ...verify.Verifier) verify.Config { return verify.Config{Verifiers: verifiers} }

// under is one with a policy.
func under(groups []policy.Group, verifiers ...verify.Verifier) verify.Config {
	return verify.Config{Verifiers: verifiers, Policy: groups}
}

func releaseSigners(trusts ...string) verify.Verifier {
	return toy{"release-signers", verify.Notation, trusts}
}

func builders(trusts ...string) verify.Verifier { return toy{"builders", verify.Cosign, trusts} }

func (s *scene) want(got verify.Report, outcome verify.Outcome, decision string) {
	s.Helper()
	if got.Outcome != outcome || got.Decision != decision {
		s.Errorf("got %s: %s\nwant %s: %s\n%+v", got.Outcome, got.Decision, outcome, decision, got.ArtifactReports)
	}
}

// asked is what the registry was asked, shortened to what matters.
func (s *scene) asked() []string {
	var asked []string
	for _, r := range s.hub.Requests() {
		path := strings.TrimPrefix(r.Path, "/v2/"+repository+"/")
		path = strings.ReplaceAll(path, s.subject.Digest().String(), "SUBJECT")
		path = strings.ReplaceAll(path, strings.Replace(s.subject.Digest().String(), ":", "-", 1), "SUBJECT-TAG")
		if part, of, ok := strings.Cut(path, "/sha256:"); ok {
			path = fmt.Sprintf("%s/%.6s", part, of)
		}
		asked = append(asked, path)
	}
	return asked
}
