package gateway

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/executor"
	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/outcome"
	"github.com/gatehouse-dev/gatehouse/internal/revision"
	"github.com/gatehouse-dev/gatehouse/internal/rollout"
)

// standing orders what a namespace's own Executors make of images: of several, the highest is that of all.
type standing int

const (
	// agreed: all that have them in scope vouch for them, or none has.
	agreed standing = iota
	// unknown: the first verdict by the Executors as they are now is on its way.
	unknown
	// undecided: an attempt has come to no verdict, and is made again.
	undecided
	// denied: decided, and negative.
	denied
)

// judgement is what the gateway's namespace says, by its own Executors, of a revision that the gateway does not run.
type judgement struct {
	standing standing
	message  string
	// own says that it is for the tenant to mend that it cannot be told.
	own bool
	// late says that it could not be told in time, and that the gateway is denied it for that.
	late bool
	// repeated says that this is what status says already, while the next verdict is on its way.
	repeated bool
	// wake is when to look again; zero is never, because an event tells.
	wake time.Time
	// by is who judged.
	by []executor.Match
}

// settling is how soon a gateway looks again while Executors are still compiled after the start.
const settling = time.Second

// judge says what is made of what the gateway is given, or would be given next; it does not wait. The release has the
// cluster's Executors judge, and withholds what does not pass; since its status may be older than the Executors, what
// they say now is looked up once more before something is taken. The namespace's own Executors are asked here alone.
// What runs already costs nothing.
func (r *reconciler) judge(ctx context.Context, work *work, release *v1alpha1.GatewayRelease, decision rollout.Decision) judgement {
	gateway := work.gateway
	if release == nil {
		return judgement{}
	}
	name := candidate(gateway, release.Status.Rollout, decision)
	if name == "" {
		return judgement{}
	}
	if decision.Action == rollout.Take {
		if why := r.demandsMore(ctx, release); why != "" {
			work.wake = r.finisher.Clock.Now().Add(settling)
			return judgement{standing: unknown, message: "revision " + name + " is not given to this gateway: " + why}
		}
	}
	if release.Spec.Verification == v1alpha1.VerificationDisabled {
		return judgement{}
	}
	if decision.Action == rollout.Take {
		judged := r.judgeRevision(ctx, name, func(subject image.Pinned) judgement { return r.judgeAgain(ctx, release, subject) })
		judged = r.confirmed(ctx, judged)
		if judged.standing != agreed {
			work.wake = r.finisher.Clock.Now().Add(settling)
			judged.message = "revision " + name + " is not given to this gateway: " + judged.message
			return judged
		}
	}
	own := r.executors.HasOwn(gateway.Namespace)
	if own == executor.Unmatched && decision.Action != rollout.Take {
		return judgement{}
	}
	judged := judgement{standing: unknown, message: "not every Executor has been compiled since the start", wake: r.finisher.Clock.Now().Add(settling)}
	if own != executor.NotReady {
		judged = r.judgeRevision(ctx, name, func(subject image.Pinned) judgement { return r.judgeHere(ctx, release, gateway, subject) })
		if decision.Action == rollout.Take {
			judged = r.confirmed(ctx, judged) // also that there is none: the first of a namespace may not have been seen yet
		}
	}
	judged = r.inTime(judged, release, decision, work.before, "revision "+name+" is not given to this gateway: ")
	if judged.standing == denied || decision.Action == rollout.Take {
		work.wake = judged.wake
	}
	return judged
}

// demandsMore says why a release that lets images through that nobody vouches for may not do so any more: it was edited
// since. A cache that is behind does not say that.
func (r *reconciler) demandsMore(ctx context.Context, release *v1alpha1.GatewayRelease) string {
	if release.Spec.Verification == v1alpha1.VerificationRequired {
		return ""
	}
	why, err := r.witness.ConfirmRelease(ctx, settling, release)
	if err != nil {
		log.FromContext(ctx).Error(err, "a gateway waits for its release to be confirmed")
		return "whether its release demands signatures by now cannot be read from the API server"
	}
	return why
}

