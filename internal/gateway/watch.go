package gateway

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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
)

// allowedChanged passes changes of who may run by a profile. The rest of a profile reaches gateways as a revision.
var allowedChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, now := e.ObjectOld.(*v1alpha1.GatewayProfile), e.ObjectNew.(*v1alpha1.GatewayProfile)
		return !equality.Semantic.DeepEqual(before.Spec.AllowedNamespaces, now.Spec.AllowedNamespaces)
	},
}

// made passes revisions that appear: one never changes, and that it goes touches nothing.
var made = predicate.Funcs{
	UpdateFunc: func(event.UpdateEvent) bool { return false },
	DeleteFunc: func(event.DeleteEvent) bool { return false },
}

// relabelled passes namespaces whose labels have changed, because a profile may allow namespaces by label. One that is
// new has no gateways, and one that goes takes them along.
var relabelled = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	DeleteFunc: func(event.DeleteEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels())
	},
}

// stuckChanged passes pods about which there is something else to say than before. All else that pods do shows in their
// Deployment.
var stuckChanged = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return stuckPod(e.Object.(*corev1.Pod)) != "" },
	DeleteFunc: func(e event.DeleteEvent) bool { return stuckPod(e.Object.(*corev1.Pod)) != "" },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return stuckPod(e.ObjectOld.(*corev1.Pod)) != stuckPod(e.ObjectNew.(*corev1.Pod))
	},
}

// labelHandler wakes the gateway whose label an object bears, or bore: one that lost it looks deleted to the cache.
// Labels rather than owner references, which do not reach across clusters.
func labelHandler() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		gateway := object.GetLabels()[v1alpha1.LabelGateway]
		if gateway == "" {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: gateway}}}
	})
}

// releaseHandler wakes those gateways whose part of a release has changed: all when it appears or goes, those that the
// window has admitted to something new, those that run nothing yet when there is something to install, and those that may
// not take the target when it is another.
func (r *reconciler) releaseHandler() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	all := func(ctx context.Context, object client.Object, q queue) {
		for _, gateway := range r.followers(ctx, object.GetName()) {
			q.Add(requestFor(&gateway))
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { all(ctx, e.Object, q) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { all(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			before, now := e.ObjectOld.(*v1alpha1.GatewayRelease), e.ObjectNew.(*v1alpha1.GatewayRelease)
			if before.UID != now.UID || before.Spec.ProfileRef != now.Spec.ProfileRef {
				all(ctx, now, q)
				return
			}
			for _, entry := range admittedAnew(before.Status.Rollout, now.Status.Rollout) {
				q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: entry.Namespace, Name: entry.Name}})
			}
			install, judge := installable(before.Status.Rollout, now.Status.Rollout), judgedAnew(before, now)
			if !install && !judge {
				return
			}
			for _, gateway := range r.followers(ctx, now.Name) {
				if install && gateway.Status.Revision == nil || judge && refusalIn(gateway.Status.Conditions) != nil {
					q.Add(requestFor(&gateway))
				}
			}
		},
	}
}

// admittedAnew are the entries of the window that were not in it before, or for another attempt, target or generation, or
// as one that has nothing to lose; and all of them when the target was withheld and is not any more.
func admittedAnew(before, now *v1alpha1.RolloutStatus) []v1alpha1.InFlightGateway {
	if now == nil {
		return nil
	}
	was := map[types.UID]v1alpha1.InFlightGateway{}
	if before != nil && before.Target == now.Target && !given(before, now, now.Target) {
		for _, entry := range before.InFlight {
			was[entry.UID] = entry
		}
	}
	var out []v1alpha1.InFlightGateway
	for _, entry := range now.InFlight {
		if old, found := was[entry.UID]; !found || old.Attempt != entry.Attempt || old.Generation != entry.Generation || old.WasReady != entry.WasReady {
			out = append(out, entry)
		}
	}
	return out
}

