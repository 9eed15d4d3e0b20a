package executor

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/outcome"
	"github.com/gatehouse-dev/gatehouse/internal/wake"
)

// Dependencies are what the controller works with. All are needed.
type Dependencies struct {
	// Client reads from the manager's cache, which must hold the Secrets, ConfigMaps and ControllerRevisions of
	// Namespace.
	Client client.Client
	// Reader reads from the API server.
	Reader client.Reader
	// Clock tells the time.
	Clock clock.Clock
	// Live is what the controller keeps; Witness is its witness.
	Live    *Live
	Witness *Witness
	// Board is where it says what this replica serves.
	Board *Board
	// Tools are what compiled Executors work with.
	Tools Tools
	// Namespace is Gatehouse's own: that of what Executors refer to, and of stored specs.
	Namespace string
	// Resync is within what time every Executor is passed over again.
	Resync time.Duration
	// Workers is how many Executors are passed over at a time: of the cluster's, and of all namespaces' as many again.
	Workers int
	// Passes counts the passes of all controllers.
	Passes *outcome.Metrics
	// Registerer gets the controller's own metrics.
	Registerer prometheus.Registerer
}

// Setup adds the controllers, their indexes and their watches to a manager. They run on every replica; good specs are
// stored by the leader.
func Setup(ctx context.Context, mgr manager.Manager, d Dependencies) error {
	if err := addIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	r := &reconciler{
		client:    d.Client,
		clock:     d.Clock,
		log:       mgr.GetLogger().WithName(controllerName),
		namespace: d.Namespace,
		live:      d.Live,
		board:     d.Board,
		tools:     d.Tools,
		reader:    d.Witness.reader,
		history:   &history{client: d.Client, live: d.Reader, namespace: d.Namespace},
		builds:    newBuilds(),
		queues:    &d.Witness.queues,
		metrics:   newMetrics(d.Registerer),
		passes:    d.Passes,
		resync:    d.Resync,
	}
	for _, add := range []func(manager.Manager, int) error{r.addCluster, r.addTenants} {
		if err := add(mgr, d.Workers); err != nil {
			return fmt.Errorf("set up the %s controller: %w", controllerName, err)
		}
	}
	for _, runnable := range []manager.Runnable{term{r}, roll{r}} {
		if err := mgr.Add(runnable); err != nil {
			return fmt.Errorf("set up the %s controller: %w", controllerName, err)
		}
	}
	return nil
}

// addCluster adds the controller of the cluster's Executors.
func (r *reconciler) addCluster(mgr manager.Manager, workers int) error {
	return r.controlledBy(mgr, controllerName, &v1alpha1.Executor{}, false).
		WatchesRawSource(r.queues.source(&r.queues.cluster)).
		WithOptions(options(workers)).
		Complete(outcome.Traced(controllerName, r))
}

// addTenants adds the controller of the Executors of namespaces. Each namespace gets a quarter of the workers at most.
func (r *reconciler) addTenants(mgr manager.Manager, workers int) error {
	shared := options(workers)
	shared.NewQueue = newFairQueue(max(1, workers/4))
	return r.controlledBy(mgr, tenantsName, &v1alpha1.NamespacedExecutor{}, true).
		WatchesRawSource(r.queues.source(&r.queues.tenants)).
		WithOptions(shared).
		Complete(outcome.Traced(tenantsName, r))
}

func (r *reconciler) controlledBy(mgr manager.Manager, name string, kind client.Object, tenants bool) *builder.Builder {
	return builder.ControllerManagedBy(mgr).
		Named(name).
		Watches(kind, &handler.EnqueueRequestForObject{}, builder.WithPredicates(wake.Edited)).
		Watches(&corev1.Secret{}, r.materialHandler(Secret, tenants), builder.WithPredicates(wake.DataChanged)).
		Watches(&corev1.ConfigMap{}, r.materialHandler(ConfigMap, tenants), builder.WithPredicates(wake.DataChanged)).
		WithLogConstructor(outcome.Logged(r.log, "executor", Describe))
}

func options(workers int) controller.Options {
	everyReplica := false
	return controller.Options{
		MaxConcurrentReconciles: workers,
		NeedLeaderElection:      &everyReplica,
		RateLimiter:             outcome.NewRateLimiter[reconcile.Request](),
	}
}

// roll takes down the initial list, without which nothing is ever called unmatched. It runs on every replica.
type roll struct{ *reconciler }

// NeedLeaderElection is false.
func (roll) NeedLeaderElection() bool { return false }

// Start lists the Executors once the cache is filled.
func (r roll) Start(ctx context.Context) error {
	names, err := listAll(ctx, r.client)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("list the Executors: %w", err)
	}
	r.live.Expect(names)
	return nil
}
