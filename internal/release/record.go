package release

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/outcome"
	"github.com/gatehouse-dev/gatehouse/internal/revision"
)

// record makes a revision the accepted one. It is stored before any status names it, so a gateway never looks for one
// that is not there.
func (r *reconciler) record(ctx context.Context, release *v1alpha1.GatewayRelease, accepted revision.Revision) error {
	if err := r.store(ctx, release, accepted); err != nil {
		return err
	}
	release.Status.Image = accepted.Image.String()
	release.Status.Revision = accepted.Name()
	return nil
}

// store creates the revision's ControllerRevision if it is not there. One that is there is never changed, but for its
// owner: a release that was deleted and made again takes over what its gateways still record.
func (r *reconciler) store(ctx context.Context, release *v1alpha1.GatewayRelease, accepted revision.Revision) error {
	key := client.ObjectKey{Namespace: r.namespace, Name: accepted.Name()}
	stored := &appsv1.ControllerRevision{}
	err := r.client.Get(ctx, key, stored)
	if apierrors.IsNotFound(err) {
		if err := r.rehearse(ctx, release, accepted); err != nil {
			return err
		}
		// The cache may be behind; what is created has to be told from what is there by the API server itself.
		stored, err = r.create(ctx, release, accepted)
		if apierrors.IsAlreadyExists(err) {
			stored = &appsv1.ControllerRevision{}
			err = r.live.Get(ctx, key, stored)
		}
	}
	if err != nil {
		return fmt.Errorf("store revision %s: %w", key.Name, err)
	}
	kept, err := revision.FromControllerRevision(stored)
	if err != nil {
		return outcome.Terminal(v1alpha1.ReasonForeignRevision, err)
	}
	if !kept.Same(accepted) {
		return outcome.Terminal(v1alpha1.ReasonForeignRevision, fmt.Errorf("ControllerRevision %s/%s: it holds another content under the same name; delete it, and Gatehouse writes it anew", key.Namespace, key.Name))
	}
	return r.own(ctx, release, stored)
}

func (r *reconciler) create(ctx context.Context, release *v1alpha1.GatewayRelease, accepted revision.Revision) (*appsv1.ControllerRevision, error) {
	history, err := r.presentHistory(ctx, release.Name)
	if err != nil {
		return nil, err
	}
	number := int64(1)
	if len(history) > 0 {
		number = history[len(history)-1].Revision + 1
	}
	stored := accepted.ControllerRevision(r.namespace, release, number)
	return stored, r.client.Create(ctx, stored, client.FieldOwner(v1alpha1.FieldOwnerRelease))
}

func (r *reconciler) own(ctx context.Context, release *v1alpha1.GatewayRelease, stored *appsv1.ControllerRevision) error {
	if metav1.IsControlledBy(stored, release) {
		return nil
	}
	if owner := metav1.GetControllerOf(stored); owner != nil && (owner.Kind != revision.Owner(release).Kind || owner.Name != release.Name) {
		return outcome.Terminal(v1alpha1.ReasonForeignRevision, fmt.Errorf("ControllerRevision %s/%s: it is owned by %s %s; delete it, and Gatehouse writes it anew", stored.Namespace, stored.Name, owner.Kind, owner.Name))
	}
	owned := stored.DeepCopy()
	owned.OwnerReferences = []metav1.OwnerReference{revision.Owner(release)}
	patch := client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{})
	if err := r.client.Patch(ctx, owned, patch, client.FieldOwner(v1alpha1.FieldOwnerRelease)); err != nil {
		return fmt.Errorf("take over revision %s: %w", stored.Name, err)
	}
	return nil
}
