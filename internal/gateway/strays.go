package gateway

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// claimStrays makes what somebody else has added to an object the gateway's own, in the record of who owns which field,
// so that the apply that follows takes it away: a container, a variable or a host path beside what was rendered would
// run unverified. It alters nothing that runs, and is sent only if there is such a field. It returns the version to
// apply to, and whether there was one.
func (r *reconciler) claimStrays(ctx context.Context, next change) (version string, found bool, err error) {
	live, found, err := r.strays(ctx, next)
	if err != nil || !found {
		return next.live.GetResourceVersion(), false, err
	}
	before := live.DeepCopyObject().(client.Object)
	before.SetManagedFields(nil)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.local.Patch(ctx, live, patch, client.FieldOwner(v1alpha1.FieldOwnerGateway), client.DisableReadYourWritesConsistency); err != nil {
		return "", false, fmt.Errorf("take over fields of %s: %w", next.key, err)
	}
	return live.GetResourceVersion(), true, nil
}

// strays says whether somebody else owns a field that is Gatehouse's to decide, and returns the object with such fields
// made over. One that is not in the version of the pass any more has none: what is done to that gets a conflict.
func (r *reconciler) strays(ctx context.Context, next change) (client.Object, bool, error) {
	live := kindOf(next.object.Kind).object() // past the cache, which keeps no field owners
	if err := r.localLive.Get(ctx, next.object.Key, live); err != nil {
		return nil, false, fmt.Errorf("read %s: %w", next.key, err)
	}
	if live.GetUID() != next.live.GetUID() || live.GetResourceVersion() != next.live.GetResourceVersion() {
		return live, false, nil
	}
	entries, found, err := withoutStrays(next.owned, live.GetManagedFields())
	if err != nil {
		return nil, false, fmt.Errorf("read the field owners of %s: %w", next.key, err)
	}
	if found {
		live.SetManagedFields(entries)
	}
	return live, found, nil
}

// withoutStrays moves fields of the object's own content from their owners to Gatehouse. Status and scale are written
// through subresources and are left alone, as are the labels and annotations of a pod template: a restart by kubectl
// is one.
func withoutStrays(owned ownedKind, entries []metav1.ManagedFieldsEntry) ([]metav1.ManagedFieldsEntry, bool, error) {
	entries = slices.Clone(entries)
	mine := slices.IndexFunc(entries, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == v1alpha1.FieldOwnerGateway && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == ""
	})
	own := fieldpath.NewSet()
	if mine < 0 { // adopted: nothing was applied yet
		entries = append(entries, metav1.ManagedFieldsEntry{
			Manager: v1alpha1.FieldOwnerGateway, Operation: metav1.ManagedFieldsOperationApply,
			APIVersion: owned.kind.GroupVersion().String(), FieldsType: "FieldsV1", Time: ptr.To(metav1.Now()),
		})
		mine = len(entries) - 1
	} else if err := own.FromJSON(entries[mine].FieldsV1.GetRawReader()); err != nil {
		return nil, false, err
	}
	found := false
	for i, entry := range entries {
		if entry.Manager == v1alpha1.FieldOwnerGateway || entry.Subresource != "" || entry.FieldsV1 == nil ||
			entry.APIVersion != owned.kind.GroupVersion().String() {
			continue
		}
		theirs := fieldpath.NewSet()
		if err := theirs.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			return nil, false, err
		}
		strays := fieldpath.NewSet()
		for path := range theirs.All() {
			if owned.decides(path) {
				strays.Insert(path.Copy())
			}
		}
		if strays.Difference(own).Empty() {
			continue
		}
		found = true
		own = own.Union(strays)
		rest, err := theirs.Difference(strays).ToJSON()
		if err != nil {
			return nil, false, err
		}
		entries[i].FieldsV1 = metav1.NewFieldsV1(string(rest))
	}
	if !found {
		return nil, false, nil
	}
	all, err := own.ToJSON()
	if err != nil {
		return nil, false, err
	}
	entries[mine].FieldsV1 = metav1.NewFieldsV1(string(all))
	return entries, true, nil
}

// decides reports whether Gatehouse alone says what stands at a path.
func (owned ownedKind) decides(path fieldpath.Path) bool {
	under := func(names ...string) bool {
		if len(path) < len(names) {
			return false
		}
		for i, name := range names {
			if path[i].FieldName == nil || *path[i].FieldName != name {
				return false
			}
		}
		return true
	}
	if under("spec", "template", "metadata") {
		return false
	}
	return slices.ContainsFunc(owned.decided, func(names []string) bool { return under(names...) })
}
