package release

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/executor"
	"github.com/gatehouse-dev/gatehouse/internal/outcome"
	"github.com/gatehouse-dev/gatehouse/internal/registry"
	"github.com/gatehouse-dev/gatehouse/internal/wake"
)

// Dependencies are what the controller works with. All are needed.
type Dependencies struct {
	// Client reads from the manager's cache, which must hold the Secrets and ConfigMaps of Namespace and the
	// ControllerRevisions that Gatehouse manages there.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// Recorder sends events.
	Recorder events.EventRecorder
	// Clock tells the time.
	Clock clock.PassiveClock
	// Pool resolves and verifies images. Whoever made it starts it.
	Pool *registry.Pool
	// Executors are those that this replica serves.
	Executors *executor.Live
	// Witness tells whether they are those that there are.
	Witness *executor.Witness
	// MaxVerdictAge is how old a positive verdict may be before it is made anew, although nothing by which it was made has
	// changed: a certificate may have been revoked since.
	MaxVerdictAge time.Duration
	// Namespace is Gatehouse's own: that of revisions, and of the Secrets and ConfigMaps of releases.
	Namespace string
	// Resync is within what time every release is passed over again.
	Resync time.Duration
	// Workers is how many releases are passed over at a time.
	Workers int
	// Passes counts the passes of all controllers.
	Passes *outcome.Metrics
	// Registerer gets the controller's own metrics.
	Registerer prometheus.Registerer
}

// Setup adds the controller, its indexes and its watches to a manager.
func Setup(ctx context.Context, mgr manager.Manager, d Dependencies) error {
	if err := addIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	gateways, err := gatewayStore(ctx, mgr.GetCache())
	if err != nil {
		return err
	}
	metrics, err := newMetrics(d.Registerer)
	if err != nil {
		return err
	}
	verifications, err := executor.CountReleases(d.Registerer)
	if err != nil {
		return err
	}
	r := &reconciler{
		client:       d.Client,
		live:         d.Live,
		clock:        d.Clock,
		pool:         d.Pool,
		executors:    d.Executors,
		witness:      d.Witness,
		inquiries:    executor.Inquiries{Pool: d.Pool, Clock: d.Clock, MaxAge: d.MaxVerdictAge, Verifications: verifications},
		namespace:    d.Namespace,
		metrics:      metrics,
		memory:       newMemory(d.Clock),
		fleetVersion: gateways.LastStoreSyncResourceVersion,
		finisher: &outcome.Finisher{
			Client:     d.Client,
			Recorder:   d.Recorder,
			Clock:      d.Clock,
			Metrics:    d.Passes,
			Controller: controllerName,
			FieldOwner: v1alpha1.FieldOwnerRelease,
			Resync:     d.Resync,
		},
	}
	err = builder.ControllerManagedBy(mgr).
		Named(controllerName).
		For(&v1alpha1.GatewayRelease{}, builder.WithPredicates(wake.Asked)).
		Watches(&v1alpha1.GatewayInstance{}, r.gatewayHandler()).
		Watches(&v1alpha1.GatewayProfile{}, r.dependants(indexProfile), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Secret{}, r.dependants(indexSecret), builder.WithPredicates(r.ownNamespace(), wake.DataChanged)).
		Watches(&corev1.ConfigMap{}, r.dependants(indexConfigMap), builder.WithPredicates(r.ownNamespace(), wake.DataChanged)).
		Watches(&appsv1.ControllerRevision{}, r.revisionHandler(), builder.WithPredicates(comeOrGone)).
		WatchesRawSource(d.Pool.Completions()).
		WatchesRawSource(d.Executors.Changes(r.judgedBy)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: d.Workers,
			RateLimiter:             outcome.NewRateLimiter[reconcile.Request](),
		}).
		WithLogConstructor(outcome.Logged(mgr.GetLogger().WithName(controllerName), "release", func(n types.NamespacedName) string { return n.Name })).
		Complete(outcome.Traced(controllerName, r))
	if err != nil {
		return fmt.Errorf("set up the %s controller: %w", controllerName, err)
	}
	return nil
}

// gatewayStore is where the cache keeps gateways: it knows up to which resource version it has caught up, which a list
// from the cache does not say.
func gatewayStore(ctx context.Context, c cache.Cache) (toolscache.Store, error) {
	informer, err := c.GetInformer(ctx, &v1alpha1.GatewayInstance{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watch gateways: %w", err)
	}
	shared, ok := informer.(toolscache.SharedIndexInformer)
	if !ok {
		return nil, fmt.Errorf("watch gateways: the cache holds them in parts (%T); let it watch all namespaces", informer)
	}
	return shared.GetStore(), nil
}
