package podstatus

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/executor"
)

// indexReportExecutor finds reports by namespace/name of the Executor that they are on.
const indexReportExecutor = "spec.executor"

// ownCache holds the reports of one pod and no others, so that a replica that does not lead keeps as many in memory as
// there are Executors, however many replicas there are.
func ownCache(mgr manager.Manager, namespace string, pod types.UID, failed toolscache.WatchErrorHandlerWithContext) (cache.Cache, error) {
	own, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient:               mgr.GetHTTPClient(),
		Scheme:                   mgr.GetScheme(),
		Mapper:                   mgr.GetRESTMapper(),
		DefaultTransform:         withoutManagers,
		DefaultWatchErrorHandler: failed,
		ByObject: map[client.Object]cache.ByObject{
			&v1alpha1.ExecutorPodStatus{}: {Namespaces: map[string]cache.Config{
				namespace: {LabelSelector: labels.SelectorFromSet(labels.Set{v1alpha1.LabelPodUID: string(pod)})},
			}},
		},
	})
	if err != nil {
		return nil, err
	}
	return own, own.IndexField(context.Background(), &v1alpha1.ExecutorPodStatus{}, indexReportExecutor, func(object client.Object) []string {
		return []string{keyOf(object.(*v1alpha1.ExecutorPodStatus).Spec.Executor).String()}
	})
}

// withoutManagers drops who owns which field: nobody here looks at it.
func withoutManagers(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}

// sources wake the Reporter: for what is said and changes on the board, for what others do to this replica's reports, and
// for reports on Executors that are gone, once it is known of a namespace which are there.
func (r *Reporter) sources(reports cache.Cache) []source.Source {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	wake := func(q queue, report *v1alpha1.ExecutorPodStatus, deleted, certain bool) {
		if r.latest.news(report, deleted, certain) {
			q.Add(reconcile.Request{NamespacedName: keyOf(report.Spec.Executor)})
		}
	}
	return []source.Source{
		r.board.Changes(),
		source.Kind(reports, &v1alpha1.ExecutorPodStatus{}, handler.TypedFuncs[*v1alpha1.ExecutorPodStatus, reconcile.Request]{
			CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*v1alpha1.ExecutorPodStatus], q queue) {
				wake(q, e.Object, false, true)
			},
			UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*v1alpha1.ExecutorPodStatus], q queue) {
				wake(q, e.ObjectNew, false, true)
			},
			DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*v1alpha1.ExecutorPodStatus], q queue) {
				wake(q, e.Object, true, !e.DeleteStateUnknown)
			},
		}),
		r.live.Changes(func(ctx context.Context, change executor.Change) []reconcile.Request {
			if change.Name.Name != "" {
				return nil // the board tells
			}
			list := &v1alpha1.ExecutorPodStatusList{}
			if err := reports.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
				r.log.Error(err, "cannot list this replica's reports; those on Executors that are gone stay until the resync")
			}
			var all []reconcile.Request
			for i := range list.Items {
				all = append(all, reconcile.Request{NamespacedName: keyOf(list.Items[i].Spec.Executor)})
			}
			return all
		}),
	}
}
