package release

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/rollout"
)

const (
	// defaultHistoryLimit is that of the API, for objects that did not pass through its defaults.
	defaultHistoryLimit = 10
	// lookAgain is when a release that somebody has just written is looked at again: not every write wakes it.
	lookAgain = time.Second
	// gatewaysAtATime bounds one answer of a list past the cache.
	gatewaysAtATime = 500
)

// prune deletes the oldest revisions beyond the limit that nothing needs: not what status names, and nothing that a
// gateway has recorded, of the fleet or on its way to another release. It returns in what time to look again, zero
// being not before something happens.
//
// What is deleted is not to be recorded by a gateway afterwards, however late its caches and its writes are. A pass that
// changes what status names deletes nothing: the next one begins when the cache shows that status, and then no pass over a
// gateway begins from the one before. A gateway that was given something and has not recorded it holds everything back
// (awaited); once it has recorded, a write from an older view is a conflict. And all that a cache is asked here is whether
// it is worth while to ask the API server, which decides. Only one that is barred is not waited for, since that may last
// for ever: should it be let in at that moment and take what was stable long ago, it lacks its revision until the window
// gives it the next.
func (r *reconciler) prune(ctx context.Context, release *v1alpha1.GatewayRelease, before v1alpha1.GatewayReleaseStatus) (time.Duration, error) {
	history, err := r.history(ctx, release.Name)
	if err != nil || len(history) <= historyLimit(release) {
		return 0, err
	}
	recorded, err := r.gateways(ctx, indexRecorded, release.Name)
	if err != nil || len(superfluous(release, history, recorded)) == 0 {
		return 0, err
	}
	following, err := r.gateways(ctx, indexFollows, release.Name)
	if err != nil || awaited(release, following) {
		return 0, err // who is awaited wakes the release
	}
	if !slices.Equal(named(&before), named(&release.Status)) {
		return leastBehindRetry, nil
	}
	unneeded, changed, err := r.unneeded(ctx, release)
	if err != nil || changed {
		return lookAgain, err
	}
	for i := range unneeded {
		stored := &unneeded[i]
		err := r.client.Delete(ctx, stored, client.Preconditions{UID: &stored.UID, ResourceVersion: &stored.ResourceVersion})
		if client.IgnoreNotFound(err) != nil {
			return 0, fmt.Errorf("delete revision %s, which nothing uses any more: %w", stored.Name, err)
		}
	}
	return 0, nil
}

// unneeded is what may be deleted as the API server has it all now, or says that the release has changed since the pass
// read it. That is asked last: whoever records a revision that the release does not name has been told so before, and is
// among the gateways, or awaited.
func (r *reconciler) unneeded(ctx context.Context, release *v1alpha1.GatewayRelease) (found []appsv1.ControllerRevision, changed bool, err error) {
	history, err := r.presentHistory(ctx, release.Name)
	if err != nil {
		return nil, false, err
	}
	var recorded, following []v1alpha1.GatewayInstance
	for more, next := true, ""; more; more = next != "" {
		page := &v1alpha1.GatewayInstanceList{}
		if err := r.live.List(ctx, page, client.Limit(gatewaysAtATime), client.Continue(next)); err != nil {
			return nil, false, fmt.Errorf("list the gateways of release %s: %w", release.Name, err)
		}
		next = page.Continue
		for _, gateway := range page.Items {
			if recordedRelease(&gateway) == release.Name {
				recorded = append(recorded, gateway)
			}
			if gateway.Spec.ReleaseRef.Name == release.Name {
				following = append(following, gateway)
			}
		}
	}
	if awaited(release, following) {
		return nil, false, nil
	}
	present := &v1alpha1.GatewayRelease{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(release), present); err != nil {
		return nil, true, client.IgnoreNotFound(err)
	}
	// A pass that is behind, of a leader that has been replaced, must not delete what the release has come back to.
	if present.UID != release.UID || present.ResourceVersion != release.ResourceVersion {
		return nil, true, nil
	}
	return superfluous(release, history, recorded), false, nil
}

// superfluous are the oldest revisions of a history beyond the limit that neither the status of the release names nor a
// gateway has recorded.
func superfluous(release *v1alpha1.GatewayRelease, history []appsv1.ControllerRevision, recorded []v1alpha1.GatewayInstance) []appsv1.ControllerRevision {
	needed := map[string]bool{}
	for _, name := range named(&release.Status) {
		needed[name] = true
	}
	for i := range recorded {
		needed[recorded[i].Status.Revision.Name] = true
	}
	unused := slices.DeleteFunc(history, func(stored appsv1.ControllerRevision) bool {
		return needed[stored.Name] || !metav1.IsControlledBy(&stored, release)
	})
	return unused[:max(0, len(unused)-historyLimit(release))]
}

func historyLimit(release *v1alpha1.GatewayRelease) int {
	if limit := release.Spec.RevisionHistoryLimit; limit != nil {
		return int(*limit)
	}
	return defaultHistoryLimit
}

// named are the revisions that a status names, from which gateways take what they are given.
func named(status *v1alpha1.GatewayReleaseStatus) []string {
	names := []string{status.Revision}
	if status.Rollout != nil {
		names = append(names, status.Rollout.Target, status.Rollout.Stable)
	}
	return names
}

// awaited says whether a gateway may be taking what status gave it in this moment or a while ago: it is in the window and
// has not reported yet, or it runs nothing and gets what is stable at once, or it runs something and has lost the record
// of it. It will say so, and that wakes the release.
func awaited(release *v1alpha1.GatewayRelease, following []v1alpha1.GatewayInstance) bool {
	window := release.Status.Rollout
	if window == nil {
		return true // nobody knows what was given
	}
	unreported := map[string]int64{}
	for _, entry := range window.InFlight {
		unreported[string(entry.UID)] = entry.Attempt
	}
	for i := range following {
		member := rollout.MemberOf(&following[i])
		record := member.Record
		attempt, admitted := unreported[string(member.UID)]
		switch {
		case member.Leaving:
		case admitted && (record == nil || record.Release != release.Name || record.Attempt < attempt):
			return true
		case record == nil && window.Stable != "" && !member.Barred && member.Reason != v1alpha1.ReasonNotAdopted:
			return true
		}
	}
	return false
}
