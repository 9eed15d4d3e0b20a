package verification

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/executor"
	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/registry"
	"github.com/gatehouse-dev/gatehouse/internal/verify"
)

// specs are Executors that ask for what the floor checks.
var specs = map[string]string{
	"notation": `
scopes: ["*"]
stores: [{name: registry, registry: {plainHTTP: true}}]
verifiers:
- name: signers
  notation:
    level: Strict
    revocation: Skip
    trustedIdentities: ["*"]
    trustStores:
    - name: ca
      type: CA
      certificates:
      - inline: |
          %s
`,
	"cosign": `
scopes: ["*"]
stores: [{name: registry, registry: {plainHTTP: true}}]
verifiers:
- name: signers
  cosign:
    transparencyLog: Ignored
    keys:
    - name: key
      inline: |
          %s
`,
}

// gatehouse verifies as a replica does that has nothing in memory yet.
func gatehouse(tb testing.TB, h *hub, kind string) verifyFunc {
	tb.Helper()
	var spec v1alpha1.ExecutorSpec
	if err := yaml.UnmarshalStrict(fmt.Appendf(nil, specs[kind], indented(h.Trust)), &spec); err != nil {
		tb.Fatal(err)
	}
	client := registry.New(registry.Options{Reach: registry.Reach{Loopback: true}})
	tb.Cleanup(client.Close)
	compiled, err := executor.Compile("bench", &spec, nil, "", executor.Tools{Registry: client})
	if err != nil {
		tb.Fatal(err)
	}
	return func(ctx context.Context, subject image.Pinned) error {
		if report := compiled.Engine().Verify(ctx, subject); report.Outcome != verify.Passed {
			return errors.New(report.Decision)
		}
		return nil
	}
}
