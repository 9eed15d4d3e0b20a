package executor

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// term is the time in which this process leads: it stores the good specs of Executors.
type term struct{ *reconciler }

// NeedLeaderElection is true: it starts when the process is elected.
func (t term) NeedLeaderElection() bool { return true }

// Start passes over every Executor as the leader, and sweeps stored specs whose Executor is gone. What it cannot do now
// is done with the next resync, or by the next leader.
func (t term) Start(ctx context.Context) error {
	t.leads.Store(true)
	defer t.leads.Store(false)
	names, err := listAll(ctx, t.client)
	if err == nil {
		for _, name := range names {
			t.queues.add(name)
		}
		err = t.history.sweep(ctx)
	}
	if err != nil && ctx.Err() == nil {
		t.log.Error(err, "not every stored spec of an Executor that is gone was deleted; the next leader tries again")
	}
	<-ctx.Done()
	return nil
}

// sweep deletes stored specs of Executors that went while nobody was there to see it.
func (h *history) sweep(ctx context.Context) error {
	stored := &appsv1.ControllerRevisionList{}
	if err := h.client.List(ctx, stored, client.InNamespace(h.namespace), client.HasLabels{v1alpha1.LabelExecutorUID}); err != nil {
		return fmt.Errorf("list stored specs: %w", err)
	}
	return h.deleteOrphans(ctx, stored.Items)
}
