package wake

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

func TestOnlyWhatAPersonDidWakes(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*v1alpha1.GatewayRelease)
		wakes  bool
	}{
		"a new generation": {func(r *v1alpha1.GatewayRelease) { r.Generation++ }, true},
		"another label":    {func(r *v1alpha1.GatewayRelease) { r.Labels = map[string]string{"a": "b"} }, true},
		"a request for a pass": {func(r *v1alpha1.GatewayRelease) {
			r.Annotations = map[string]string{v1alpha1.AnnotationReconcileRequestedAt: "now"}
		}, true},
		"another annotation":      {func(r *v1alpha1.GatewayRelease) { r.Annotations = map[string]string{"a": "b"} }, false},
		"a status write":          {func(r *v1alpha1.GatewayRelease) { r.Status.Summary, r.ResourceVersion = "Available", "2" }, false},
		"nothing, as in a resync": {func(*v1alpha1.GatewayRelease) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			before := &v1alpha1.GatewayRelease{}
			now := before.DeepCopy()
			test.change(now)
			if got := Asked.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: now}); got != test.wakes {
				t.Errorf("wakes: %v", got)
			}
		})
	}
}
