package gateway

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/outcome"
)

// quiet is how long a gateway that is under way writes no status only to say that more of it is there: a move that is over
// within it is three requests, one to record, one to apply, one that says it has arrived. What gets worse, and that it is
// stuck, is said at once.
const quiet = 30 * time.Second

// finish ends a pass: one conditional status write, if something differs that is worth one, and the next wake-up.
func (r *reconciler) finish(ctx context.Context, work *work, err error) (reconcile.Result, error) {
	if errors.Is(err, errBehind) {
		return reconcile.Result{RequeueAfter: r.memory.again(work)}, nil
	}
	var waits *errWaiting
	if errors.As(err, &waits) {
		err = nil // observe has said so, and what it waits for wakes
	}
	var wake time.Time
	now := r.finisher.Clock.Now()
	switch described := outcome.As(err); {
	case described != nil && described.Reason == v1alpha1.ReasonForeignObject:
		wake = now.Add(foreignRecheck)
	case err == nil && !work.settled:
		wake = work.hush(now)
	}
	if work.more {
		wake = now
	}
	result, err := work.pass.Finish(ctx, err, outcome.WakeAt(wake), outcome.WakeAt(work.wake))
	r.memory.wrote(work)
	return result, err
}

// hush takes back what a pass has counted on the way, as long as the verdict is the same, no replica is lost that status
// says is ready, and the way is short. It returns when to count again.
func (work *work) hush(now time.Time) time.Time {
	status := &work.gateway.Status
	moving := meta.FindStatusCondition(work.before.Conditions, v1alpha1.ConditionReconciling)
	if moving == nil || work.announced || work.declined || readyIn(status) < readyIn(work.before) {
		return time.Time{}
	}
	until := moving.LastTransitionTime.Add(quiet)
	if !now.Before(until) || !sameVerdict(status, work.before) {
		return time.Time{}
	}
	*status = *work.before.DeepCopy()
	return until
}

func readyIn(status *v1alpha1.GatewayInstanceStatus) int32 {
	if status.Replicas == nil {
		return 0
	}
	return status.Replicas.Ready
}

func sameVerdict(a, b *v1alpha1.GatewayInstanceStatus) bool {
	return a.ObservedGeneration == b.ObservedGeneration && a.Phase == b.Phase &&
		equality.Semantic.DeepEqual(a.Revision, b.Revision) && equality.Semantic.DeepEqual(a.Conditions, b.Conditions)
}
