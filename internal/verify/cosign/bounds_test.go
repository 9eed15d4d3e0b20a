package cosign

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/verify"
	signing "github.com/gatehouse-dev/gatehouse/test/signatures/cosign"
)

// Everything that cosign attaches is read, and nothing else.
func TestReads(t *testing.T) {
	verifier := trust(t, Config{Keys: keysOf(theWorld().key)})
	for _, test := range []struct {
		kind   string
		tagged bool
		want   bool
	}{
		{ocispec.MediaTypeImageConfig, true, true},
		{"application/vnd.dev.cosign.artifact.sig.v1+json", false, true},
		{"application/vnd.dev.cosign.artifact.att.v1+json", false, true},
		{"application/vnd.dev.sigstore.bundle.v0.3+json", false, true},
		{"application/vnd.dev.sigstore.bundle+json;version=0.1", false, true},
		{"application/vnd.cncf.notary.signature", false, false},
		{ocispec.MediaTypeImageConfig, false, false},
		{"application/spdx+json", false, false},
		{"", false, false},
	} {
		if got := verifier.Reads(&verify.Artifact{ArtifactType: test.kind, Tagged: test.tagged}); got != test.want {
			t.Errorf("%q, tagged %v: %v", test.kind, test.tagged, got)
		}
	}
	if verifier.Kind() != verify.Cosign {
		t.Error(verifier.Kind())
	}
}

// Each signature under the tag has its finding, in the order of the layers.
func TestManySignatures(t *testing.T) {
	w := theWorld()
	verifier := trust(t, Config{Keys: keysOf(w.key, w.keys[signing.RSA2048])})
	digest := image.DigestOf(manifest)
	sign := func(key *signing.Key) *signing.Signature {
		return must((&signing.Signer{Key: key}).Sign(signing.Payload(repository, digest)))
	}
	good, bad, also := sign(w.key), sign(w.other), sign(w.keys[signing.RSA2048])
	var signatures []*signing.Signature
	var want []string
	for range 10 {
		signatures = append(signatures, good, bad, also)
		want = append(want, w.key.Signer(), "", w.keys[signing.RSA2048].Signer())
	}
	findings := verifier.Verify(t.Context(), subject(t), artifact(t, signing.Tagged(digest, signatures...)))
	var got []string
	for _, finding := range findings {
		got = append(got, finding.Signer)
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("signers\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	// Beyond the bound, what was not looked at is not decided.
	for len(signatures) <= verify.MaxFindings {
		signatures = append(signatures, good)
	}
	findings = verifier.Verify(t.Context(), subject(t), artifact(t, signing.Tagged(digest, signatures...)))
	last := findings[len(findings)-1]
	if len(findings) != verify.MaxFindings || last.Outcome != verify.Undecided || last.Reason != verify.ReasonTooLarge {
		t.Errorf("%d findings of %d signatures, the last %+v", len(findings), len(signatures), last)
	}
}

// What cannot be looked at is not decided, and says why.
func TestUndecided(t *testing.T) {
	w := theWorld()
	verifier := trust(t, Config{Keys: keysOf(w.key)})
	signer := &signing.Signer{Key: w.key}
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			pushed := form.sign(signer)
			check := func(finding verify.Finding, outcome verify.Outcome, reason verify.Reason, says string) {
				t.Helper()
				if finding.Outcome != outcome || finding.Reason != reason || !strings.Contains(finding.Message, says) || finding.Signer != "" {
					t.Errorf("%+v; want %v %s: %s", finding, outcome, reason, says)
				}
			}
			content := pushed.Blobs[1].Content
			pushed.Blobs[1].Content = nil
			check(one(t, verifier, pushed), verify.Undecided, verify.ReasonUnreachable, "registry.example.com does not answer")
			pushed.Blobs[1].Content = content

			found := artifact(t, pushed)
			found.Blob = func(context.Context, ocispec.Descriptor, int64) ([]byte, error) {
				return nil, errors.New("another digest")
			}
			check(verifier.Verify(t.Context(), subject(t), found)[0], verify.Failed, verify.ReasonMalformed, "its content is not what the manifest says")

			ctx, cancel := context.WithCancel(t.Context())
			found.Blob = func(ctx context.Context, _ ocispec.Descriptor, _ int64) ([]byte, error) {
				cancel()
				return nil, ctx.Err()
			}
			check(verifier.Verify(ctx, subject(t), found)[0], verify.Undecided, verify.ReasonUnreachable, "the verification ended")
			check(verifier.Verify(ctx, subject(t), artifact(t, pushed))[0], verify.Undecided, verify.ReasonUnreachable, "the verification ended")
		})
	}
	large := signed(signer, []byte(strings.Repeat(" ", maxPayload)+string(payload())), nil)
	if finding := one(t, verifier, large); finding.Outcome != verify.Undecided || finding.Reason != verify.ReasonTooLarge {
		t.Errorf("a large payload: %+v", finding)
	}
	noted := signed(signer, payload(), func(made *signing.Signature) {
		made.Annotations[signing.AnnotationLogEntry] = strings.Repeat(" ", maxAnnotation+1)
	})
	if finding := one(t, verifier, noted); finding.Outcome != verify.Undecided || finding.Reason != verify.ReasonTooLarge {
		t.Errorf("a large annotation: %+v", finding)
	}
}

// A manifest without signatures, and one whose blobs make a library panic, are
// bad signatures and nothing worse.
func TestNothingPanics(t *testing.T) {
	w := theWorld()
	verifier := trust(t, Config{Keys: keysOf(w.key)})
	empty := artifact(t, signing.Tagged(image.DigestOf(manifest)))
	if findings := verifier.Verify(t.Context(), subject(t), empty); len(findings) != 1 || findings[0].Reason != verify.ReasonMalformed {
		t.Errorf("no layers: %+v", findings)
	}
	found := artifact(t, tagged(&signing.Signer{Key: w.key}))
	found.Blob = func(context.Context, ocispec.Descriptor, int64) ([]byte, error) { panic("of a library") }
	if findings := verifier.Verify(t.Context(), subject(t), found); len(findings) != 1 || findings[0].Outcome != verify.Failed || findings[0].Reason != verify.ReasonMalformed {
		t.Errorf("a panic: %+v", findings)
	}
}

// One Verifier serves many at once.
func TestConcurrentUse(t *testing.T) {
	w := theWorld()
	verifier := trust(t, Config{Keys: keysOf(w.other, w.key), Identities: []Identity{{Issuer: issuer, SubjectRegExp: ".*"}}})
	var pushed []*signing.Artifact
	for _, form := range forms {
		pushed = append(pushed, form.sign(keyless()), form.sign(&signing.Signer{Key: w.key, Sigstore: w.sigstore}))
	}
	var running sync.WaitGroup
	for _, artifacts := range [][]*signing.Artifact{pushed, pushed, pushed} {
		for _, one := range artifacts {
			found := artifact(t, one)
			running.Go(func() {
				if findings := verifier.Verify(t.Context(), subject(t), found); findings[0].Outcome != verify.Passed {
					t.Errorf("%+v", findings)
				}
			})
		}
	}
	running.Wait()
}