// inTime is what becomes of a judgement that may be none yet. Status says what it says already until there is another. A
// tenant that has not mended within progressDeadline what keeps its Executors from deciding is denied the revision, and any
// other, until they decide: others are given the slot.
func (r *reconciler) inTime(judged judgement, release *v1alpha1.GatewayRelease, decision rollout.Decision, before *v1alpha1.GatewayInstanceStatus, subject string) judgement {
	judged.message = subject + judged.message
	if judged.standing == agreed || judged.standing == denied {
		return judged
	}
	said := refusalIn(before.Conditions)
	late := said != nil && said.Reason == v1alpha1.ReasonCannotVerify
	if judged.own && decision.Action == rollout.Take && !late {
		now := r.finisher.Clock.Now()
		deadline := rollout.Deadline(release.Spec.Rollout, givenAt(decision, before, now))
		if late = !now.Before(deadline); !late && (judged.wake.IsZero() || deadline.Before(judged.wake)) {
			judged.wake = deadline
		}
	}
	switch {
	case late && judged.own:
		judged.standing, judged.late = denied, true
		judged.message += ". That was not mended within progressDeadline, so others are given the slot; mend it, and the gateway goes through the window again"
	case said != nil && (late || strings.HasPrefix(said.Message, subject)):
		return judgement{standing: denied, late: late, message: said.Message, repeated: true, wake: judged.wake}
	}
	return judged
}

// givenAt is since when a gateway may take what it is given: since the window admitted it, or, where it needs no window
// because it runs nothing, for as long as it says that it is not Ready.
func givenAt(decision rollout.Decision, before *v1alpha1.GatewayInstanceStatus, now time.Time) time.Time {
	if !decision.Given.IsZero() {
		return decision.Given
	}
	if ready := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionReady); ready != nil {
		return ready.LastTransitionTime.Time
	}
	return now
}

// confirmed is a judgement if those who made it are those that there are, with what they trust now or a moment ago; if this
// replica is behind, nobody can tell. Gateways that take the same at the same time ask the API server once together.
func (r *reconciler) confirmed(ctx context.Context, judged judgement) judgement {
	if judged.standing != agreed {
		return judged
	}
	why, err := r.witness.Confirm(ctx, executor.Lately, judged.by...)
	switch {
	case err != nil:
		why = "what it was judged by cannot be read from the API server"
		log.FromContext(ctx).Error(err, "a gateway waits for what its revision was judged by to be confirmed")
	case why == "":
		return judged
	}
	return judgement{standing: unknown, own: err == nil, message: why, wake: r.finisher.Clock.Now().Add(settling)}
}

// candidate is the revision that a gateway is given, or is given next when the window comes to it; "" if it has recorded
// that one already, or if nobody is given it.
func candidate(gateway *v1alpha1.GatewayInstance, window *v1alpha1.RolloutStatus, decision rollout.Decision) string {
	name := decision.Record.Name
	if decision.Action != rollout.Take {
		if decision.Action == rollout.Adopt || window == nil || slices.Contains(window.Withheld, window.Target) {
			return ""
		}
		name = window.Target
	}
	if recorded := gateway.Status.Revision; recorded != nil && recorded.Name == name {
		return ""
	}
	return name
}

// judgeRevision looks up what is known of all images of a revision. One that cannot be read cannot be judged.
func (r *reconciler) judgeRevision(ctx context.Context, name string, judge func(image.Pinned) judgement) judgement {
	given, err := r.revision(ctx, name)
	if err != nil {
		return judgement{standing: undecided, message: "it cannot be read", wake: r.finisher.Clock.Now().Add(settling)}
	}
	images, err := given.Images()
	if err != nil {
		return judgement{standing: undecided, message: err.Error()}
	}
	return together(images, judge)
}

// together is the judgement on several images: what is said is of those that decide it.
func together(images []revision.PodImage, judge func(image.Pinned) judgement) judgement {
	all := make([]judgement, len(images))
	for i, used := range images {
		all[i] = judge(used.Image)
		if i > 0 {
			all[i].message = used.Where + ": " + all[i].message
		}
	}
	whole := judgement{standing: slices.MaxFunc(all, func(a, b judgement) int { return cmp.Compare(a.standing, b.standing) }).standing}
	var said []string
	for _, one := range all {
		if one.standing == whole.standing {
			said = append(said, one.message)
			whole.own = whole.own || one.own
		}
		whole.by = append(whole.by, one.by...)
		if whole.wake.IsZero() || !one.wake.IsZero() && one.wake.Before(whole.wake) {
			whole.wake = one.wake
		}
	}
	whole.message = strings.Join(said, "; ")
	return whole
}

