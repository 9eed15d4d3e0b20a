package executor

import (
	"cmp"
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// materialHandler wakes the Executors that use a Secret or a ConfigMap, the cluster's or those of its namespace: by what
// their specs name, and by what their builds were made of.
func (r *reconciler) materialHandler(kind RefKind, tenants bool) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, object client.Object) []reconcile.Request {
		ref := Ref{kind, object.GetName()}
		namespace := object.GetNamespace()
		if !tenants {
			if namespace != r.namespace {
				return nil
			}
			namespace = ""
		}
		names, err := indexed(ctx, r.client, namespace, indexRefs, ref.indexKey())
		if err != nil {
			// A read from the cache fails only before it is filled; then every Executor has its first pass ahead.
			log.FromContext(ctx).Error(err, "cannot find the Executors that a change concerns", "object", object.GetName())
		}
		return append(requests(names), requests(r.builds.users(namespace, ref))...)
	})
}

func compareNames(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
