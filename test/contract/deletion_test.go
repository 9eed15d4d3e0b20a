package contract

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
)

func metaKey(object client.Object) client.ObjectKey { return client.ObjectKeyFromObject(object) }

// inventory lists everything in a namespace that a gateway could consist of, by kind and name.
func inventory(t *testing.T, f *fleet.Fleet, namespace string) map[string]client.Object {
	t.Helper()
	all := map[string]client.Object{}
	for kind, list := range map[string]client.ObjectList{
		"Deployment": &appsv1.DeploymentList{}, "ReplicaSet": &appsv1.ReplicaSetList{}, "Pod": &corev1.PodList{},
		"Service": &corev1.ServiceList{}, "ServiceAccount": &corev1.ServiceAccountList{}, "ConfigMap": &corev1.ConfigMapList{},
		"NetworkPolicy": &networkingv1.NetworkPolicyList{}, "RoleBinding": &rbacv1.RoleBindingList{},
		"PodDisruptionBudget": &policyv1.PodDisruptionBudgetList{},
	} {
		if err := f.Client.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			object := item.(client.Object)
			all[kind+" "+object.GetName()] = object
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// Fails when something that a gateway owned outlives it, or when something else goes along.
func TestC17AGatewayTakesWithItWhatItOwnedAndNothingElse(t *testing.T) {
	running(t)
	f := fleet.New(t, product, fleet.Options{Gateways: 2, Gateway: func(_ int, g *v1alpha1.GatewayInstance) { g.Spec.Replicas = ptr.To[int32](2) }})
	byHand := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: f.Namespaces[0], Name: "by-hand",
		Labels: map[string]string{v1alpha1.LabelGateway: f.Gateways[0].Name, v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}, // and not its own for that
	}}
	f.Make(t, byHand)
	f.Converged(t, f.V1)
	before := inventory(t, f, f.Namespaces[0])

	owned := map[string]bool{}
	for name, object := range before {
		if object.GetLabels()[v1alpha1.LabelGateway] == f.Gateways[0].Name && object.GetName() != byHand.Name {
			owned[name] = true
		}
	}
	for _, kind := range []string{"Deployment", "ReplicaSet", "Pod", "Service", "ServiceAccount", "ConfigMap", "NetworkPolicy", "RoleBinding", "PodDisruptionBudget"} {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(owned)), func(name string) bool { return strings.HasPrefix(name, kind+" ") }) {
			t.Fatalf("the gateway has no %s: this test shows nothing of it", kind)
		}
	}
	if err := f.Client.Delete(t.Context(), f.Gateway(t, 0)); err != nil {
		t.Fatal(err)
	}
	eventually.Succeeds(t, fleet.Patience, func() error {
		now := inventory(t, f, f.Namespaces[0])
		for name := range owned {
			if now[name] != nil {
				return fmt.Errorf("%s is still there", name)
			}
		}
		return nil
	})
	now := inventory(t, f, f.Namespaces[0])
	for name, object := range before {
		if !owned[name] && (now[name] == nil || now[name].GetUID() != object.GetUID()) {
			t.Errorf("%s has gone as well", name)
		}
	}
	eventually.Succeeds(t, soon, func() error {
		if total := f.Release(t).Status.Rollout.Fleet.Total; total != 1 {
			return fmt.Errorf("the release counts %d gateways", total)
		}
		return nil
	})
}

// Fails when deleting a release touches what runs, or when its gateways do not say so. What they run is known by the
// revision that is theirs, so that goes on being repaired as well, also by a manager that was started since.
func TestC18AReleaseThatIsDeletedLeavesItsGatewaysRunning(t *testing.T) {
	m := running(t)
	f := fleet.New(t, product, fleet.Options{Gateways: 3})
	f.Converged(t, f.V1)
	m.Rest(t, soon)
	runs := f.Footprint(t)

	if err := f.Client.Delete(t.Context(), f.Release(t)); err != nil {
		t.Fatal(err)
	}
	says := func(t *testing.T) {
		t.Helper()
		for n := range f.Gateways {
			gateway := f.GatewaySays(t, n, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonReleaseNotFound)
			if gateway.Status.Phase != v1alpha1.GatewayRunning || gateway.Status.Image != f.Pinned(f.V1) {
				t.Errorf("%s is %s and runs %q", gateway.Name, gateway.Status.Phase, gateway.Status.Image)
			}
		}
	}
	says(t)
	collected(t, f)
	restarted(t).Rest(t, soon)
	f.RequestGateway(t, 0)
	running(t).Rest(t, soon)
	says(t)
	if now := f.Footprint(t); asJSON(t, now) != asJSON(t, runs) {
		t.Errorf("what runs was\n%s\nand is\n%s", asJSON(t, runs), asJSON(t, now))
	}
}

