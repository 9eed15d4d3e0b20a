package gateway

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/executor"
	"github.com/gatehouse-dev/gatehouse/internal/gateway/manifest"
	"github.com/gatehouse-dev/gatehouse/internal/outcome"
)

// reconciler passes over gateways.
type reconciler struct {
	hub       client.Client // gateways, releases, profiles, revisions, namespaces: cached reads
	hubLive   client.Reader
	local     client.Client // what runs: cached reads, of what Gatehouse manages
	localLive client.Reader // the same past the cache, for what Gatehouse does not manage
	namespace string        // Gatehouse's own, where revisions are
	finisher  *outcome.Finisher
	memory    *memory

	executors *executor.Live
	witness   *executor.Witness
	ofTenant  executor.Inquiries // by the pool of gateways alone
	ofRelease executor.Inquiries // by the pool of releases
}

// Reconcile brings one gateway closer to what it was given.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	gateway := &v1alpha1.GatewayInstance{}
	if err := r.hub.Get(ctx, request.NamespacedName, gateway); err != nil {
		if apierrors.IsNotFound(err) {
			r.memory.forget(request.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !gateway.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil // what it owns goes with it
	}
	work := &work{gateway: gateway, pass: r.finisher.Begin(gateway), before: gateway.Status.DeepCopy()}
	if err := r.look(ctx, work); err != nil {
		return r.finish(ctx, work, err)
	}
	err := r.converge(ctx, work)
	r.observe(work, err)
	return r.finish(ctx, work, err)
}

// converge is everything that moves a gateway. It returns what keeps it from being as it should.
func (r *reconciler) converge(ctx context.Context, work *work) error {
	course, err := r.decide(ctx, work)
	if err != nil {
		return err
	}
	objects, err := render(work.gateway, course)
	if err != nil {
		return err
	}
	changes, err := r.compare(ctx, work, objects)
	if err != nil {
		return err
	}
	if err := r.record(ctx, work, changes); err != nil {
		return err
	}
	if err := r.apply(ctx, work, changes); err != nil {
		return err
	}
	return course.notice
}

// work is one pass over one gateway.
type work struct {
	gateway *v1alpha1.GatewayInstance
	pass    *outcome.Pass
	before  *v1alpha1.GatewayInstanceStatus // as it is stored
	live    objects                         // what the gateway has, as last seen
	pods    []corev1.Pod
	marks   marks // of what was applied last
	// adopting says that status was lost: what lives is what was applied.
	adopting bool
	// more says that the window gives something further than what was adopted.
	more bool
	// settled says that nothing is under way.
	settled bool
	// declined says that the planner must learn from status why the gateway did not take what the window gave.
	declined bool
	// undecided is why it is not known whether the gateway may take what the window gives; empty if it is.
	undecided string
	// wake is when to look at signatures again; zero is never, because an event tells.
	wake time.Time
	// announced says that an event goes with the next status write.
	announced bool
}

func render(gateway *v1alpha1.GatewayInstance, course course) ([]manifest.Object, error) {
	rendered, err := manifest.Render(gateway, course.revision, *gateway.Status.Revision)
	var wrong *manifest.SpecError
	switch {
	case errors.As(err, &wrong):
		return nil, outcome.Terminal(v1alpha1.ReasonInvalidSpec, err)
	case err != nil:
		return nil, outcome.Terminal(v1alpha1.ReasonInvalidProfile, err)
	}
	return rendered, nil
}
