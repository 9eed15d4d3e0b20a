package cosign

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/verify"
	signing "github.com/gatehouse-dev/gatehouse/test/signatures/cosign"
)

const (
	repository = "registry.example.com/team/app"
	issuer     = "https://token.example.com"
	workflow   = "https://git.example.com/team/app/.ci/release.yml@refs/heads/main"
	project    = "https://git.example.com/team/app"
)

var (
	// The manifest of the image that is verified, and of another one.
	manifest  = []byte(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{},"layers":[]}`)
	elsewhere = []byte(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{},"layers":[],"annotations":{"other":"image"}}`)
)

func subject(t testing.TB) image.Pinned {
	t.Helper()
	pinned, err := image.ParsePinned(repository + "@" + image.DigestOf(manifest).String())
	if err != nil {
		t.Fatal(err)
	}
	return pinned
}

func described(content []byte) ocispec.Descriptor {
	return signing.Blob{MediaType: ocispec.MediaTypeImageManifest, Content: content}.Descriptor()
}

// artifact is what discovery makes of something that was pushed.
func artifact(t testing.TB, pushed *signing.Artifact) *verify.Artifact {
	t.Helper()
	found := &verify.Artifact{Store: "registry", Tagged: pushed.Tag != "", Digest: pushed.Digest()}
	if err := json.Unmarshal(pushed.Manifest, &found.Manifest); err != nil {
		t.Fatal(err)
	}
	if found.ArtifactType = found.Manifest.ArtifactType; found.ArtifactType == "" {
		found.ArtifactType = found.Manifest.Config.MediaType
	}
	found.Blob = func(ctx context.Context, layer ocispec.Descriptor, limit int64) ([]byte, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for _, blob := range pushed.Blobs {
			if blob.Descriptor().Digest != layer.Digest {
				continue
			}
			if int64(len(blob.Content)) > limit {
				return nil, &verify.UndecidedError{Reason: verify.ReasonTooLarge, Err: fmt.Errorf("larger than %d bytes", limit)}
			}
			return blob.Content, nil
		}
		return nil, &verify.UndecidedError{Reason: verify.ReasonUnreachable, Err: fmt.Errorf("registry.example.com does not answer")}
	}
	return found
}

// must gives the value, or ends the test.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// world is the Sigstore and the keys of all tests. Keys of all algorithms are
// made once.
type world struct {
	sigstore, foreign *signing.Sigstore
	root              []byte
	keys              map[signing.Algorithm]*signing.Key
	key, other        *signing.Key
}

var theWorld = sync.OnceValue(func() *world {
	w := &world{
		sigstore: must(signing.NewSigstore()), foreign: must(signing.NewSigstore()),
		keys: map[signing.Algorithm]*signing.Key{},
	}
	w.root = must(w.sigstore.TrustRoot())
	for _, algorithm := range []signing.Algorithm{signing.ECDSAP256, signing.ECDSAP384, signing.ECDSAP521, signing.RSA2048, signing.Ed25519} {
		w.keys[algorithm] = must(signing.NewKey(algorithm))
	}
	w.key, w.other = w.keys[signing.ECDSAP256], must(signing.NewKey(signing.ECDSAP256))
	return w
})

// trust compiles a configuration that says nothing of logs and time stamps where
// it trusts keys alone.
func trust(t testing.TB, config Config) *Verifier {
	t.Helper()
	if config.TransparencyLog == "" {
		config.TransparencyLog = Ignored
		if len(config.Identities) > 0 {
			config.TransparencyLog = Required
		}
	}
	if config.Timestamps == "" {
		config.Timestamps = Ignored
	}
	if config.TransparencyLog == Required || config.Timestamps == Required {
		config.TrustRoot = theWorld().root
	}
	verifier, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return verifier
}

func keysOf(keys ...*signing.Key) []Key {
	var named []Key
	for i, key := range keys {
		named = append(named, Key{Name: fmt.Sprintf("k%d", i+1), PEM: key.PublicPEM()})
	}
	return named
}

func keyless() *signing.Signer {
	return &signing.Signer{Sigstore: theWorld().sigstore, Identity: signing.Identity{
		Issuer: issuer, Subject: workflow, SourceRepository: project,
	}}
}

// tagged signs the image and stores the signature under its tag.
func tagged(signer *signing.Signer) *signing.Artifact {
	digest := image.DigestOf(manifest)
	return signing.Tagged(digest, must(signer.Sign(signing.Payload(repository, digest))))
}

func referring(signer *signing.Signer) *signing.Artifact {
	return signing.Referring(described(manifest), must(signer.Sign(signing.Payload(repository, image.DigestOf(manifest)))))
}

func enveloped(signer *signing.Signer) *signing.Artifact {
	return signing.Bundled(described(manifest),
		must(signer.SignStatement(signing.Statement(image.DigestOf(manifest), signing.PredicateSignature))), signing.PredicateSignature)
}

func message(signer *signing.Signer) *signing.Artifact {
	return signing.Bundled(described(manifest), must(signer.SignManifest(manifest)), "")
}

// forms are the ways in which a signature is stored.
var forms = []struct {
	name string
	sign func(*signing.Signer) *signing.Artifact
}{
	{"simple signing under the tag", tagged},
	{"simple signing as a referrer", referring},
	{"a bundle with an envelope", enveloped},
	{"a bundle with a message signature", message},
}

// one verifies an artifact that holds one signature.
func one(t testing.TB, verifier *Verifier, pushed *signing.Artifact) verify.Finding {
	t.Helper()
	found := artifact(t, pushed)
	if !verifier.Reads(found) {
		t.Fatalf("an artifact of type %s is not read", found.ArtifactType)
	}
	findings := verifier.Verify(t.Context(), subject(t), found)
	if len(findings) != 1 {
		t.Fatalf("%d findings of one signature: %+v", len(findings), findings)
	}
	again := verifier.Verify(t.Context(), subject(t), found)
	if again[0].Message != findings[0].Message || again[0].Reason != findings[0].Reason {
		t.Errorf("one signature has two findings: %+v and %+v", findings[0], again[0])
	}
	return findings[0]
}

func passes(t *testing.T, verifier *Verifier, pushed *signing.Artifact, signer string) {
	t.Helper()
	finding := one(t, verifier, pushed)
	if finding.Outcome != verify.Passed || finding.Reason != verify.ReasonVerified || finding.Signer != signer {
		t.Errorf("%v %s by %q: %s; want it passed by %q", finding.Outcome, finding.Reason, finding.Signer, finding.Message, signer)
	}
}

func fails(t *testing.T, verifier *Verifier, pushed *signing.Artifact, reason verify.Reason, says string) {
	t.Helper()
	finding := one(t, verifier, pushed)
	if finding.Outcome != verify.Failed || finding.Reason != reason || finding.Signer != "" {
		t.Errorf("%v %s by %q: %s; want it failed as %s", finding.Outcome, finding.Reason, finding.Signer, finding.Message, reason)
	}
	if !strings.Contains(finding.Message, says) {
		t.Errorf("message %q does not say %q", finding.Message, says)
	}
}
