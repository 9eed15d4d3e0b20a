package notation

import (
	"context"
	"sync"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/gatehouse-dev/gatehouse/internal/verify"
	authority "github.com/gatehouse-dev/gatehouse/test/signatures/notation"
)

func TestManyVerifyAtOnceAndAskOnce(t *testing.T) {
	for _, method := range []string{"OCSP", "CRL"} {
		t.Run(method, func(t *testing.T) {
			r := newResponder(t)
			ca := newAuthority(t, methods[method](r.URL))
			r.serve(ca)
			config := asking(ca, Enforce)
			config.Cache = NewCache(CacheOptions{})
			one, other := must[*Verifier](t)(New(config)), must[*Verifier](t)(New(config))
			artifact := artifactOf(t, sign(t, issue(t, ca, authority.Leaf{}), authority.Signing{}))

			const many = 24
			findings := make([]verify.Finding, many)
			var all sync.WaitGroup
			for i := range many {
				all.Go(func() {
					verifier := one
					if i%2 == 0 {
						verifier = other
					}
					findings[i] = verifier.Verify(t.Context(), pinned(t, app), artifact)[0]
				})
			}
			all.Wait()
			for _, finding := range findings {
				expect(t, finding, verify.Passed, verify.ReasonVerified)
			}
			// Lists may be large: each is fetched once, whoever asks.
			if n := r.count(); method == "CRL" && n != 2 {
				t.Errorf("two lists were fetched %d times", n)
			}
		})
	}
}

func TestPanicIsNoVerdict(t *testing.T) {
	ca := newAuthority(t, authority.Options{})
	artifact := artifactOf(t, sign(t, issue(t, ca, authority.Leaf{}), authority.Signing{}))
	artifact.Blob = func(context.Context, ocispec.Descriptor, int64) ([]byte, error) { panic("a library's fault") }
	expect(t, judgedArtifact(t, trusting(ca), artifact), verify.Failed, verify.ReasonMalformed, "makes its reader fail")
}
