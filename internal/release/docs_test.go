package release_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/inprocess"
)

// The page's example is accepted as it is printed, and every field of it is kept.
func TestTheExampleOfThePageApplies(t *testing.T) {
	b := newBench(t)
	written, stored := &v1alpha1.GatewayRelease{}, &v1alpha1.GatewayRelease{}
	inprocess.Example(t, shared, "../../docs/gatewayrelease.md", written, stored)
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
