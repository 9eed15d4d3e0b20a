package podstatus

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/executor"
	"github.com/gatehouse-dev/gatehouse/internal/outcome"
	"github.com/gatehouse-dev/gatehouse/internal/wake"
)

// aggregatorName is how the controller is called in metrics, events and logs.
const aggregatorName = "podstatus"

// AggregatorDependencies are what the aggregator works with. All are needed but Leads.
type AggregatorDependencies struct {
	// Client reads from the manager's cache, which must hold the pods of Namespace.
	Client client.Client
	// Reader reads from the API server.
	Reader client.Reader
	// Recorder sends events.
	Recorder events.EventRecorder
	// Clock tells the time.
	Clock clock.Clock
	// Board is what this process serves: when it leads, what the others should trust.
	Board *executor.Board
	// Leads asks the API server whether this process leads; nil if there is no election.
	Leads func(context.Context) (bool, error)
	// Alone says that there are no replicas besides: this process's own report is the status.
	Alone bool
	// Namespace is Gatehouse's own, that of its pods and of their reports.
	Namespace string
	// Resync is within what time every Executor is passed over again.
	Resync time.Duration
	// Workers is how many Executors are passed over at a time.
	Workers int
	// Passes counts the passes of all controllers.
	Passes *outcome.Metrics
	// WatchFailed is told of reports that cannot be listed or watched.
	WatchFailed toolscache.WatchErrorHandlerWithContext
}

// SetupAggregator adds the aggregator to a manager: its controller, which runs on the leader; the reports of all replicas,
// which only the leader keeps in memory; and the sweeper. The manager must have the executor controller in it, whose
// indexes are used.
func SetupAggregator(ctx context.Context, mgr manager.Manager, d AggregatorDependencies) error {
	a := &aggregator{
		client: d.Client,
		board:  d.Board,
		leads:  d.Leads,
		pace:   newPace(d.Clock),
		left:   newLeft(),
		resync: d.Resync,
		finisher: &outcome.Finisher{
			Client:     d.Client,
			Recorder:   d.Recorder,
			Clock:      d.Clock,
			Metrics:    d.Passes,
			Controller: aggregatorName,
			FieldOwner: v1alpha1.FieldOwnerExecutor,
			Resync:     d.Resync,
		},
	}
	a.finisher.Settled = func(object outcome.Object) { a.left.leave(object) }
	logger := mgr.GetLogger().WithName(aggregatorName)
	options := controller.Options{
		MaxConcurrentReconciles: d.Workers,
		RateLimiter:             outcome.NewRateLimiter[reconcile.Request](),
	}
	b := builder.ControllerManagedBy(mgr).
		Named(aggregatorName).
		WatchesRawSource(d.Board.Changes()).
		WithLogConstructor(outcome.Logged(logger, "executor", executor.Describe))
	for _, kind := range subjects() {
		b = b.Watches(kind, a.subjectHandler(), builder.WithPredicates(wake.Edited)).
			Watches(kind, &handler.EnqueueRequestForObject{}, builder.WithPredicates(a.left.byOthers()))
	}
	if !d.Alone {
		reports, err := newReportCache(ctx, mgr, d)
		if err != nil {
			return err
		}
		a.crowd = &crowd{pods: d.Client, reports: reports, live: d.Reader, namespace: d.Namespace}
		sweeper := newSweeper(d, reports, logger)
		for _, runnable := range []manager.Runnable{leading{reports}, sweeper} {
			if err := mgr.Add(runnable); err != nil {
				return fmt.Errorf("set up the %s controller: %w", aggregatorName, err)
			}
		}
		// The pods are there when this process is elected.
		if _, err := mgr.GetCache().GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watch the pods: %w", err)
		}
		b = b.Watches(&corev1.Pod{}, a.podHandler(sweeper), builder.WithPredicates(inNamespace(d.Namespace), replicaChanged)).
			WatchesRawSource(source.Kind(reports, &v1alpha1.ExecutorPodStatus{}, a.reportHandler(sweeper), reportChanged))
		// Sources that start before the election would wait for reports, which only the leader has, and end the process.
		options.EnableWarmup = new(bool)
	}
	if err := b.WithOptions(options).Complete(outcome.Traced(aggregatorName, a)); err != nil {
		return fmt.Errorf("set up the %s controller: %w", aggregatorName, err)
	}
	return nil
}

