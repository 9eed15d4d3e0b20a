package release

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

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
