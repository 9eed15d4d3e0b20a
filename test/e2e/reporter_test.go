package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
	"github.com/gatehouse-dev/gatehouse/test/manager"
	"github.com/gatehouse-dev/gatehouse/test/signatures/cosign"
)

// With its pod's token and the rights of the installation, and no others, a replica has reported by the time that it is
// ready, a process after it in the pod says it anew, and one that is told to end leaves nothing.
func TestAReplicaReportsWithTheRightsOfTheInstallation(t *testing.T) {
	key, err := cosign.NewKey(cosign.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	e := &v1alpha1.Executor{ObjectMeta: metav1.ObjectMeta{GenerateName: "reported-"}, Spec: v1alpha1.ExecutorSpec{VerificationSpec: v1alpha1.VerificationSpec{
		Scopes: []v1alpha1.Scope{"reported.test/*"},
		Verifiers: []v1alpha1.Verifier{{Name: "builders", Cosign: &v1alpha1.CosignVerifier{
			TransparencyLog: v1alpha1.Ignored,
			Keys:            []v1alpha1.CosignKey{{Name: "k1", PEMSource: v1alpha1.PEMSource{Material: v1alpha1.Material{Inline: string(key.PublicPEM())}}}},
		}}},
	}}}
	if err := product.Client.Create(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.IgnoreNotFound(product.Client.Delete(context.WithoutCancel(t.Context()), e)); err != nil {
			t.Error(err)
		}
	})
	pod := replicaPod(t, "gatehouse", "reporting")
	kubeconfig, err := product.TokenOf(t.Context(), pod)
	if err != nil {
		t.Fatal(err)
	}
	options := product.Manager(pod.Name)
	options.Kubeconfig = kubeconfig
	options.Environment = []string{"POD_NAME=" + pod.Name, "POD_UID=" + string(pod.UID)}
	reports := func() []v1alpha1.ExecutorPodStatus {
		t.Helper()
		list := &v1alpha1.ExecutorPodStatusList{}
		if err := product.Client.List(t.Context(), list, client.InNamespace(fleet.Namespace), client.MatchingLabels{v1alpha1.LabelPodUID: string(pod.UID)}); err != nil {
			t.Fatal(err)
		}
		return list.Items
	}
	said := func() string {
		t.Helper()
		for _, report := range reports() {
			if s := report.Status; report.Spec.Executor.UID == e.UID && s.Succeeded && s.ServingGeneration == e.Generation && s.Inputs != "" {
				return s.Process
			}
		}
		t.Fatalf("it is ready, and has not reported: %+v", reports())
		return ""
	}

	first := manager.Start(t, options)
	first.Ready(t)
	before := said()
	first.Kill()
	second := manager.Start(t, options)
	second.Ready(t)
	if after := said(); after == before {
		t.Errorf("the second process is ready, and what is said of it is the first one's, %s", after)
	}
	second.Stop(t)
	eventually.Succeeds(t, fleet.Patience, func() error {
		if left := reports(); len(left) > 0 {
			return errors.New(fmt.Sprint(len(left), " reports are left of a replica that was told to end"))
		}
		return nil
	})
}
