package release

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/executor"
	"github.com/gatehouse-dev/gatehouse/internal/rollout"
)

// standings says of the revisions that the window may give, by name, whether it may.
type standings struct {
	withheld  []string // those that may be given to nobody further
	undecided []string // those of which that is not known at the moment
	verdicts  map[string]verdict
	wake      time.Time // when to look again; zero is never
}

// rollOut moves the window over the fleet as far as it may move now, and returns when time alone moves it further;
// zero is never. What it decides by is the accepted revision, what may be given of it and of those before it, the
// rollout settings as they are written now, and the fleet as the cache has it.
func (r *reconciler) rollOut(ctx context.Context, release *v1alpha1.GatewayRelease, may standings) (time.Time, error) {
	seen := r.fleetVersion() // before the list, so that the list is of that version or a later one
	gateways, err := r.gateways(ctx, indexFollows, release.Name)
	if err != nil {
		return time.Time{}, err
	}
	fleet := make([]rollout.Member, len(gateways))
	for i := range gateways {
		fleet[i] = rollout.MemberOf(&gateways[i])
	}
	adopting, err := r.adopting(ctx, release, gateways)
	if err != nil {
		return time.Time{}, err
	}
	input := rollout.Input{
		Release:      release.Name,
		UID:          release.UID,
		Version:      release.ResourceVersion,
		Spec:         release.Spec.Rollout,
		Status:       release.Status.Rollout,
		Accepted:     release.Status.Revision,
		Withheld:     may.withheld,
		Undecided:    may.undecided,
		Fleet:        fleet,
		FleetVersion: seen,
		Now:          r.clock.Now(),
	}
	if !adopting.IsZero() {
		input.Accepted = ""
		plan := rollout.Next(input)
		plan.Status.Message = awaitsAdoption
		release.Status.Rollout = &plan.Status
		return adopting, nil
	}
	plan := rollout.Next(input)
	if admitsAnew(release.Status.Rollout, &plan.Status) {
		// A rollout takes its time: what vouched for its target when that was accepted may be withdrawn by now, and this
		// replica not know.
		found, err := r.confirmed(ctx, may.verdicts[plan.Status.Target], executor.Lately)
		if err != nil {
			return time.Time{}, err
		}
		if !found.admits() {
			input.Undecided = append(input.Undecided, plan.Status.Target)
			plan = rollout.Next(input)
			plan.WakeAt = sooner(plan.WakeAt, found.wake)
		}
	}
	release.Status.Rollout = &plan.Status
	return plan.WakeAt, nil
}

// gateways are those that an index finds of a release, as the cache has them. They are not to be modified.
func (r *reconciler) gateways(ctx context.Context, index, release string) ([]v1alpha1.GatewayInstance, error) {
	list := &v1alpha1.GatewayInstanceList{}
	if err := r.client.List(ctx, list, client.MatchingFields{index: release}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the gateways of release %s: %w", release, err)
	}
	return list.Items, nil
}

// admitsAnew says whether a window lets a gateway take something that it could not take before.
func admitsAnew(before, now *v1alpha1.RolloutStatus) bool {
	type grant struct {
		uid     types.UID
		attempt int64
	}
	had := map[grant]bool{}
	if before != nil {
		for _, entry := range before.InFlight {
			had[grant{entry.UID, entry.Attempt}] = true
		}
	}
	return slices.ContainsFunc(now.InFlight, func(entry v1alpha1.InFlightGateway) bool {
		return !had[grant{entry.UID, entry.Attempt}]
	})
}
