package e2e

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
	"github.com/gatehouse-dev/gatehouse/test/signatures/cosign"
)

// With the rights of the installation and no others: an Executor serves, and a tenant's does once the tenant lets
// Gatehouse read the Secret that it names.
func TestExecutorsServeWithTheRightsOfTheInstallation(t *testing.T) {
	running(t)
	tenant := product.Namespace(t, "tenant")
	key, err := cosign.NewKey(cosign.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	spec := v1alpha1.VerificationSpec{
		Scopes: []v1alpha1.Scope{"rights.test/*"},
		Verifiers: []v1alpha1.Verifier{{Name: "builders", Cosign: &v1alpha1.CosignVerifier{
			TransparencyLog: v1alpha1.Ignored,
			Keys: []v1alpha1.CosignKey{{Name: "k1", PEMSource: v1alpha1.PEMSource{Material: v1alpha1.Material{
				SecretRef: &v1alpha1.KeyReference{Name: "rights-key", Key: "cosign.pub"},
			}}}},
		}}},
	}
	cluster := &v1alpha1.Executor{ObjectMeta: metav1.ObjectMeta{Name: "rights"}, Spec: v1alpha1.ExecutorSpec{VerificationSpec: spec}}
	own := &v1alpha1.NamespacedExecutor{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "rights"}, Spec: v1alpha1.NamespacedExecutorSpec{VerificationSpec: spec},
	}
	for _, object := range []client.Object{
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: fleet.Namespace, Name: "rights-key"}, Data: map[string][]byte{"cosign.pub": key.PublicPEM()}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "rights-key"}, Data: map[string][]byte{"cosign.pub": key.PublicPEM()}},
		cluster, own,
	} {
		if err := product.Client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	succeeds := func(object client.Object, status *v1alpha1.ExecutorStatus, want bool) {
		t.Helper()
		eventually.Succeeds(t, fleet.Patience, func() error {
			if err := product.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
				return err
			}
			if status.Succeeded != want || status.ObservedGeneration != object.GetGeneration() {
				return fmt.Errorf("%T %s: status %+v", object, object.GetName(), *status)
			}
			return nil
		})
	}
	succeeds(cluster, &cluster.Status, true)
	succeeds(own, &own.Status, false)
	if want := "Secret " + tenant + "/rights-key may not be read; let Gatehouse's ServiceAccount get it there, by a Role and a RoleBinding"; own.Status.BriefError != want {
		t.Errorf("%q, want %q", own.Status.BriefError, want)
	}
	if err := product.ApplyText(t.Context(), fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: gatehouse-reads-keys, namespace: %[1]s}
rules: [{apiGroups: [""], resources: [secrets], resourceNames: [rights-key], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: gatehouse-reads-keys, namespace: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: gatehouse-reads-keys}
subjects: [{kind: ServiceAccount, name: gatehouse, namespace: %[2]s}]
`, tenant, fleet.Namespace)); err != nil {
		t.Fatal(err)
	}
	succeeds(own, &own.Status, true)

	stored := func(want int) {
		t.Helper()
		eventually.Succeeds(t, fleet.Patience, func() error {
			found := &appsv1.ControllerRevisionList{}
			if err := product.Client.List(t.Context(), found, client.InNamespace(fleet.Namespace), client.HasLabels{v1alpha1.LabelExecutorUID}); err != nil {
				return err
			}
			if len(found.Items) != want {
				return fmt.Errorf("%d stored specs, want %d", len(found.Items), want)
			}
			return nil
		})
	}
	stored(2)
	for _, object := range []client.Object{cluster, own} {
		if err := product.Client.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	stored(0)
}
