package gateway

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/outcome"
	"github.com/gatehouse-dev/gatehouse/internal/revision"
	"github.com/gatehouse-dev/gatehouse/internal/rollout"
)

// course is what a gateway is to run now.
type course struct {
	revision revision.Revision
	// notice is what is wrong although the gateway goes on with what it has.
	notice error
}

// decide says what the gateway is to run and fills in status.revision, which nothing has written yet. An error means
// that nothing is to be touched.
func (r *reconciler) decide(ctx context.Context, work *work) (course, error) {
	gateway := work.gateway
	release, err := r.release(ctx, gateway.Spec.ReleaseRef.Name)
	if err != nil {
		return course{}, err
	}
	var window *v1alpha1.RolloutStatus
	var notice error
	if release == nil {
		notice = outcome.Terminal(v1alpha1.ReasonReleaseNotFound, fmt.Errorf(
			"GatewayRelease %s does not exist; create it, or name another in spec.releaseRef. What runs keeps running",
			gateway.Spec.ReleaseRef.Name))
	} else {
		window = release.Status.Rollout
	}

	own := rollout.Gateway{UID: gateway.UID, Generation: gateway.Generation, Record: gateway.Status.Revision}
	if deployment := work.deployment(); deployment != nil {
		own.Running = rollout.MarksOf(deployment.Annotations)
	}
	own.Serves = work.serves()
	decision := rollout.Decide(gateway.Spec.ReleaseRef.Name, window, own)
	work.declined = decision.Declined
	if decision.Action == rollout.Wait {
		switch judged := r.judge(ctx, work, release, decision); {
		case notice != nil:
			return course{}, notice
		case judged.standing == denied:
			return course{}, judged.refusal()
		default:
			return course{}, waiting(decision.Reason, release.Name)
		}
	}
	barred := r.allowed(ctx, r.hub, gateway, release)
	if outcome.As(barred) != nil {
		barred = r.allowed(ctx, r.hubLive, gateway, release) // the cache may be behind
	}
	if barred != nil {
		described := outcome.As(barred)
		if described == nil {
			return course{}, barred
		}
		if decision, notice = refuse(decision, own, notice, barred); decision.Action == rollout.Wait {
			return course{}, barred
		}
	} else if decision, notice = work.hold(decision, own, notice, r.judge(ctx, work, release, decision)); decision.Action == rollout.Wait {
		return course{}, notice
	}
	if decision.Action == rollout.Adopt {
		// Whatever becomes of it, this is what runs. An entry of the window that waits for the record wakes nobody again.
		adopted := decision.Record
		gateway.Status.Revision, own.Record = &adopted, &adopted
		next := rollout.Decide(gateway.Spec.ReleaseRef.Name, window, own)
		work.more, work.declined = next.Action == rollout.Take, next.Declined
	}
	given, err := r.revision(ctx, decision.Record.Name)
	if described := outcome.As(err); notice != nil && described != nil && described.Reason == v1alpha1.ReasonRevisionNotFound {
		if decision.Action == rollout.Keep {
			// The attempt that is not taken is reported all the same: the window holds a slot until it is.
			kept := decision.Record
			gateway.Status.Revision = &kept
		}
		return course{}, notice // revisions go with their release: its absence is what there is to say
	}
	if err != nil {
		return course{}, err
	}
	record := decision.Record
	record.Image = given.Image.String()
	work.adopting = decision.Action == rollout.Adopt
	gateway.Status.Revision = &record

	return course{revision: given, notice: notice}, nil
}

// refuse is what becomes of a decision when the gateway may not take anything. What it runs already goes on and is kept
// as it should be. What the window gave is not taken, but its attempt is recorded: so the window can give the slot to
// another, and nothing is taken later on an old permission. Of a profile that is gone the release speaks, as long as
// nothing was to be taken.
func refuse(decision rollout.Decision, own rollout.Gateway, notice, barred error) (rollout.Decision, error) {
	switch {
	case own.Record == nil: // what its Deployment says of itself is not believed either
		return rollout.Decision{Action: rollout.Wait}, barred
	case decision.Action == rollout.Keep && outcome.As(barred).Reason == v1alpha1.ReasonProfileNotFound:
		return decision, notice
	case decision.Action == rollout.Keep:
		return decision, barred
	case own.Record.Release == decision.Record.Release:
		kept := *own.Record
		kept.Attempt = decision.Record.Attempt
		return rollout.Decision{Action: rollout.Keep, Record: kept}, barred
	default:
		return rollout.Decision{Action: rollout.Keep, Record: *own.Record}, barred
	}
}