// newReportCache makes the cache of what all replicas report.
func newReportCache(ctx context.Context, mgr manager.Manager, d AggregatorDependencies) (cache.Cache, error) {
	reports, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient:                  mgr.GetHTTPClient(),
		Scheme:                      mgr.GetScheme(),
		Mapper:                      mgr.GetRESTMapper(),
		DefaultNamespaces:           map[string]cache.Config{d.Namespace: {}},
		DefaultTransform:            withoutManagers,
		DefaultWatchErrorHandler:    d.WatchFailed,
		ReaderFailOnMissingInformer: true,
	})
	if err != nil {
		return nil, fmt.Errorf("set up the cache of what replicas report: %w", err)
	}
	return reports, indexReports(ctx, reports)
}

// indexReports lets reports be found by whom they are on, and by whose they are.
func indexReports(ctx context.Context, indexer client.FieldIndexer) error {
	for index, value := range map[string]func(*v1alpha1.ExecutorPodStatus) string{
		indexSubject: func(r *v1alpha1.ExecutorPodStatus) string { return string(r.Spec.Executor.UID) },
		indexPod:     func(r *v1alpha1.ExecutorPodStatus) string { return string(r.Spec.Pod.UID) },
	} {
		if err := indexer.IndexField(ctx, &v1alpha1.ExecutorPodStatus{}, index, func(object client.Object) []string {
			if r, is := object.(*v1alpha1.ExecutorPodStatus); is {
				return []string{value(r)}
			}
			return nil
		}); err != nil {
			return fmt.Errorf("index %s: %w", index, err)
		}
	}
	return nil
}

// leading runs a cache while this process leads, and not before.
type leading struct{ cache cache.Cache }

// NeedLeaderElection is true.
func (leading) NeedLeaderElection() bool { return true }

// Start fills the cache and keeps it so.
func (l leading) Start(ctx context.Context) error { return l.cache.Start(ctx) }

type requests = []reconcile.Request

// subjectHandler wakes an Executor, and those whose status depends on its spec as it was or is.
func (a *aggregator) subjectHandler() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, object client.Object) requests {
		woken := requests{{NamespacedName: client.ObjectKeyFromObject(object)}}
		others, err := related(ctx, a.client, object)
		if err != nil {
			// A read from the cache fails only before it is filled; then every Executor has its first pass ahead.
			log.FromContext(ctx).Error(err, "cannot find the Executors that a change concerns", "object", object.GetName())
		}
		for _, name := range others {
			woken = append(woken, reconcile.Request{NamespacedName: name})
		}
		return woken
	})
}

// podHandler wakes every Executor: a replica serves all of them, or none.
func (a *aggregator) podHandler(s *sweeper) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, pod client.Object) requests {
		s.ring()
		all, err := names(ctx, a.client)
		if err != nil {
			log.FromContext(ctx).Error(err, "cannot find the Executors that a replica serves", "replica", pod.GetName())
		}
		woken := make(requests, 0, len(all))
		for _, name := range all {
			woken = append(woken, reconcile.Request{NamespacedName: name})
		}
		return woken
	})
}

// reportHandler wakes the Executor that a report is on. Whether its pod is there is asked when it comes, once: that a pod
// goes is heard of the pod itself.
func (a *aggregator) reportHandler(s *sweeper) handler.TypedEventHandler[*v1alpha1.ExecutorPodStatus, reconcile.Request] {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	wake := handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, r *v1alpha1.ExecutorPodStatus) requests {
		return requests{{NamespacedName: keyOf(r.Spec.Executor)}}
	})
	return handler.TypedFuncs[*v1alpha1.ExecutorPodStatus, reconcile.Request]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*v1alpha1.ExecutorPodStatus], q queue) {
			s.saw(ctx, e.Object)
			wake.Create(ctx, e, q)
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*v1alpha1.ExecutorPodStatus], q queue) {
			if e.ObjectOld.UID != e.ObjectNew.UID { // another, under the same name
				s.saw(ctx, e.ObjectNew)
			}
			wake.Update(ctx, e, q)
		},
		DeleteFunc: wake.Delete,
	}
}

// reportChanged passes what alters what a report says.
var reportChanged = predicate.TypedFuncs[*v1alpha1.ExecutorPodStatus]{
	UpdateFunc: func(e event.TypedUpdateEvent[*v1alpha1.ExecutorPodStatus]) bool {
		return e.ObjectOld.UID != e.ObjectNew.UID || !equality.Semantic.DeepEqual(e.ObjectOld.Status, e.ObjectNew.Status)
	},
}

func inNamespace(namespace string) predicate.Predicate {
	return predicate.NewPredicateFuncs(func(object client.Object) bool { return object.GetNamespace() == namespace })
}
