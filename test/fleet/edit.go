package fleet

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
)

// Edit changes an object as kubectl edit does: from what is there now, again if somebody else was faster, and sending
// only what differs. object says of what kind it is.
func Edit[T client.Object](tb testing.TB, f *Fleet, key client.ObjectKey, object T, change func(T)) T {
	tb.Helper()
	var now T
	var refused error
	eventually.Succeeds(tb, Patience, func() error {
		now = object.DeepCopyObject().(T) // what a try has left in it must not look like what is there
		if refused = f.Client.Get(tb.Context(), key, now); refused != nil {
			return nil
		}
		was := now.DeepCopyObject().(client.Object)
		change(now)
		refused = f.Client.Patch(tb.Context(), now, client.MergeFromWithOptions(was, client.MergeFromWithOptimisticLock{}))
		if apierrors.IsConflict(refused) {
			return refused // as often as it takes: on a slow machine a status is often written in between
		}
		return nil
	})
	if refused != nil {
		tb.Fatalf("edit %T %s: %v", object, key, refused)
	}
	return now
}

// EditRelease changes the release.
func (f *Fleet) EditRelease(tb testing.TB, change func(*v1alpha1.GatewayRelease)) *v1alpha1.GatewayRelease {
	tb.Helper()
	return Edit(tb, f, client.ObjectKey{Name: f.Name}, &v1alpha1.GatewayRelease{}, change)
}

// SetImage edits the release's image.
func (f *Fleet) SetImage(tb testing.TB, reference string) {
	tb.Helper()
	f.EditRelease(tb, func(r *v1alpha1.GatewayRelease) { r.Spec.Image = reference })
}

// EditProfile changes the profile.
func (f *Fleet) EditProfile(tb testing.TB, change func(*v1alpha1.GatewayProfile)) {
	tb.Helper()
	Edit(tb, f, client.ObjectKey{Name: f.Name}, &v1alpha1.GatewayProfile{}, change)
}

// EditGateway changes the n-th gateway.
func (f *Fleet) EditGateway(tb testing.TB, n int, change func(*v1alpha1.GatewayInstance)) {
	tb.Helper()
	Edit(tb, f, f.Gateways[n], &v1alpha1.GatewayInstance{}, change)
}

// Request asks for a pass over the release and over every gateway, as a person would.
func (f *Fleet) Request(tb testing.TB) {
	tb.Helper()
	f.RequestRelease(tb)
	for n := range f.Gateways {
		f.RequestGateway(tb, n)
	}
}

// RequestRelease asks for a pass over the release.
func (f *Fleet) RequestRelease(tb testing.TB) {
	tb.Helper()
	f.EditRelease(tb, func(r *v1alpha1.GatewayRelease) { request(r) })
}

// RequestGateway asks for a pass over the n-th gateway.
func (f *Fleet) RequestGateway(tb testing.TB, n int) {
	tb.Helper()
	f.EditGateway(tb, n, func(g *v1alpha1.GatewayInstance) { request(g) })
}

// request says something new each time, and no time that would have the registry asked anew.
func request(object client.Object) {
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[v1alpha1.AnnotationReconcileRequestedAt] = "now, " + time.Now().Format("15:04:05.000000000")
	object.SetAnnotations(annotations)
}

// WipeStatus takes away all that is recorded, as a restore from a backup does.
func (f *Fleet) WipeStatus(tb testing.TB, object client.Object) {
	tb.Helper()
	wipe := client.RawPatch("application/json-patch+json", []byte(`[{"op":"replace","path":"/status","value":{}}]`))
	if err := f.Client.Status().Patch(context.WithoutCancel(tb.Context()), object, wipe); err != nil {
		tb.Fatalf("wipe the status of %s: %v", client.ObjectKeyFromObject(object), err)
	}
}
