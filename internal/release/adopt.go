package release

import (
	"context"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// adoptWithin is how long a release whose status was lost awaits its gateways: one that cannot report holds up nobody.
const adoptWithin = 5 * time.Second

const awaitsAdoption = "what was rolled out before is not recorded any more; the gateways first say what they run"

// adopting is until when a release begins nothing; zero is not at all. After its status was lost its attempts are numbered
// on from those that its gateways have recorded. If their statuses were lost as well, they record it anew from what they
// run, and that comes first (C19).
func (r *reconciler) adopting(ctx context.Context, release *v1alpha1.GatewayRelease, gateways []v1alpha1.GatewayInstance) (time.Time, error) {
	if release.Status.Rollout != nil && release.Status.Rollout.Target != "" || !slices.ContainsFunc(gateways, unreported) {
		return time.Time{}, nil
	}
	now := r.clock.Now()
	since := now.Truncate(time.Second) // as times are stored
	if ready := meta.FindStatusCondition(release.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		since = ready.LastTransitionTime.Time
	}
	history, err := r.history(ctx, release.Name)
	if err != nil {
		return time.Time{}, err
	}
	until := since.Add(adoptWithin)
	lost := slices.ContainsFunc(history, func(stored appsv1.ControllerRevision) bool {
		return stored.CreationTimestamp.Time.Before(since) // older than the status that knows of none
	})
	if !lost || !now.Before(until) {
		return time.Time{}, nil
	}
	return until, nil
}

// unreported says whether nothing is in a gateway's status.
func unreported(gateway v1alpha1.GatewayInstance) bool {
	return gateway.DeletionTimestamp.IsZero() && gateway.Status.ObservedGeneration == 0 && gateway.Status.Revision == nil
}
