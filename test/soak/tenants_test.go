package soak

import (
	"math/rand/v2"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// gatewayEdits are those of tenants.
var gatewayEdits = []edit{
	{"config", 14, onGateway(func(w *world, t *testing.T, g *v1alpha1.GatewayInstance, _ *rand.Rand) error {
		return w.merge(t, g, `{"spec":{"config":{"gateway.toml":"listen = %d\n"}}}`, w.next())
	})},
	{"no config", 2, onGateway(func(w *world, t *testing.T, g *v1alpha1.GatewayInstance, _ *rand.Rand) error {
		return w.merge(t, g, `{"spec":{"config":null}}`)
	})},
	{"env", 8, onGateway(func(w *world, t *testing.T, g *v1alpha1.GatewayInstance, _ *rand.Rand) error {
		return w.merge(t, g, `{"spec":{"env":[{"name":"VALUE","value":"%d"}]}}`, w.next())
	})},
	{"mistaken env", 2, onGateway(func(w *world, t *testing.T, g *v1alpha1.GatewayInstance, _ *rand.Rand) error {
		return w.merge(t, g, `{"spec":{"env":[{"name":"PROFILE","value":"mine"}]}}`)
	})},
	{"replicas", 8, onGateway(func(w *world, t *testing.T, g *v1alpha1.GatewayInstance, by *rand.Rand) error {
		return w.merge(t, g, `{"spec":{"replicas":%d}}`, by.IntN(4))
	})},
	{"resources", 6, onGateway(func(w *world, t *testing.T, g *v1alpha1.GatewayInstance, by *rand.Rand) error {
		return w.merge(t, g, `{"spec":{"resources":{"requests":{"cpu":"%dm"}}}}`, 100+by.IntN(900))
	})},
	{"moved", 8, onGateway(func(w *world, t *testing.T, g *v1alpha1.GatewayInstance, by *rand.Rand) error {
		return w.merge(t, g, `{"spec":{"releaseRef":{"name":%q}}}`, pick(by, w.releases).name)
	})},
	{"touched", 4, onGateway(func(w *world, t *testing.T, g *v1alpha1.GatewayInstance, _ *rand.Rand) error {
		return w.merge(t, g, `{"metadata":{"annotations":{%q:"%d"}}}`, v1alpha1.AnnotationReconcileRequestedAt, w.next())
	})},
	{"status lost", 2, onGateway(func(w *world, t *testing.T, g *v1alpha1.GatewayInstance, _ *rand.Rand) error {
		return w.wipe(t, g)
	})},
	{"deleted", 6, func(w *world, t *testing.T, by *rand.Rand) error {
		if len(w.gateways) < gateways*19/20 {
			return nil
		}
		at := by.IntN(len(w.gateways))
		key := w.gateways[at]
		w.gateways = slices.Delete(w.gateways, at, at+1)
		return w.product.Client.Delete(t.Context(), stored(key))
	}},
	{"created", 6, func(w *world, t *testing.T, by *rand.Rand) error {
		if len(w.gateways) > gateways*21/20 {
			return nil
		}
		return w.product.Client.Create(t.Context(), w.newGateway(by.IntN(tenants), by.IntN(len(w.releases))))
	}},
	{"replaced", 3, func(w *world, t *testing.T, by *rand.Rand) error {
		key := pick(by, w.gateways)
		if err := w.product.Client.Delete(t.Context(), stored(key)); err != nil {
			return err
		}
		return w.product.Client.Create(t.Context(), gateway(key, pick(by, w.releases).name))
	}},
}

func stored(key client.ObjectKey) *v1alpha1.GatewayInstance {
	return &v1alpha1.GatewayInstance{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
}

// onGateway is an edit of some gateway.
func onGateway(do func(*world, *testing.T, *v1alpha1.GatewayInstance, *rand.Rand) error) func(*world, *testing.T, *rand.Rand) error {
	return func(w *world, t *testing.T, by *rand.Rand) error { return do(w, t, stored(pick(by, w.gateways)), by) }
}
