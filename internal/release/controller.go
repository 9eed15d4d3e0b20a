package release

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/executor"
	"github.com/gatehouse-dev/gatehouse/internal/outcome"
	"github.com/gatehouse-dev/gatehouse/internal/registry"
	"github.com/gatehouse-dev/gatehouse/internal/revision"
)

// controllerName is how the controller is called in metrics, events and logs.
const controllerName = "release"

// reconciler moves releases. What it remembers saves it requests that would be refused, and decides nothing.
type reconciler struct {
	client    client.Client
	live      client.Reader
	clock     clock.PassiveClock
	pool      *registry.Pool
	executors *executor.Live
	witness   *executor.Witness
	namespace string
	inquiries executor.Inquiries
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
	known, refusal := r.assess(ctx, release)
	if refusal != nil && outcome.As(refusal) == nil {
		return pass.Finish(ctx, refusal)
	}

	// What was accepted last goes on, whatever the spec says now, as far as it verifies.
	standings, err := r.standings(ctx, release, known)
	if err != nil {
		return pass.Finish(ctx, err)
	}
	wake, err := r.rollOut(ctx, release, standings)
	if err != nil {
		return pass.Finish(ctx, err)
	}
	described := describe(pass, release, known, refusal)
	announce(ctx, pass, release, before)
	r.metrics.observe(release)
	result, err := pass.Finish(ctx, described, outcome.WakeAt(wake), outcome.WakeAt(known.resolved.wake), outcome.WakeAt(standings.wake), outcome.WakeAt(known.verdict.wake))
	if release.ResourceVersion != version {
		r.memory.wrote(release)
	}
	if err != nil {
		return result, err
	}
	again, err := r.prune(ctx, release, before)
	if again > 0 {
		result.RequeueAfter = min(result.RequeueAfter, again)
	}
	return result, err
}

// assessment is what is known of what a spec asks for.
type assessment struct {
	wanted   candidate
	resolved resolution
	// revision is zero until the digest is known, and then its images have a verdict.
	revision revision.Revision
	verdict  verdict
	// accepted says that it is the accepted revision.
	accepted bool
}

// assess takes the spec through accept → resolve → verify → record, as far as it comes.
func (r *reconciler) assess(ctx context.Context, release *v1alpha1.GatewayRelease) (assessment, error) {
	var known assessment
	var err error
	if known.wanted, err = r.accept(ctx, release); err != nil {
		return known, err
	}
	if known.resolved, err = r.resolve(ctx, release, known.wanted); err != nil || !known.resolved.known() {
		return known, err
	}
	if known.revision, err = known.wanted.revision(release, known.resolved.digest); err != nil {
		return known, err
	}
	if known.revision.Name() != release.Status.Revision {
		if known.wanted, err = r.again(ctx, release, known.wanted); err != nil {
			return known, err
		}
		if known.revision, err = known.wanted.revision(release, known.resolved.digest); err != nil {
			return known, err
		}
	}
	known.verdict = r.verify(ctx, release, known.revision)
	if news(release, known) {
		if known.verdict, err = r.confirmed(ctx, known.verdict, 0); err != nil {
			return known, err
		}
	}
	// What does not verify any more stays the accepted revision, and is kept for those who run it.
	known.accepted = known.verdict.admits() || known.revision.Name() == release.Status.Revision
	if known.accepted {
		err = r.record(ctx, release, known.revision)
	}
	return known, err
}
