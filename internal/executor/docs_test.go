package executor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/cluster"
)

// The page's example is accepted as it is printed, every field of it is kept, and it says what it misses.
func TestTheExampleOfThePageApplies(t *testing.T) {
	b := newBench(t)
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "executor.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, example, found := strings.Cut(string(page), "```yaml\n")
	example, _, closed := strings.Cut(example, "```")
	if !found || !closed {
		t.Fatal("the page has no example")
	}
	written := &v1alpha1.Executor{}
	if err := yaml.UnmarshalStrict([]byte(example), written); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.delete(written) })
	if err := shared.ApplyText(t.Context(), example); err != nil {
		t.Fatal(err)
	}
	stored := &v1alpha1.Executor{}
	if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(written), stored); err != nil {
		t.Fatal(err)
	}
	kept := stored.DeepCopy()
	kept.Spec.Mode, kept.Spec.Tenancy, kept.Spec.RefreshInterval, kept.Spec.MaxStale = "", "", nil, nil
	kept.Spec.Verifiers[0].Notation.Level, kept.Spec.Verifiers[0].Notation.Revocation, kept.Spec.Verifiers[1].Cosign.Timestamps = "", "", ""
	if !equality.Semantic.DeepEqual(kept.Spec, written.Spec) {
		t.Errorf("stored as %+v, written as %+v", kept.Spec, written.Spec)
	}
	b.start(setup{}).says(stored, fails(v1alpha1.ReasonMaterialMissing,
		"store registry: credentials: Secret "+b.namespace+"/pull not found; create it with the type kubernetes.io/dockerconfigjson",
		"verifier release-signers: trustStores[corp].certificates[0]: Secret "+b.namespace+"/signing-ca not found"))
}
