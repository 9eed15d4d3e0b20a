package gateway

import (
	"context"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/gateway/manifest"
)

// changes are what a gateway needs to become what it should be.
type changes struct {
	apply  []change
	remove []id // owned, and not asked for any more
}

// change is one object to apply.
type change struct {
	key    id
	owned  ownedKind
	object manifest.Object
	// live is what is there; nil creates.
	live client.Object
	// edited says that the inputs have changed.
	edited bool
	// touched says that somebody else has altered the object since the last apply, or that nobody knows. Both may be so at
	// once: an edit must not cover up what somebody has added.
	touched bool
	// adopted says that the object was not the gateway's until now.
	adopted bool
}

// compare says what differs. An object whose recorded inputs are the present ones, and which is as it was after the
// last apply, is left out whatever this version of Gatehouse would render.
func (r *reconciler) compare(ctx context.Context, work *work, rendered []manifest.Object) (changes, error) {
	var out changes
	asked := map[id]bool{}
	for _, object := range rendered {
		key := id{object.Kind.Kind, object.Key.Name}
		asked[key] = true
		live, err := r.find(ctx, work, key, object)
		if err != nil {
			return changes{}, err
		}
		next := change{key: key, owned: kindOf(object.Kind), object: object, live: live, edited: true}
		if live != nil {
			if !live.GetDeletionTimestamp().IsZero() {
				continue // its deletion wakes
			}
			if next.adopted, err = claim(work.gateway, object, live); err != nil {
				return changes{}, err
			}
			work.live[key] = live
			now, err := mark(next.owned, live)
			if err != nil {
				return changes{}, err
			}
			next.edited = live.GetAnnotations()[v1alpha1.AnnotationInputs] != object.Inputs
			_, known := work.marks[key]
			if !known && work.adopting && !next.edited && !next.adopted {
				as, err := r.asApplied(ctx, work.gateway, next)
				if err != nil {
					return changes{}, err
				}
				if as {
					work.marks[key] = now
				}
			}
			next.touched = work.marks[key] != now
			if !next.edited && !next.adopted && !next.touched {
				continue
			}
		}
		out.apply = append(out.apply, next)
	}
	for _, key := range slices.SortedFunc(maps.Keys(work.live), byKindAndName) {
		live := work.live[key]
		if !asked[key] && metav1.IsControlledBy(live, work.gateway) && live.GetDeletionTimestamp().IsZero() {
			out.remove = append(out.remove, key)
		}
	}
	for key := range work.marks {
		if !asked[key] && work.live[key] == nil {
			delete(work.marks, key)
		}
	}
	return out, nil
}

// find is the object that lives under a name; nil when there is none. The cache holds only what Gatehouse manages, so
// a miss is looked up past it.
func (r *reconciler) find(ctx context.Context, work *work, key id, object manifest.Object) (client.Object, error) {
	if live, found := work.live[key]; found {
		return live, nil
	}
	live := kindOf(object.Kind).object()
	if err := r.localLive.Get(ctx, object.Key, live); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	return live, nil
}

// asApplied reports whether an object of which nothing is known any more may pass for what was applied last: it bears
// the gateway's labels and owner, runs the recorded image, and nobody else has had a say in what Gatehouse decides.
func (r *reconciler) asApplied(ctx context.Context, gateway *v1alpha1.GatewayInstance, next change) (bool, error) {
	deployment, runs := next.live.(*appsv1.Deployment)
	if runs && see(deployment, nil).image != gateway.Status.Revision.Image || !metav1.IsControlledBy(next.live, gateway) || !ours(gateway, next.live) {
		return false, nil
	}
	now, found, err := r.strays(ctx, next)
	return err == nil && !found && now.GetResourceVersion() == next.live.GetResourceVersion(), err
}

// rolls reports whether the changes alter what runs.
func (c changes) rolls() bool {
	return slices.ContainsFunc(c.apply, func(next change) bool {
		return next.object.Kind == manifest.DeploymentKind && next.edited
	})
}

func (c changes) none() bool { return len(c.apply) == 0 && len(c.remove) == 0 }
