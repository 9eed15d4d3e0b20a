package release

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/executor"
	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/revision"
)

// standing orders what can be known of images: of several, the highest is that of all.
type standing int

const (
	// verified: all that has them in scope vouches for them.
	verified standing = iota
	// exempt: nothing has them in scope, and nothing has to.
	exempt
	// unknown: the first verdict by the Executors as they are now is on its way.
	unknown
	// undecided: an attempt has come to no verdict, and is made again.
	undecided
	// refused: decided, and negative.
	refused
)

// verdict is what is known of the images of a revision, by the Executors as they are now.
type verdict struct {
	standing standing
	// reason is NoExecutor where that is why it is refused.
	reason string
	// message says of each image by whom it is vouched for, or why not.
	message string
	// wake is when to look again; zero is never, because an event tells.
	wake time.Time
	// by is who judged the images.
	by []executor.Match
}

// admits says whether a gateway may be given the revision.
func (v verdict) admits() bool { return v.standing == verified || v.standing == exempt }

// required is what a release requires of signatures, also of one that did not pass through the API's defaults.
func required(release *v1alpha1.GatewayRelease) v1alpha1.Verification {
	return cmp.Or(release.Spec.Verification, v1alpha1.VerificationRequired)
}

// verify looks up what the Executors make of the images of a revision; it does not wait.
func (r *reconciler) verify(ctx context.Context, release *v1alpha1.GatewayRelease, of revision.Revision) verdict {
	if required(release) == v1alpha1.VerificationDisabled {
		return verdict{standing: exempt}
	}
	images, err := of.Images()
	if err != nil {
		return verdict{standing: undecided, message: err.Error()}
	}
	all := make([]verdict, len(images))
	for i, used := range images {
		all[i] = r.judge(ctx, release, used.Image)
		if i > 0 {
			all[i].message = used.Where + ": " + all[i].message
		}
	}
	return together(all)
}

// together is the verdict of several images: what is said is of those that decide it.
func together(all []verdict) verdict {
	worst := slices.MaxFunc(all, func(a, b verdict) int { return cmp.Compare(a.standing, b.standing) })
	whole := verdict{standing: worst.standing, reason: worst.reason}
	var said []string
	for _, one := range all {
		if one.standing == worst.standing || worst.admits() {
			said = append(said, one.message)
		}
		whole.wake = sooner(whole.wake, one.wake)
		whole.by = append(whole.by, one.by...)
	}
	whole.message = strings.Join(said, "; ")
	return whole
}

// judge looks up what is known of one image.
func (r *reconciler) judge(ctx context.Context, release *v1alpha1.GatewayRelease, subject image.Pinned) verdict {
	match := r.executors.Match(subject.Reference(), "")
	found := r.known(ctx, release, subject, match)
	found.by = []executor.Match{match}
	return found
}

// known looks up what those who judge an image make of it.
func (r *reconciler) known(ctx context.Context, release *v1alpha1.GatewayRelease, subject image.Pinned, match executor.Match) verdict {
	switch match.State {
	case executor.Matched:
	case executor.NotReady:
		_, awaited := r.executors.Attempted("")
		return verdict{standing: unknown, message: subject.String() + ": " + awaited}
	default:
		return unmatched(required(release), match.State, subject)
	}
	known := r.inquiries.Look(ctx, match, subject, types.NamespacedName{Name: release.Name}, requestedAt(release))
	made := verdict{message: known.Message, wake: known.Wake}
	switch known.Knowledge {
	case executor.Refused:
		made.standing, made.reason = refused, v1alpha1.ReasonVerificationFailed
	case executor.Vouched:
		made.standing = verified
	case executor.Troubled:
		made.standing = undecided
	default:
		made.standing = unknown
	}
	return made
}

// unmatched is the verdict on an image that nobody who counts has in scope.
func unmatched(asked v1alpha1.Verification, state executor.State, subject image.Pinned) verdict {
	why := "no Executor matches " + subject.String()
	remedy := "; add an Executor with this scope or set verification: IfConfigured"
	if state == executor.Audited {
		why = "only Executors with mode: Audit match " + subject.String() + ", which satisfies nothing"
		remedy = "; set mode: Enforce there, or verification: IfConfigured here"
	}
	if asked == v1alpha1.VerificationIfConfigured {
		return verdict{standing: exempt, message: why}
	}
	return verdict{standing: refused, reason: v1alpha1.ReasonNoExecutor, message: why + remedy}
}

// standings says of each revision that the window may give whether it may be given now. The verdict on what the spec asks
// for is known already.
func (r *reconciler) standings(ctx context.Context, release *v1alpha1.GatewayRelease, known assessment) (standings, error) {
	may := standings{verdicts: map[string]verdict{}}
	if required(release) == v1alpha1.VerificationDisabled {
		return may, nil
	}
	names := []string{release.Status.Revision}
	if window := release.Status.Rollout; window != nil {
		names = append(names, window.Target, window.Stable)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if name == "" {
			continue
		}
		found := known.verdict
		if known.revision.Release == "" || known.revision.Name() != name {
			stored, err := r.stored(ctx, name)
			if err != nil {
				return standings{}, err
			}
			found = r.verifyStored(ctx, release, name, stored)
		}
		if found.admits() && release.Status.Rollout != nil && slices.Contains(release.Status.Rollout.Withheld, name) {
			var err error
			if found, err = r.confirmed(ctx, found, 0); err != nil {
				return standings{}, err
			}
		}
		may.verdicts[name] = found
		switch found.standing {
		case refused, undecided:
			may.withheld = append(may.withheld, name)
		case unknown:
			may.undecided = append(may.undecided, name)
		}
		may.wake = sooner(may.wake, found.wake)
	}
	return may, nil
}

// sooner is the earlier of two times, of which zero is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// verifyStored is the verdict on a revision that was accepted before. One that is not stored any more, or not as it was,
// cannot be judged, and no gateway could run it either.
func (r *reconciler) verifyStored(ctx context.Context, release *v1alpha1.GatewayRelease, name string, stored *appsv1.ControllerRevision) verdict {
	if stored == nil {
		return verdict{standing: undecided, message: fmt.Sprintf("revision %s is not stored any more", name)}
	}
	of, err := revision.FromControllerRevision(stored)
	if err != nil {
		return verdict{standing: undecided, message: err.Error()}
	}
	return r.verify(ctx, release, of)
}