// release reads the gateway's release; nil when there is none. It is not copied, for the window of a large fleet is large
// and every pass reads it: nobody modifies it. That there is none is not said by a cache that is behind.
func (r *reconciler) release(ctx context.Context, name string) (*v1alpha1.GatewayRelease, error) {
	release, key := &v1alpha1.GatewayRelease{}, client.ObjectKey{Name: name}
	err := r.hub.Get(ctx, key, release, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		release = &v1alpha1.GatewayRelease{}
		err = r.hubLive.Get(ctx, key, release)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read GatewayRelease %s: %w", name, err)
	}
	return release, nil
}

// revision reads what was given. The cache of revisions may be behind that of releases, so a miss is looked up once
// more past it.
func (r *reconciler) revision(ctx context.Context, name string) (revision.Revision, error) {
	stored := &appsv1.ControllerRevision{}
	key := client.ObjectKey{Namespace: r.namespace, Name: name}
	err := r.hub.Get(ctx, key, stored, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		err = r.hubLive.Get(ctx, key, stored)
	}
	switch {
	case apierrors.IsNotFound(err):
		return revision.Revision{}, outcome.Terminal(v1alpha1.ReasonRevisionNotFound, fmt.Errorf(
			"revision %s does not exist any more; edit the release or have it write the revision anew. What runs keeps running", name))
	case err != nil:
		return revision.Revision{}, fmt.Errorf("read revision %s: %w", name, err)
	}
	given, err := revision.FromControllerRevision(stored)
	if err != nil {
		return revision.Revision{}, outcome.Terminal(v1alpha1.ReasonRevisionNotFound, err)
	}
	return given, nil
}

// allowed holds a gateway to the namespaces of its profile. Which profile that is follows from the release as it is
// now: the list is no part of a revision. A profile that is gone allows nothing; without a release there is no list,
// and what the gateway has recorded was allowed.
func (r *reconciler) allowed(ctx context.Context, from client.Reader, gateway *v1alpha1.GatewayInstance, release *v1alpha1.GatewayRelease) error {
	if release == nil {
		return nil
	}
	profile := &v1alpha1.GatewayProfile{}
	name := release.Spec.ProfileRef.Name
	if err := from.Get(ctx, client.ObjectKey{Name: name}, profile, client.UnsafeDisableDeepCopy); err != nil {
		if apierrors.IsNotFound(err) {
			return outcome.Terminal(v1alpha1.ReasonProfileNotFound, fmt.Errorf(
				"GatewayProfile %s of release %s does not exist; create it. What runs keeps running", name, release.Name))
		}
		return fmt.Errorf("read GatewayProfile %s: %w", name, err)
	}
	list := profile.Spec.AllowedNamespaces
	if list == nil || slices.Contains(list.Names, gateway.Namespace) {
		return nil
	}
	if list.Selector != nil {
		selector, err := metav1.LabelSelectorAsSelector(list.Selector)
		if err != nil {
			return outcome.Terminal(v1alpha1.ReasonInvalidProfile, fmt.Errorf(
				"GatewayProfile %s: spec.allowedNamespaces.selector is no label selector; correct it", name))
		}
		namespace := &corev1.Namespace{}
		if err := from.Get(ctx, client.ObjectKey{Name: gateway.Namespace}, namespace, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("read Namespace %s: %w", gateway.Namespace, err)
		}
		if selector.Matches(labels.Set(namespace.Labels)) {
			return nil
		}
	}
	return outcome.Terminal(v1alpha1.ReasonNamespaceNotAllowed, fmt.Errorf(
		"GatewayProfile %s of release %s does not allow namespace %s; have it added to spec.allowedNamespaces, or follow another release. What runs keeps running",
		name, release.Name, gateway.Namespace))
}

// errWaiting is why a gateway that runs nothing has nothing to run yet. A release's status wakes it.
type errWaiting struct{ reason, message string }

func (e *errWaiting) Error() string { return e.message }

func waiting(reason, release string) error {
	if reason == v1alpha1.ReasonNotAdopted {
		return &errWaiting{reason, "its Deployment carries the marks of another release than " + release + "; it runs on until the window admits the gateway"}
	}
	if reason == v1alpha1.ReasonWithheld {
		return &errWaiting{reason, "what release " + release + " would give it does not verify; see the conditions of the release"}
	}
	if reason == v1alpha1.ReasonWaitingForWindow {
		return &errWaiting{reason, "release " + release + " has not admitted this gateway yet"}
	}
	return &errWaiting{reason, "release " + release + " has no revision yet"}
}