// installable reports whether a gateway that runs nothing is told something else than before.
func installable(before, now *v1alpha1.RolloutStatus) bool {
	if now == nil {
		return before != nil
	}
	return before == nil || before.Stable != now.Stable || (before.Target == "") != (now.Target == "") ||
		!slices.Equal(before.Withheld, now.Withheld)
}

// judgedAnew reports whether gateways to which their own namespace has refused a revision are given another, or need no
// signatures any more.
func judgedAnew(before, now *v1alpha1.GatewayRelease) bool {
	target := func(window *v1alpha1.RolloutStatus) string {
		if window == nil {
			return ""
		}
		return window.Target
	}
	return before.Spec.Verification != now.Spec.Verification || target(before.Status.Rollout) != target(now.Status.Rollout)
}

// judgedBy names the gateways of a tenant whose own Executor has changed. A change of the cluster's concerns releases.
func (r *reconciler) judgedBy(ctx context.Context, change executor.Change) []reconcile.Request {
	if change.Name.Namespace == "" {
		return nil
	}
	return r.within(ctx, change.Name.Namespace)
}

// given reports whether a revision was withheld and is not any more.
func given(before, now *v1alpha1.RolloutStatus, revision string) bool {
	return slices.Contains(before.Withheld, revision) && !slices.Contains(now.Withheld, revision)
}

// profileHandler wakes the gateways that follow the releases of a profile.
func (r *reconciler) profileHandler() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, object client.Object) []reconcile.Request {
		releases := &v1alpha1.GatewayReleaseList{}
		if !r.listed(ctx, releases, client.MatchingFields{indexProfile: object.GetName()}) {
			return nil
		}
		var requests []reconcile.Request
		for _, release := range releases.Items {
			for _, gateway := range r.followers(ctx, release.Name) {
				requests = append(requests, requestFor(&gateway))
			}
		}
		return requests
	})
}

// revisionHandler wakes the gateways that have recorded a revision: it may have gone with its release, and come again.
func (r *reconciler) revisionHandler() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, object client.Object) []reconcile.Request {
		gateways := &v1alpha1.GatewayInstanceList{}
		if object.GetNamespace() != r.namespace || !r.listed(ctx, gateways, client.MatchingFields{indexRecorded: object.GetName()}) {
			return nil
		}
		requests := make([]reconcile.Request, 0, len(gateways.Items))
		for i := range gateways.Items {
			requests = append(requests, requestFor(&gateways.Items[i]))
		}
		return requests
	})
}

// namespaceHandler wakes the gateways of a namespace.
func (r *reconciler) namespaceHandler() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, object client.Object) []reconcile.Request {
		return r.within(ctx, object.GetName())
	})
}

// within are the gateways of a namespace.
func (r *reconciler) within(ctx context.Context, namespace string) []reconcile.Request {
	gateways := &v1alpha1.GatewayInstanceList{}
	if !r.listed(ctx, gateways, client.InNamespace(namespace)) {
		return nil
	}
	var requests []reconcile.Request
	for i := range gateways.Items {
		requests = append(requests, requestFor(&gateways.Items[i]))
	}
	return requests
}

func (r *reconciler) followers(ctx context.Context, release string) []v1alpha1.GatewayInstance {
	gateways := &v1alpha1.GatewayInstanceList{}
	if !r.listed(ctx, gateways, client.MatchingFields{indexFollows: release}) {
		return nil
	}
	return gateways.Items
}

// listed reads from the cache. That fails only before the cache is filled; then every gateway has its first pass ahead.
func (r *reconciler) listed(ctx context.Context, list client.ObjectList, options ...client.ListOption) bool {
	if err := r.hub.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		log.FromContext(ctx).Error(err, "cannot find the gateways that a change concerns")
		return false
	}
	return true
}

func requestFor(gateway *v1alpha1.GatewayInstance) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(gateway)}
}
