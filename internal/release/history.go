package release

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// defaultHistoryLimit is that of the API, for objects that did not pass through its defaults.
const defaultHistoryLimit = 10

// history lists the stored revisions of a release as the cache has them, the oldest first. They are not to be modified.
func (r *reconciler) history(ctx context.Context, release string) ([]appsv1.ControllerRevision, error) {
	return listRevisions(ctx, r.client, release, client.InNamespace(r.namespace), client.MatchingFields{indexRevisions: release}, client.UnsafeDisableDeepCopy)
}

// stored is a revision as the cache has it, not to be modified; nil if it is not there.
func (r *reconciler) stored(ctx context.Context, name string) (*appsv1.ControllerRevision, error) {
	found := &appsv1.ControllerRevision{}
	err := r.client.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: name}, found, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read revision %s: %w", name, err)
	}
	return found, nil
}

// presentHistory is history as the API server has it.
func (r *reconciler) presentHistory(ctx context.Context, release string) ([]appsv1.ControllerRevision, error) {
	return listRevisions(ctx, r.live, release, client.InNamespace(r.namespace), client.MatchingLabels{v1alpha1.LabelRelease: release})
}

func listRevisions(ctx context.Context, reader client.Reader, release string, options ...client.ListOption) ([]appsv1.ControllerRevision, error) {
	list := &appsv1.ControllerRevisionList{}
	if err := reader.List(ctx, list, options...); err != nil {
		return nil, fmt.Errorf("list revisions of release %s: %w", release, err)
	}
	slices.SortFunc(list.Items, func(a, b appsv1.ControllerRevision) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.Name, b.Name))
	})
	return list.Items, nil
}

// prune deletes the oldest revisions beyond the limit that nothing needs: not what status named when the pass began
// nor what it names now, and nothing that a gateway has recorded, of the fleet or on its way to another release.
func (r *reconciler) prune(ctx context.Context, release *v1alpha1.GatewayRelease, before v1alpha1.GatewayReleaseStatus) error {
	history, err := r.history(ctx, release.Name)
	if err != nil {
		return err
	}
	limit := defaultHistoryLimit
	if release.Spec.RevisionHistoryLimit != nil {
		limit = int(*release.Spec.RevisionHistoryLimit)
	}
	if len(history) <= limit {
		return nil
	}
	needed := map[string]bool{}
	for _, status := range []v1alpha1.GatewayReleaseStatus{before, release.Status} {
		needed[status.Revision] = true
		if status.Rollout != nil {
			needed[status.Rollout.Target] = true
			needed[status.Rollout.Stable] = true
		}
	}
	gateways := &v1alpha1.GatewayInstanceList{}
	if err := r.client.List(ctx, gateways, client.MatchingFields{indexRecorded: release.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list gateways that record a revision of release %s: %w", release.Name, err)
	}
	for i := range gateways.Items {
		needed[gateways.Items[i].Status.Revision.Name] = true
	}
	unused := slices.DeleteFunc(history, func(stored appsv1.ControllerRevision) bool {
		return needed[stored.Name] || !metav1.IsControlledBy(&stored, release)
	})
	if len(unused) <= limit {
		return nil
	}
	// A pass that is behind, of a leader that has been replaced, must not delete what the release has come back to.
	present := &v1alpha1.GatewayRelease{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(release), present); err != nil {
		return client.IgnoreNotFound(err)
	}
	if present.UID != release.UID || present.ResourceVersion != release.ResourceVersion {
		return fmt.Errorf("revisions of release %s are kept for now: it has changed since it was read", release.Name)
	}
	for i := range len(unused) - limit {
		stored := &unused[i]
		err := r.client.Delete(ctx, stored, client.Preconditions{UID: &stored.UID, ResourceVersion: &stored.ResourceVersion})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete revision %s, which nothing uses any more: %w", stored.Name, err)
		}
	}
	return nil
}
