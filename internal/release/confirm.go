package release

import (
	"context"
	"fmt"
	"time"

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

// confirmed is a verdict if it was made by the Executors that there are, with what they trust now or within a time, and
// unknown if this replica is behind: it has just started, or was paused, or an Executor was made together with the release,
// or a key was taken away. The version of the release would not give that away.
func (r *reconciler) confirmed(ctx context.Context, found verdict, within time.Duration) (verdict, error) {
	why, err := r.witness.Confirm(ctx, within, found.by...)
	switch {
	case err != nil:
		return verdict{}, fmt.Errorf("confirm what the images were judged by: %w", err)
	case why != "":
		return r.behind(why), nil
	}
	return found, nil
}

// behind is no verdict. The change that is awaited wakes the release; the time is for one that is never seen.
func (r *reconciler) behind(why string) verdict {
	return verdict{standing: unknown, message: why, wake: r.clock.Now().Add(time.Second)}
}
