package release

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/outcome"
	"github.com/gatehouse-dev/gatehouse/internal/registry"
)

const (
	// defaultResolveInterval is that of the API, for objects that did not pass through its defaults.
	defaultResolveInterval = 10 * time.Minute
	// freshEnough is how old an answer may be that a new generation takes: who edits a release means what its tag
	// names now, and the answer was on its way for a moment.
	freshEnough = time.Minute
)

// resolution is what is known of a candidate's digest.
type resolution struct {
	digest  image.Digest // zero before the first verdict of a generation
	trouble error        // why the registry could not be asked, or nil; an outcome
	wake    time.Time    // when to look again; zero is never
}

func (r resolution) known() bool { return !r.digest.IsZero() }

// resolve looks up what the candidate's reference names; it does not wait. A generation that was resolved stays so:
// later answers move it to another digest, trouble does not take it back.
func (r *reconciler) resolve(ctx context.Context, release *v1alpha1.GatewayRelease, wanted candidate) (resolution, error) {
	interval := defaultResolveInterval
	if release.Spec.ResolveInterval != nil {
		interval = release.Spec.ResolveInterval.Duration
	}
	// A digest never moves, so that the registry holds it needs to be seen once.
	once := interval <= 0 || !wanted.reference.Digest().IsZero()
	recorded := recordedDigest(release, wanted.reference)
	if once && recorded.IsZero() {
		recorded = statedDigest(release, wanted.reference) // whatever the Executors make of it
	}
	if !recorded.IsZero() && once {
		return resolution{digest: recorded}, nil
	}
	access, err := r.access(ctx, r.client, release)
	if outcome.As(err) != nil {
		access, err = r.access(ctx, r.live, release) // the cache may be behind
	}
	if err != nil {
		return r.troubled(recorded, err, time.Time{})
	}
	request := registry.Request{
		Reference: wanted.reference,
		Access:    access,
		Owner:     types.NamespacedName{Name: release.Name},
		MaxAge:    interval,
		NotBefore: requestedAt(release),
	}
	if recorded.IsZero() {
		request.MaxAge = freshEnough
	}
	result, answered := r.pool.Lookup(request)
	if result.Err != nil {
		return r.troubled(recorded, registryOutcome(result.Err), result.RetryAt)
	}
	// Of a registry that takes longer than the interval, each answer is overdue when it comes; it is taken nevertheless.
	fresh := !result.At.Before(request.NotBefore) && r.clock.Since(result.At) < freshEnough
	if result.Digest.IsZero() || !answered && !fresh {
		return resolution{digest: recorded}, nil
	}
	found := resolution{digest: result.Digest}
	if answered && !once {
		found.wake = result.At.Add(interval)
	}
	return found, nil
}

// troubled is a resolution that found no answer: what is recorded stands, and only without a record is an outcome
// that is terminal a refusal.
func (r *reconciler) troubled(recorded image.Digest, err error, retry time.Time) (resolution, error) {
	trouble := outcome.As(err)
	if trouble == nil || (trouble.Terminal && recorded.IsZero()) {
		return resolution{}, err
	}
	return resolution{digest: recorded, trouble: err, wake: retry}, nil
}

// registryOutcome gives a failure of the registry its condition reason.
func registryOutcome(err error) error {
	var failure *registry.Error
	if !errors.As(err, &failure) || !failure.Terminal() {
		return outcome.Transient(v1alpha1.ReasonRegistryUnavailable, err)
	}
	if failure.Kind == registry.InvalidAccess {
		return outcome.Terminal(v1alpha1.ReasonInvalidAccess, err)
	}
	return outcome.Terminal(v1alpha1.ReasonInvalidImage, err)
}

// recordedDigest is what this generation was resolved to already, read from status so that a restart knows it; zero
// if it was not. The repository and a stated digest are compared too, so that no status that was written by somebody
// else lets another image pass for this one.
func recordedDigest(release *v1alpha1.GatewayRelease, reference image.Reference) image.Digest {
	resolved := meta.FindStatusCondition(release.Status.Conditions, v1alpha1.ConditionResolved)
	if resolved == nil || resolved.ObservedGeneration != release.Generation || resolved.Status == metav1.ConditionFalse {
		return image.Digest{}
	}
	if verifying(release) {
		if interrupted(release) {
			return statedDigest(release, reference)
		}
		return image.Digest{}
	}
	if reached := verdictReached(release); reached != nil && !acceptedReasons[reached.Reason] {
		return image.Digest{} // status.image is of an earlier generation, or of what the tag named before
	}
	return digestIn(release.Status.Image, reference)
}

// interrupted says that this generation has no verdict because what it asks for is not well-formed any more, by a profile
// that was edited.
func interrupted(release *v1alpha1.GatewayRelease) bool {
	verified := meta.FindStatusCondition(release.Status.Conditions, v1alpha1.ConditionVerified)
	return verified != nil && verified.Reason == v1alpha1.ReasonNotAccepted
}

// statedDigest is what the condition Resolved says of this generation, also while status.image is that of another; zero if
// it says nothing of it.
func statedDigest(release *v1alpha1.GatewayRelease, reference image.Reference) image.Digest {
	resolved := meta.FindStatusCondition(release.Status.Conditions, v1alpha1.ConditionResolved)
	if resolved == nil || resolved.ObservedGeneration != release.Generation || resolved.Status != metav1.ConditionTrue {
		return image.Digest{}
	}
	return digestIn(release.Status.ResolvedImage, reference)
}

// digestIn is that of a pinned image in a status; zero if it is none that the reference can name.
func digestIn(pinned string, reference image.Reference) image.Digest {
	parsed, err := image.ParsePinned(pinned)
	if err != nil || parsed.Repository() != reference.Repository() {
		return image.Digest{}
	}
	if stated := reference.Digest(); !stated.IsZero() && stated != parsed.Digest() {
		return image.Digest{}
	}
	return parsed.Digest()
}

// requestedAt is when a person asked for a pass, if the annotation is a time: then the registry is asked anew.
func requestedAt(release *v1alpha1.GatewayRelease) time.Time {
	at, err := time.Parse(time.RFC3339, release.Annotations[v1alpha1.AnnotationReconcileRequestedAt])
	if err != nil {
		return time.Time{}
	}
	return at
}
