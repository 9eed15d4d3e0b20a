package soak

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
)

// history holds that the revision of each release is stored, and of those that nobody uses no more than it asks for. What a
// barred gateway runs may be gone: people delete revisions, and releases with all of theirs.
func (w *world) history(ctx context.Context, s *specs) error {
	list := &appsv1.ControllerRevisionList{}
	if err := w.product.Client.List(ctx, list, client.InNamespace(fleet.Namespace)); err != nil {
		return err
	}
	used := map[string]bool{}
	for _, r := range s.releases {
		used[r.Status.Revision] = true
	}
	for i := range s.gateways {
		g := &s.gateways[i]
		if g.Status.Revision != nil && s.releases[g.Status.Revision.Release] != nil {
			used[g.Status.Revision.Name] = true
		}
	}
	unused := map[string]int{}
	for i := range list.Items {
		stored := &list.Items[i]
		release := s.releases[stored.Labels[v1alpha1.LabelRelease]]
		if release != nil && metav1.IsControlledBy(stored, release) && !used[stored.Name] {
			unused[release.Name]++
		}
		delete(used, stored.Name)
	}
	for _, r := range s.releases {
		if used[r.Status.Revision] {
			return fmt.Errorf("release %s: its revision %s is not stored", r.Name, r.Status.Revision)
		}
		if limit := int(ptr.Deref(r.Spec.RevisionHistoryLimit, 10)); unused[r.Name] > limit {
			return fmt.Errorf("release %s: %d revisions are stored that nobody uses, want no more than %d", r.Name, unused[r.Name], limit)
		}
	}
	return nil
}