// judgeAgain looks up what the cluster's Executors, as they are now, make of an image. It is the release's question, asked
// of the release's pool, so it costs no second verification. What they refuse is not refused here: the release will
// withhold it, and say why; until then nobody takes it.
func (r *reconciler) judgeAgain(ctx context.Context, release *v1alpha1.GatewayRelease, subject image.Pinned) judgement {
	match := r.executors.Match(subject.Reference(), "")
	switch {
	case match.State == executor.NotReady:
		return judgement{standing: unknown, message: "not every Executor has been compiled since the start"}
	case match.State != executor.Matched && release.Spec.Verification == v1alpha1.VerificationIfConfigured:
		return judgement{by: []executor.Match{match}}
	case match.State != executor.Matched:
		return judgement{standing: undecided, message: "no Executor vouches for " + subject.String()}
	}
	judged := judgementOf(r.ofRelease.Look(ctx, match, subject, client.ObjectKeyFromObject(release), time.Time{}))
	if judged.standing == denied {
		judged.standing = undecided
	}
	judged.by = []executor.Match{match}
	return judged
}

// judgeHere looks up what the namespace's own Executors make of an image. All gateways of a namespace share the question.
func (r *reconciler) judgeHere(ctx context.Context, release *v1alpha1.GatewayRelease, gateway *v1alpha1.GatewayInstance, subject image.Pinned) judgement {
	match := r.executors.MatchOwn(subject.Reference(), gateway.Namespace)
	if match.State != executor.Matched {
		return judgement{by: []executor.Match{match}} // of one in mode Audit alone, too: it satisfies nothing and refuses nothing
	}
	known := r.ofTenant.Look(ctx, match, subject, client.ObjectKeyFromObject(gateway), requestedAt(gateway))
	judged := judgementOf(known)
	if judged.standing == undecided {
		access := release.Spec.Registry
		plainHTTP := access != nil && access.PlainHTTP || r.executors.Match(subject.Reference(), "").PlainHTTP()
		judged.own = match.AtFault(known.Err, plainHTTP)
	}
	judged.by = []executor.Match{match}
	return judged
}

// judgementOf is what is known of an image, as a gateway takes it. One that is vouched for needs no second look.
func judgementOf(known executor.Known) judgement {
	judged := judgement{message: known.Message, wake: known.Wake}
	switch known.Knowledge {
	case executor.Refused:
		judged.standing = denied
	case executor.Vouched:
		judged.standing, judged.wake = agreed, time.Time{}
	case executor.Troubled:
		judged.standing = undecided
	default:
		judged.standing = unknown
	}
	return judged
}

// hold is what becomes of a decision under a judgement. What is denied is as if the gateway were not allowed it (refuse).
// While nobody can tell, it takes nothing and records nothing, so that what the window gave stays its own for that time.
func (work *work) hold(decision rollout.Decision, own rollout.Gateway, notice error, judged judgement) (rollout.Decision, error) {
	takes := decision.Action == rollout.Take
	switch {
	case judged.standing == agreed:
		return decision, notice
	case judged.standing == denied && !(takes && judged.repeated && own.Record != nil):
		return refuse(decision, own, notice, judged.refusal())
	case !takes:
		return decision, notice
	case own.Record == nil:
		return rollout.Decision{Action: rollout.Wait}, judged.wait()
	case judged.standing == denied:
		notice = judged.refusal()
	case judged.standing == undecided:
		work.undecided = judged.message
	}
	return rollout.Decision{Action: rollout.Keep, Record: *own.Record}, notice
}

// refusal is the condition of a gateway that may not take what its release gives.
func (j judgement) refusal() error {
	message := j.message
	if !j.repeated {
		message += ". What runs keeps running"
	}
	reason := v1alpha1.ReasonVerificationFailed
	if j.late {
		reason = v1alpha1.ReasonCannotVerify
	}
	return outcome.Terminal(reason, fmt.Errorf("%s", message))
}

// wait is why a gateway that runs nothing still does.
func (j judgement) wait() error {
	if j.standing == undecided {
		return &errWaiting{v1alpha1.ReasonCannotVerify, j.message}
	}
	return &errWaiting{v1alpha1.ReasonVerifying, j.message}
}

// refusalIn is what status says of a refusal; nil if it says none.
func refusalIn(conditions []metav1.Condition) *metav1.Condition {
	stalled := meta.FindStatusCondition(conditions, v1alpha1.ConditionStalled)
	if stalled == nil || stalled.Reason != v1alpha1.ReasonVerificationFailed && stalled.Reason != v1alpha1.ReasonCannotVerify {
		return nil
	}
	return stalled
}

// requestedAt is when a person asked for a pass, if the annotation is a time: then the registry is asked anew.
func requestedAt(gateway *v1alpha1.GatewayInstance) time.Time {
	at, err := time.Parse(time.RFC3339, gateway.Annotations[v1alpha1.AnnotationReconcileRequestedAt])
	if err != nil {
		return time.Time{}
	}
	return at
}
