package wake

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

func TestAStatusThatIsLostBetweenTwoLooksAtIt(t *testing.T) {
	before, now := &v1alpha1.GatewayInstance{}, &v1alpha1.GatewayInstance{}
	before.ResourceVersion, now.ResourceVersion = "1", "3"
	if !Asked.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: now}) {
		t.Error("it does not wake")
	}
	if Asked.Update(event.UpdateEvent{ObjectOld: now, ObjectNew: now}) {
		t.Error("a resync wakes")
	}
}

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
		"another annotation":             {func(r *v1alpha1.GatewayRelease) { r.Annotations = map[string]string{"a": "b"} }, false},
		"a status write":                 {func(r *v1alpha1.GatewayRelease) { r.Status.Summary, r.ResourceVersion = "Available", "2" }, false},
		"the status of a new generation": {func(r *v1alpha1.GatewayRelease) { r.Status.ObservedGeneration++ }, false},
		"a lost status":                  {func(r *v1alpha1.GatewayRelease) { r.Status = v1alpha1.GatewayReleaseStatus{} }, true},
		"nothing, as in a resync":        {func(*v1alpha1.GatewayRelease) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			before := &v1alpha1.GatewayRelease{}
			before.Status.ObservedGeneration = 1
			now := before.DeepCopy()
			test.change(now)
			if got := Asked.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: now}); got != test.wakes {
				t.Errorf("wakes: %v", got)
			}
			wakes := test.wakes && name != "a lost status"
			if got := Edited.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: now}); got != wakes {
				t.Errorf("wakes who writes no status: %v", got)
			}
		})
	}
}
