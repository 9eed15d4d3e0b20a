package executor

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/inprocess"
)

// The page's example is accepted as it is printed, every field of it is kept, and it says what it misses.
func TestTheExampleOfThePageApplies(t *testing.T) {
	b := newBench(t)
	written, stored := &v1alpha1.Executor{}, &v1alpha1.Executor{}
	inprocess.Example(t, shared, "../../docs/executor.md", written, stored)
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
