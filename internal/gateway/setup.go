package gateway

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/executor"
	"github.com/gatehouse-dev/gatehouse/internal/outcome"
	"github.com/gatehouse-dev/gatehouse/internal/registry"
	"github.com/gatehouse-dev/gatehouse/internal/wake"
)

const controllerName = "gateway"

// Dependencies are what the controller works with. All are needed.
type Dependencies struct {
	// Hub holds gateways, releases, profiles, revisions and namespaces.
	Hub cluster.Cluster
	// Local is where gateways run; it may be Hub. Its cache must hold what Gatehouse manages of the kinds that gateways
	// own, and their pods.
	Local cluster.Cluster
	// Executors are those that this replica serves; a tenant's own judge what its gateways are given.
	Executors *executor.Live
	// Witness tells whether they are those that there are.
	Witness *executor.Witness
	// Pool verifies images for gateways, and for nobody else: whom it wakes is a gateway. Whoever made it starts it.
	Pool *registry.Pool
	// Releases is the pool that verifies images for releases; what it knows is looked up again before a gateway takes
	// something. Whoever made it starts it.
	Releases *registry.Pool
	// MaxVerdictAge is how old a positive verdict may be by which a gateway takes a revision.
	MaxVerdictAge time.Duration
	// Recorder sends events.
	Recorder events.EventRecorder
	// Clock tells the time.
	Clock clock.PassiveClock
	// Namespace is Gatehouse's own, where revisions are.
	Namespace string
	// Resync is within what time every gateway is passed over again.
	Resync time.Duration
	// Workers is how many gateways are passed over at a time.
	Workers int
	// Passes counts the passes of all controllers.
	Passes *outcome.Metrics
	// Registerer gets the counters of verifications.
	Registerer prometheus.Registerer
}

// Setup adds the controller, its indexes and its watches to a manager.
func Setup(ctx context.Context, mgr manager.Manager, d Dependencies) error {
	if err := addIndexes(ctx, d.Hub.GetFieldIndexer(), d.Local.GetFieldIndexer()); err != nil {
		return err
	}
	releases, err := executor.CountReleases(d.Registerer)
	if err != nil {
		return err
	}
	tenants, err := executor.CountTenants(d.Registerer)
	if err != nil {
		return err
	}
	r := &reconciler{
		hub:       d.Hub.GetClient(),
		hubLive:   d.Hub.GetAPIReader(),
		local:     d.Local.GetClient(),
		localLive: d.Local.GetAPIReader(),
		namespace: d.Namespace,
		memory:    newMemory(d.Clock),

		executors: d.Executors,
		witness:   d.Witness,
		ofTenant:  executor.Inquiries{Pool: d.Pool, Clock: d.Clock, MaxAge: d.MaxVerdictAge, Verifications: tenants},
		ofRelease: executor.Inquiries{Pool: d.Releases, Clock: d.Clock, MaxAge: d.MaxVerdictAge, Verifications: releases},
		finisher: &outcome.Finisher{
			Client:     d.Hub.GetClient(),
			Recorder:   d.Recorder,
			Clock:      d.Clock,
			Metrics:    d.Passes,
			Controller: controllerName,
			FieldOwner: v1alpha1.FieldOwnerGateway,
			Resync:     d.Resync,
		},
	}
	hub := d.Hub.GetCache()
	set := builder.ControllerManagedBy(mgr).
		Named(controllerName).
		WatchesRawSource(source.Kind[client.Object](hub, &v1alpha1.GatewayInstance{}, &handler.EnqueueRequestForObject{}, wake.Asked)).
		WatchesRawSource(source.Kind[client.Object](hub, &v1alpha1.GatewayRelease{}, r.releaseHandler())).
		WatchesRawSource(source.Kind[client.Object](hub, &v1alpha1.GatewayProfile{}, r.profileHandler(), allowedChanged)).
		WatchesRawSource(source.Kind[client.Object](hub, &appsv1.ControllerRevision{}, r.revisionHandler(), made)).
		WatchesRawSource(source.Kind[client.Object](hub, &corev1.Namespace{}, r.namespaceHandler(), relabelled)).
		WatchesRawSource(source.Kind[client.Object](d.Local.GetCache(), &corev1.Pod{}, labelHandler(), stuckChanged)).
		WatchesRawSource(d.Pool.Completions()).
		WatchesRawSource(d.Executors.Changes(r.judgedBy))
	for _, owned := range ownedKinds {
		set = set.WatchesRawSource(source.Kind[client.Object](d.Local.GetCache(), owned.object(), labelHandler()))
	}
	err = set.
		WithOptions(controller.Options{
			MaxConcurrentReconciles: d.Workers,
			RateLimiter:             outcome.NewRateLimiter[reconcile.Request](),
		}).
		WithLogConstructor(outcome.Logged(mgr.GetLogger().WithName(controllerName), "gateway", types.NamespacedName.String)).
		Complete(outcome.Traced(controllerName, r))
	if err != nil {
		return fmt.Errorf("set up the %s controller: %w", controllerName, err)
	}
	return nil
}

// The indexes by which a change finds the gateways that it concerns. They are named after this controller, because a
// cache has one index of a name for all controllers.
const (
	// indexFollows finds the gateways that follow a release.
	indexFollows = "gateway:spec.releaseRef.name"
	// indexRecorded finds the gateways that have recorded a revision.
	indexRecorded = "gateway:status.revision.name"
	// indexProfile finds the releases that use a profile.
	indexProfile = "gateway:spec.profileRef.name"
	// indexGateway finds what bears a gateway's label, within its namespace.
	indexGateway = "gateway:label"
)

func addIndexes(ctx context.Context, hub, local client.FieldIndexer) error {
	byLabel := func(object client.Object) []string {
		if gateway := object.GetLabels()[v1alpha1.LabelGateway]; gateway != "" {
			return []string{gateway}
		}
		return nil
	}
	type index struct {
		indexer client.FieldIndexer
		kind    client.Object
		name    string
		values  client.IndexerFunc
	}
	indexes := []index{
		{hub, &v1alpha1.GatewayInstance{}, indexFollows, func(object client.Object) []string {
			return []string{object.(*v1alpha1.GatewayInstance).Spec.ReleaseRef.Name}
		}},
		{hub, &v1alpha1.GatewayInstance{}, indexRecorded, func(object client.Object) []string {
			if revision := object.(*v1alpha1.GatewayInstance).Status.Revision; revision != nil {
				return []string{revision.Name}
			}
			return nil
		}},
		{hub, &v1alpha1.GatewayRelease{}, indexProfile, func(object client.Object) []string {
			return []string{object.(*v1alpha1.GatewayRelease).Spec.ProfileRef.Name}
		}},
		{local, &corev1.Pod{}, indexGateway, byLabel},
	}
	for _, owned := range ownedKinds {
		indexes = append(indexes, index{local, owned.object(), indexGateway, byLabel})
	}
	for _, i := range indexes {
		if err := i.indexer.IndexField(ctx, i.kind, i.name, i.values); err != nil {
			return fmt.Errorf("index %s: %w", i.name, err)
		}
	}
	return nil
}
