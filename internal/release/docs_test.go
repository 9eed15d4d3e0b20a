package release_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/cluster"
)

// The page's example is accepted as it is printed, and every field of it is kept.
func TestTheExampleOfThePageApplies(t *testing.T) {
	b := newBench(t)
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "gatewayrelease.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, example, found := strings.Cut(string(page), "```yaml\n")
	example, _, closed := strings.Cut(example, "```")
	if !found || !closed {
		t.Fatal("the page has no example")
	}
	written := &v1alpha1.GatewayRelease{}
	if err := yaml.UnmarshalStrict([]byte(example), written); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.client.Delete(context.Background(), written) })
	if err := shared.ApplyText(t.Context(), example); err != nil {
		t.Fatal(err)
	}
	stored := &v1alpha1.GatewayRelease{}
	if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(written), stored); err != nil {
		t.Fatal(err)
	}
	if !equality.Semantic.DeepEqual(stored.Spec, written.Spec) {
		t.Errorf("stored as %+v, written as %+v", stored.Spec, written.Spec)
	}

	// The sentence that it gives without its profile is one that the page explains.
	b.start()
	b.reaches(stored, all(
		summary(stored, "Invalid: profile openshell: not found; create the GatewayProfile or correct spec.profileRef"),
		condition(stored, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonProfileNotFound),
	))
}
