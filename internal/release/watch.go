package release

import (
	"context"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/executor"
	"github.com/gatehouse-dev/gatehouse/internal/rollout"
)

// comeOrGone passes all but updates: a revision never changes, but for its owner.
var comeOrGone = predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}

func (r *reconciler) ownNamespace() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(object client.Object) bool { return object.GetNamespace() == r.namespace })
}

// dependants wakes the releases that name an object, by one of the indexes.
func (r *reconciler) dependants(index string) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, object client.Object) []reconcile.Request {
		releases := &v1alpha1.GatewayReleaseList{}
		if err := r.client.List(ctx, releases, client.MatchingFields{index: object.GetName()}, client.UnsafeDisableDeepCopy); err != nil {
			// A read from the cache fails only before it is filled; then every release has its first pass ahead.
			log.FromContext(ctx).Error(err, "cannot find the releases that a change concerns", "object", object.GetName())
			return nil
		}
		requests := make([]reconcile.Request, 0, len(releases.Items))
		for i := range releases.Items {
			requests = append(requests, requestFor(releases.Items[i].Name))
		}
		return requests
	})
}

// judgedBy names the releases of which an Executor judges an image: their own, or one of the profile's template, which
// the release does not show. So all that ask for a verdict have a pass, which costs those that are not concerned a look
// at what is known already.
func (r *reconciler) judgedBy(ctx context.Context, change executor.Change) []reconcile.Request {
	if change.Name.Namespace != "" {
		return nil // a tenant's own Executor judges what runs in its namespace, not what a release gives
	}
	var requests []reconcile.Request
	for _, verification := range []v1alpha1.Verification{v1alpha1.VerificationRequired, v1alpha1.VerificationIfConfigured} {
		releases := &v1alpha1.GatewayReleaseList{}
		if err := r.client.List(ctx, releases, client.MatchingFields{indexVerification: string(verification)}, client.UnsafeDisableDeepCopy); err != nil {
			// As in dependants: every release has its first pass ahead.
			log.FromContext(ctx).Error(err, "cannot find the releases that an Executor concerns", "executor", change.Name.Name)
			return nil
		}
		for i := range releases.Items {
			requests = append(requests, requestFor(releases.Items[i].Name))
		}
	}
	return requests
}

func requestFor(release string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: release}}
}

// revisionHandler wakes the release that a stored revision is of: the accepted one is written anew when somebody has
// deleted it, and one that nothing needs any more is deleted as soon as the cache shows it.
func (r *reconciler) revisionHandler() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			name := e.Object.GetLabels()[v1alpha1.LabelRelease]
			release := &v1alpha1.GatewayRelease{}
			if err := r.client.Get(ctx, client.ObjectKey{Name: name}, release, client.UnsafeDisableDeepCopy); err != nil {
				return // its first pass is ahead, or it is gone
			}
			if !slices.Contains(named(&release.Status), e.Object.GetName()) {
				q.Add(requestFor(name))
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			if name := e.Object.GetLabels()[v1alpha1.LabelRelease]; name != "" {
				q.Add(requestFor(name))
			}
		},
	}
}

// How long a release waits for more news of its fleet after some: gateways that were admitted together report together,
// and one pass over all of them writes one status. The more are under way, the more there is to wait for; a few are not
// kept waiting, because the next ones wait for them.
const (
	leastBurst = 5 * time.Millisecond
	mostBurst  = 50 * time.Millisecond
	burstEach  = mostBurst / 500 // of the largest window
)

// burst is how long a window has a release wait. Without one nobody waits for the release.
func burst(window *v1alpha1.RolloutStatus) time.Duration {
	if window == nil || len(window.InFlight) == 0 {
		return mostBurst
	}
	return max(leastBurst, min(burstEach*time.Duration(len(window.InFlight)), mostBurst))
}

// window is that of a release, which may not be there.
func (r *reconciler) window(ctx context.Context, name string) *v1alpha1.RolloutStatus {
	release := &v1alpha1.GatewayRelease{}
	if err := r.client.Get(ctx, client.ObjectKey{Name: name}, release, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	return release.Status.Rollout
}

// gatewayHandler wakes the release of a gateway when the planner would see another gateway than before. One that
// moves to another release wakes both, and the one that it came from once more when it has left what it ran of it.
func (r *reconciler) gatewayHandler() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	wakeNamed := func(ctx context.Context, q queue, name string) {
		q.AddAfter(requestFor(name), burst(r.window(ctx, name)))
	}
	wake := func(ctx context.Context, q queue, object client.Object) {
		if gateway, ok := object.(*v1alpha1.GatewayInstance); ok {
			wakeNamed(ctx, q, gateway.Spec.ReleaseRef.Name)
		}
	}
	// One whose record is of another release than it follows keeps that other's revision from being deleted.
	free := func(ctx context.Context, q queue, gateway *v1alpha1.GatewayInstance) {
		if name := recordedRelease(gateway); name != "" && name != gateway.Spec.ReleaseRef.Name {
			wakeNamed(ctx, q, name)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { wake(ctx, q, e.Object) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			wake(ctx, q, e.Object)
			if gateway, ok := e.Object.(*v1alpha1.GatewayInstance); ok {
				free(ctx, q, gateway)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			before, isGateway := e.ObjectOld.(*v1alpha1.GatewayInstance)
			now, _ := e.ObjectNew.(*v1alpha1.GatewayInstance)
			if !isGateway || now == nil {
				return
			}
			moved := before.Spec.ReleaseRef != now.Spec.ReleaseRef
			if moved {
				wake(ctx, q, before)
			}
			if moved || !reflect.DeepEqual(rollout.MemberOf(before), rollout.MemberOf(now)) {
				wake(ctx, q, now)
			}
			if !reflect.DeepEqual(before.Status.Revision, now.Status.Revision) {
				free(ctx, q, before)
			}
		},
	}
}
