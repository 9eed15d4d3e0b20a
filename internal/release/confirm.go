package release

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// news says whether a verdict would accept what is not accepted yet, or tell a person for the first time that nobody
// vouches for it.
func news(release *v1alpha1.GatewayRelease, known assessment) bool {
	if required(release) == v1alpha1.VerificationDisabled {
		return false
	}
	if known.verdict.admits() {
		return known.revision.Name() != release.Status.Revision
	}
	told := verdictReached(release)
	return known.verdict.reason == v1alpha1.ReasonNoExecutor &&
		(told == nil || told.Reason != v1alpha1.ReasonNoExecutor && told.Reason != v1alpha1.ReasonNoLongerVerified)
}

// confirmed is a verdict if it was made by the Executors that there are now, and unknown if this replica is behind: it has
// just started, or was paused, or an Executor was made together with the release. The version of the release would not
// give that away.
func (r *reconciler) confirmed(ctx context.Context, found verdict) (verdict, error) {
	present := &metav1.PartialObjectMetadataList{}
	present.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("ExecutorList"))
	if err := r.live.List(ctx, present); err != nil {
		return verdict{}, fmt.Errorf("list the Executors: %w", err)
	}
	there := map[types.NamespacedName]bool{}
	for i := range present.Items {
		e := &present.Items[i]
		if !e.DeletionTimestamp.IsZero() {
			continue
		}
		there[client.ObjectKeyFromObject(e)] = true
		served := r.executors.Served(client.ObjectKeyFromObject(e))
		if served == nil || served.UID != e.UID || served.Attempted < e.Generation {
			return r.behind("Executor " + e.Name + " is not compiled yet"), nil
		}
	}
	for _, name := range r.executors.Names() {
		if name.Namespace == "" && !there[name] {
			return r.behind("Executor " + name.Name + " is gone, and not taken out of service yet"), nil
		}
	}
	return found, nil
}

// behind is no verdict. The change that is awaited wakes the release; the time is for one that is never seen.
func (r *reconciler) behind(why string) verdict {
	return verdict{standing: unknown, message: why, wake: r.clock.Now().Add(time.Second)}
}
