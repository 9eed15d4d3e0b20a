package soak

import (
	"math/rand/v2"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// drifts are edits of what is Gatehouse's to write.
var drifts = []edit{
	{"drift: image", 4, drift(func(key metav1.ObjectMeta) client.Object { return &appsv1.Deployment{ObjectMeta: key} },
		`{"spec":{"template":{"spec":{"containers":[{"name":"gateway","image":"registry.example.com/evil:1"}]}}}}`)},
	{"drift: container", 2, drift(func(key metav1.ObjectMeta) client.Object { return &appsv1.Deployment{ObjectMeta: key} },
		`{"spec":{"template":{"spec":{"containers":[{"name":"miner","image":"registry.example.com/miner:1"}]}}}}`)},
	{"drift: env", 2, drift(func(key metav1.ObjectMeta) client.Object { return &appsv1.Deployment{ObjectMeta: key} },
		`{"spec":{"template":{"spec":{"containers":[{"name":"gateway","env":[{"name":"LD_PRELOAD","value":"evil.so"}]}]}}}}`)},
	{"drift: replicas", 4, drift(func(key metav1.ObjectMeta) client.Object { return &appsv1.Deployment{ObjectMeta: key} },
		`{"spec":{"replicas":7}}`)},
	{"restarted", 3, drift(func(key metav1.ObjectMeta) client.Object { return &appsv1.Deployment{ObjectMeta: key} },
		`{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"now"}}}}}`)},
	{"drift: label", 2, drift(func(key metav1.ObjectMeta) client.Object { return &appsv1.Deployment{ObjectMeta: key} },
		`{"metadata":{"labels":{"app.kubernetes.io/managed-by":null}}}`)},
	{"drift: owner", 2, drift(func(key metav1.ObjectMeta) client.Object { return &corev1.ConfigMap{ObjectMeta: key} },
		`{"metadata":{"ownerReferences":null}}`)},
	{"drift: files", 4, drift(func(key metav1.ObjectMeta) client.Object { return &corev1.ConfigMap{ObjectMeta: key} },
		`{"data":{"gateway.toml":"listen = 1\n","more.toml":""}}`)},
	{"drift: service", 4, drift(func(key metav1.ObjectMeta) client.Object { return &corev1.Service{ObjectMeta: key} },
		`{"spec":{"selector":{"app":"evil"}}}`)},
	{"drift: token", 2, drift(func(key metav1.ObjectMeta) client.Object { return &corev1.ServiceAccount{ObjectMeta: key} },
		`{"automountServiceAccountToken":true}`)},
	{"drift: policy", 2, drift(func(key metav1.ObjectMeta) client.Object { return &networkingv1.NetworkPolicy{ObjectMeta: key} },
		`{"spec":{"ingress":[{}]}}`)},
	{"deleted: Deployment", 3, remove(func(key metav1.ObjectMeta) client.Object { return &appsv1.Deployment{ObjectMeta: key} })},
	{"deleted: Service", 2, remove(func(key metav1.ObjectMeta) client.Object { return &corev1.Service{ObjectMeta: key} })},
	{"deleted: ConfigMap", 2, remove(func(key metav1.ObjectMeta) client.Object { return &corev1.ConfigMap{ObjectMeta: key} })},
	{"deleted: ServiceAccount", 2, remove(func(key metav1.ObjectMeta) client.Object { return &corev1.ServiceAccount{ObjectMeta: key} })},
	{"deleted: NetworkPolicy", 1, remove(func(key metav1.ObjectMeta) client.Object { return &networkingv1.NetworkPolicy{ObjectMeta: key} })},
	{"deleted: RoleBinding", 1, remove(func(key metav1.ObjectMeta) client.Object {
		key.Name += ".gatehouse-gateway"
		return &rbacv1.RoleBinding{ObjectMeta: key}
	})},
	{"deleted: PodDisruptionBudget", 1, remove(func(key metav1.ObjectMeta) client.Object { return &policyv1.PodDisruptionBudget{ObjectMeta: key} })},
}

// drift patches an object of some gateway.
func drift(of func(metav1.ObjectMeta) client.Object, patch string) func(*world, *testing.T, *rand.Rand) error {
	return onGateway(func(w *world, t *testing.T, g *v1alpha1.GatewayInstance, _ *rand.Rand) error {
		return w.mergeList(t, of(g.ObjectMeta), "%s", patch)
	})
}

// remove deletes an object of some gateway.
func remove(of func(metav1.ObjectMeta) client.Object) func(*world, *testing.T, *rand.Rand) error {
	return onGateway(func(w *world, t *testing.T, g *v1alpha1.GatewayInstance, _ *rand.Rand) error {
		return w.product.Client.Delete(t.Context(), of(g.ObjectMeta))
	})
}
