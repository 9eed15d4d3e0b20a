package notation

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/verify"
	authority "github.com/gatehouse-dev/gatehouse/test/signatures/notation"
)

var (
	formats = map[string]string{"JWS": authority.JWS, "COSE": authority.COSE}

	app = ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromString("the app"), Size: 1234}

	release = "x509.subject: CN=release,O=Example,ST=WA,C=US"
)

func must[T any](t testing.TB) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func pinned(t testing.TB, described ocispec.Descriptor) image.Pinned {
	t.Helper()
	return must[image.Pinned](t)(image.ParsePinned("registry.example.com/team/app@" + described.Digest.String()))
}

// newAuthority is an authority, with what it answers served where options ask.
func newAuthority(t testing.TB, options authority.Options) *authority.Authority {
	t.Helper()
	return must[*authority.Authority](t)(authority.New(options))
}

func issue(t testing.TB, ca *authority.Authority, leaf authority.Leaf) *authority.Signer {
	t.Helper()
	return must[*authority.Signer](t)(ca.Issue(leaf))
}

func sign(t testing.TB, signer *authority.Signer, signing authority.Signing) *authority.Signature {
	t.Helper()
	return must[*authority.Signature](t)(signer.Sign(app, signing))
}

// trusting is a configuration that trusts the release signer of an authority.
func trusting(ca *authority.Authority) Config {
	return Config{
		Name:              "signers",
		Revocation:        Skip,
		TrustedIdentities: []string{release},
		TrustStores:       []TrustStore{{Name: "corp", Type: CA, Certificates: [][]byte{ca.PEM()}}},
	}
}

func stampedBy(config Config, ca *authority.Authority) Config {
	config.TrustStores = append(config.TrustStores, TrustStore{Name: "time", Type: TSA, Certificates: [][]byte{ca.PEM()}})
	return config
}

func at(config Config, now time.Time) Config {
	config.Clock = clocktesting.NewFakePassiveClock(now)
	return config
}

// artifactOf is what the engine makes of a signature that it found.
func artifactOf(t testing.TB, signature *authority.Signature) *verify.Artifact {
	t.Helper()
	artifact := &verify.Artifact{
		Store:  "registry",
		Digest: image.DigestOf(signature.Manifest),
		Blob: func(_ context.Context, layer ocispec.Descriptor, limit int64) ([]byte, error) {
			content, found := signature.Blobs()[layer.Digest]
			if !found || int64(len(content)) != layer.Size {
				return nil, errors.New("the content contradicts its descriptor")
			}
			if layer.Size > limit {
				return nil, &verify.UndecidedError{Reason: verify.ReasonTooLarge, Err: errors.New("the blob is too large")}
			}
			return content, nil
		},
	}
	if err := json.Unmarshal(signature.Manifest, &artifact.Manifest); err != nil {
		t.Fatal(err)
	}
	artifact.ArtifactType = artifact.Manifest.Config.MediaType
	return artifact
}

// judged is the one finding of a signature of the app.
func judged(t testing.TB, config Config, signature *authority.Signature) verify.Finding {
	t.Helper()
	return judgedArtifact(t, config, artifactOf(t, signature))
}

func judgedArtifact(t testing.TB, config Config, artifact *verify.Artifact) verify.Finding {
	t.Helper()
	verifier := must[*Verifier](t)(New(config))
	if !verifier.Reads(artifact) {
		t.Fatal("the artifact is not read")
	}
	findings := verifier.Verify(t.Context(), pinned(t, app), artifact)
	if len(findings) != 1 {
		t.Fatalf("there are %d findings", len(findings))
	}
	finding := findings[0]
	if again := verifier.Verify(t.Context(), pinned(t, app), artifact)[0]; again.Message != finding.Message || again.Outcome != finding.Outcome {
		t.Errorf("the same signature is judged differently: %q, then %q", finding.Message, again.Message)
	}
	if (finding.Outcome == verify.Passed) != (finding.Signer != "") {
		t.Errorf("outcome %s with signer %q", finding.Outcome, finding.Signer)
	}
	if finding.Message == "" || strings.ContainsAny(finding.Message, "\n\r") {
		t.Errorf("the message %q is not one line", finding.Message)
	}
	return finding
}

func expect(t testing.TB, finding verify.Finding, outcome verify.Outcome, reason verify.Reason, says ...string) {
	t.Helper()
	if finding.Outcome != outcome || finding.Reason != reason {
		t.Errorf("got %s, %s (%s); want %s, %s", finding.Outcome, finding.Reason, finding.Message, outcome, reason)
	}
	for _, text := range says {
		if !strings.Contains(finding.Message, text) {
			t.Errorf("the message %q does not say %q", finding.Message, text)
		}
	}
}

// responder serves what an authority answers, and counts.
type responder struct {
	*httptest.Server
	mu      sync.Mutex
	handler http.Handler
	asked   []string
}

func newResponder(t testing.TB) *responder {
	t.Helper()
	r := &responder{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		r.mu.Lock()
		r.asked = append(r.asked, request.URL.Path)
		handler := r.handler
		r.mu.Unlock()
		if handler == nil {
			http.Error(w, "away", http.StatusServiceUnavailable)
			return
		}
		handler.ServeHTTP(w, request)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *responder) serve(handler http.Handler) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handler = handler
}

func (r *responder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.asked)
}

func (r *responder) askedSince(before int, path string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.asked[before:], path)
}
