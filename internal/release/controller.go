package release

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/outcome"
	"github.com/gatehouse-dev/gatehouse/internal/registry"
)

// controllerName is how the controller is called in metrics, events and logs.
const controllerName = "release"

// reconciler moves releases. What it remembers saves it requests that would be refused, and decides nothing.
type reconciler struct {
	client    client.Client
	live      client.Reader
	clock     clock.PassiveClock
	pool      *registry.Pool
	namespace string
	finisher  *outcome.Finisher
	metrics   *metrics
	memory    *memory
	// fleetVersion is the resource version up to which the cache of gateways has caught up.
	fleetVersion func() string
}

// Reconcile brings the fleet of one release closer to what its spec says.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	release := &v1alpha1.GatewayRelease{}
	if err := r.client.Get(ctx, request.NamespacedName, release); err != nil {
		r.metrics.forget(request.Name) // read again before the next pass counts anything
		if apierrors.IsNotFound(err) {
			r.memory.forget(request.Name)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !release.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil // its gateways keep running and say so
	}
	if again, behind := r.memory.behind(release); behind {
		return reconcile.Result{RequeueAfter: again}, nil
	}
	version := release.ResourceVersion
	pass := r.finisher.Begin(release)
	before := *release.Status.DeepCopy()

	// What the spec asks for becomes the accepted revision, or there is a reason why not yet.
	wanted, refusal := r.accept(ctx, release)
	var found resolution
	if refusal == nil {
		found, refusal = r.resolve(ctx, release, wanted)
	}
	if refusal == nil && found.known() {
		refusal = r.record(ctx, release, wanted, found)
	}
	if refusal != nil && outcome.As(refusal) == nil {
		return pass.Finish(ctx, refusal)
	}

	// What was accepted last goes on, whatever the spec says now.
	wake, err := r.rollOut(ctx, release)
	if err != nil {
		return pass.Finish(ctx, err)
	}
	verdict := describe(pass, release, wanted, found, refusal)
	announce(ctx, pass, release, before)
	r.metrics.observe(release)
	result, err := pass.Finish(ctx, verdict, outcome.WakeAt(wake), outcome.WakeAt(found.wake))
	if release.ResourceVersion != version {
		r.memory.wrote(release)
	}
	if err != nil {
		return result, err
	}
	return result, r.prune(ctx, release, before)
}
