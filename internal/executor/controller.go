package executor

import (
	"context"
	"sync/atomic"

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
	finisher  *outcome.Finisher
	queues    queues
	leads     atomic.Bool
}

// Reconcile builds one Executor and serves it; the leader says in its status what came of it.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	e, err := get(ctx, r.client, request.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	if e == nil || e.deleted {
		r.board.Remove(request.NamespacedName)
		r.live.Remove(request.NamespacedName)
		r.builds.forget(request.NamespacedName)
		if e == nil && r.leads.Load() {
			return reconcile.Result{}, r.history.forget(ctx, request.NamespacedName)
		}
		return reconcile.Result{}, nil
	}
	a := r.attempt(ctx, e)
	if ctx.Err() != nil {
		return reconcile.Result{}, ctx.Err() // what was interrupted says nothing of the Executor
	}
	r.board.Put(a.report(e)) // first: once the set is ready, the board says all there is to say
	r.live.Put(a.served)
	if !r.leads.Load() {
		return r.again(a)
	}
	return r.report(ctx, e, a)
}
