package executor

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gatehouse-dev/gatehouse/internal/outcome"
)

// How the two controllers are called in metrics, events and logs. They differ in what they work on alone: the cluster's
// Executors never wait for those of tenants.
const (
	controllerName = "executor"
	tenantsName    = "namespacedexecutor"
)

// reconciler serves Executors from this replica, whether it leads or not.
type reconciler struct {
	client    client.Client
	clock     clock.Clock
	log       logr.Logger
	namespace string // Gatehouse's own
	live      *Live
	board     *Board
	tools     Tools
	reader    *reader
	history   *history
	builds    *builds
	metrics   *metrics
	passes    *outcome.Metrics
	resync    time.Duration
	queues    *queues
	leads     atomic.Bool
}

// Reconcile builds one Executor, serves it, and puts on the board what came of it; the leader stores a spec that built.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	began := r.clock.Now()
	e, err := get(ctx, r.client, request.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	if e == nil || e.deleted {
		r.board.Remove(request.NamespacedName)
		r.live.Remove(request.NamespacedName)
		r.builds.forget(request.NamespacedName)
		if e == nil && r.leads.Load() {
			err = r.history.forget(ctx, request.NamespacedName)
		}
		r.passes.Observe(controllerName, "gone", r.clock.Since(began))
		return reconcile.Result{}, err
	}
	a := r.attempt(ctx, e)
	if ctx.Err() != nil {
		return reconcile.Result{}, ctx.Err() // what was interrupted says nothing of the Executor
	}
	r.board.Put(a.report(e)) // first: once the set is ready, the board says all there is to say
	r.live.Put(a.served)
	err = a.unread
	if a.whole && r.leads.Load() {
		err = r.history.keep(ctx, e)
	}
	r.passes.Observe(controllerName, a.outcome(err), r.clock.Since(began))
	if trouble := outcome.As(a.fault); err == nil && trouble != nil && !trouble.Terminal {
		err = a.fault
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: max(min(a.wake.Sub(r.clock.Now()), jittered(r.resync)), time.Millisecond)}, nil
}

// outcome is how a pass ended, in metrics.
func (a attempt) outcome(err error) string {
	switch trouble := outcome.As(a.fault); {
	case err != nil:
		return "error"
	case trouble == nil:
		return "ok"
	case trouble.Terminal:
		return "terminal"
	default:
		return "transient"
	}
}