// collected waits until the garbage collector has taken what a deleted release owned.
func collected(t *testing.T, f *fleet.Fleet) {
	t.Helper()
	eventually.Succeeds(t, fleet.Patience, func() error {
		var revisions appsv1.ControllerRevisionList
		err := f.Client.List(t.Context(), &revisions, client.InNamespace(fleet.Namespace), client.MatchingLabels{v1alpha1.LabelRelease: f.Name})
		if err == nil && len(revisions.Items) > 0 {
			err = fmt.Errorf("%d revisions of the release are left", len(revisions.Items))
		}
		return err
	})
}

// Fails when a person can take every workload away by deleting a kind without having said that it is meant.
func TestC18DeletingAKindNeedsAPersonsWord(t *testing.T) {
	running(t)
	f := fleet.New(t, product, fleet.Options{})
	f.Converged(t, f.V1)
	for _, plural := range []string{"gatewayinstances", "gatewayreleases", "gatewayprofiles"} {
		definition := &apiextensionsv1.CustomResourceDefinition{}
		f.Get(t, client.ObjectKey{Name: plural + ".gatehouse.dev"}, definition)
		err := f.Client.Delete(t.Context(), definition, client.DryRunAll)
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "annotate") {
			t.Errorf("deleting the kind %s: %v, want a refusal that says what to do", plural, err)
		}
	}
}

// Fails when a status that was lost is taken for a fleet that runs nothing: after a restore, what runs is adopted from
// its own marks, and nothing rolls.
func TestC19LostStatusIsAdoptedFromWhatRuns(t *testing.T) {
	for _, wipe := range []string{"gateways", "release", "release and gateways"} {
		t.Run(wipe, func(t *testing.T) {
			running(t)
			f := fleet.New(t, product, fleet.Options{Gateways: 3})
			f.Converged(t, f.V1)
			v2 := f.Push(t, "v2")
			f.SetImage(t, f.Image("v2"))
			f.Converged(t, v2)
			running(t).Rest(t, soon)
			runs := f.Footprint(t)
			attempt := f.Release(t).Status.Rollout.Attempt

			shared.Kill()
			if strings.Contains(wipe, "gateways") {
				for _, gateway := range f.All(t) {
					f.WipeStatus(t, &gateway)
				}
			}
			if strings.Contains(wipe, "release") {
				f.WipeStatus(t, f.Release(t))
			}
			m := running(t)
			f.Converged(t, v2)
			m.Rest(t, soon)
			if now := f.Footprint(t); asJSON(t, now) != asJSON(t, runs) {
				t.Errorf("what runs was\n%s\nand is\n%s", asJSON(t, runs), asJSON(t, now))
			}
			if now := f.Release(t).Status.Rollout.Attempt; now < attempt {
				t.Errorf("attempt %d after %d: it would be given out again", now, attempt)
			}
			// And goes on as before.
			v3 := f.Push(t, "v3")
			f.SetImage(t, f.Image("v3"))
			f.Converged(t, v3)
		})
	}
}

// Fails when a release that is made again moves the fleet of the old one, which runs what it asks for.
func TestC19ARecreatedReleaseAdoptsItsFleet(t *testing.T) {
	m := running(t)
	f := fleet.New(t, product, fleet.Options{Gateways: 3})
	f.Converged(t, f.V1)
	m.Rest(t, soon)
	runs := f.Footprint(t)
	old := f.Release(t)
	if err := f.Client.Delete(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	for n := range f.Gateways {
		f.GatewaySays(t, n, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonReleaseNotFound)
	}
	collected(t, f) // and so is the revision that they run
	f.Make(t, &v1alpha1.GatewayRelease{ObjectMeta: metav1.ObjectMeta{Name: f.Name}, Spec: old.Spec})
	f.ConvergedWithin(t, f.V1, soon)
	m.Rest(t, soon)
	if now := f.Footprint(t); asJSON(t, now) != asJSON(t, runs) {
		t.Errorf("what runs was\n%s\nand is\n%s", asJSON(t, runs), asJSON(t, now))
	}
	v2 := f.Push(t, "v2")
	f.SetImage(t, f.Image("v2"))
	f.Converged(t, v2)
}

// What is adopted is what was given, by its marks, and not what somebody made of it while nobody was looking.
func TestC19DriftIsNotAdoptedWithAStatusThatWasLost(t *testing.T) {
	running(t)
	f := fleet.New(t, product, fleet.Options{})
	f.Converged(t, f.V1)
	shared.Kill()
	f.WipeStatus(t, f.Gateway(t, 0))
	fleet.Edit(t, f, f.Gateways[0], &appsv1.Deployment{}, func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].Image = "example.com/other@" + f.V1.String()
	})
	running(t)
	eventually.Succeeds(t, fleet.Patience, func() error {
		if image := f.Deployment(t, 0).Spec.Template.Spec.Containers[0].Image; image != f.Pinned(f.V1) {
			return fmt.Errorf("it runs %s", image)
		}
		return nil
	})
	f.Converged(t, f.V1)
}
