package release

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/outcome"
)

// maxSummary bounds status.summary, in bytes.
const maxSummary = 1024

// The words of status.summary. A reason follows the first two after a colon, and the next two while what they wait for
// cannot be had.
const (
	summaryInvalid    = "Invalid"
	summaryUnverified = "Unverified"
	summaryResolving  = "Resolving"
	summaryVerifying  = "Verifying"
	summaryAvailable  = "Available"
)

// describe says in status what became of the spec of this generation, and returns the outcome of the pass. What a
// condition says is a function of the steps' outcomes alone, so the same state has the same words.
func describe(pass *outcome.Pass, release *v1alpha1.GatewayRelease, known assessment, refusal error) error {
	if refusal != nil {
		return invalid(pass, release, refusal)
	}
	pass.Set(v1alpha1.ConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAccepted, "the image and the profile are well-formed")
	// A process that has just started knows no verdict yet; the one that is recorded stands until it does.
	settled := known.resolved.known() && known.verdict.standing != unknown
	if !settled && verdictReached(release) != nil {
		return unchanged(pass, release)
	}
	if !known.resolved.known() {
		resolving(pass, release, known)
		return nil
	}
	release.Status.ResolvedImage = known.wanted.reference.WithDigest(known.resolved.digest).String()
	if known.resolved.trouble != nil {
		pass.Set(v1alpha1.ConditionResolved, metav1.ConditionUnknown, outcome.As(known.resolved.trouble).Reason,
			"not asked anew: "+known.resolved.trouble.Error())
	} else {
		pass.Set(v1alpha1.ConditionResolved, metav1.ConditionTrue, v1alpha1.ReasonResolved,
			fmt.Sprintf("%s is %s", known.wanted.reference, known.resolved.digest))
	}
	return judged(pass, release, known)
}

// judged says what the Executors make of it.
func judged(pass *outcome.Pass, release *v1alpha1.GatewayRelease, known assessment) error {
	v := known.verdict
	set := func(status metav1.ConditionStatus, reason string) {
		pass.Set(v1alpha1.ConditionVerified, status, reason, v.message)
	}
	switch {
	case required(release) == v1alpha1.VerificationDisabled:
		pass.Clear(v1alpha1.ConditionVerified)
	case v.standing == verified:
		set(metav1.ConditionTrue, v1alpha1.ReasonVerified)
	case v.standing == exempt:
		set(metav1.ConditionFalse, v1alpha1.ReasonNotRequired)
	case v.standing == refused:
		reason := v.reason
		if known.accepted {
			reason = v1alpha1.ReasonNoLongerVerified
		}
		set(metav1.ConditionFalse, reason)
		release.Status.Summary = outcome.Bound(summaryUnverified+": "+v.message, maxSummary)
		return outcome.Terminal(reason, errors.New(v.message))
	case v.standing == undecided && verdictReached(release) != nil && known.accepted:
		set(metav1.ConditionUnknown, v1alpha1.ReasonCannotVerify)
		release.Status.Summary = outcome.Bound(summaryUnverified+": "+v.message, maxSummary)
		err := progress(pass, release.Status.Rollout)
		pass.Set(v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonCannotVerify, v.message)
		return err
	case v.standing == undecided && refusedBefore(release):
		return unchanged(pass, release) // and not known to be better
	default:
		summary := summaryVerifying
		if v.standing == undecided {
			summary += ": " + v.message
		}
		release.Status.Summary = outcome.Bound(summary, maxSummary)
		set(metav1.ConditionUnknown, v1alpha1.ReasonVerifying)
		underWay(pass, v1alpha1.ReasonVerifying, v.message)
		return nil
	}
	release.Status.Summary = summaryAvailable
	return progress(pass, release.Status.Rollout)
}

// acceptedReasons are those of the condition Verified by which status.image is what this generation was resolved to.
var acceptedReasons = map[string]bool{
	v1alpha1.ReasonVerified:         true,
	v1alpha1.ReasonNotRequired:      true,
	v1alpha1.ReasonNoLongerVerified: true,
	v1alpha1.ReasonCannotVerify:     true,
}

// verdictReached is the condition Verified of this generation if it holds a verdict; nil before the first one, and where
// none is asked for.
func verdictReached(release *v1alpha1.GatewayRelease) *metav1.Condition {
	found := meta.FindStatusCondition(release.Status.Conditions, v1alpha1.ConditionVerified)
	if found == nil || found.ObservedGeneration != release.Generation || found.Reason == v1alpha1.ReasonVerifying || found.Reason == v1alpha1.ReasonNotAccepted {
		return nil
	}
	return found
}

// refusedBefore says that what this generation asks for did not pass when it was last decided.
func refusedBefore(release *v1alpha1.GatewayRelease) bool {
	reached := verdictReached(release)
	return reached != nil && !acceptedReasons[reached.Reason]
}

// verifying says that this generation asks for a verdict and has none yet.
func verifying(release *v1alpha1.GatewayRelease) bool {
	return required(release) != v1alpha1.VerificationDisabled && verdictReached(release) == nil
}

// unchanged leaves what is recorded of the verdict as it is, and says how far the accepted revision has come.
func unchanged(pass *outcome.Pass, release *v1alpha1.GatewayRelease) error {
	recorded := verdictReached(release)
	stalled := meta.FindStatusCondition(release.Status.Conditions, v1alpha1.ConditionStalled)
	if stalled != nil && stalled.Reason == recorded.Reason {
		return outcome.Terminal(stalled.Reason, errors.New(stalled.Message))
	}
	err := progress(pass, release.Status.Rollout)
	if recorded.Reason == v1alpha1.ReasonCannotVerify {
		pass.Set(v1alpha1.ConditionReconciling, metav1.ConditionTrue, recorded.Reason, recorded.Message)
	}
	return err
}

// invalid is the end of what only a person can cure. Everything that was accepted before stays as it is.
func invalid(pass *outcome.Pass, release *v1alpha1.GatewayRelease, refusal error) error {
	release.Status.Summary = outcome.Bound(summaryInvalid+": "+refusal.Error(), maxSummary)
	pass.Set(v1alpha1.ConditionAccepted, metav1.ConditionFalse, outcome.As(refusal).Reason, refusal.Error())
	resolved := meta.FindStatusCondition(release.Status.Conditions, v1alpha1.ConditionResolved)
	if resolved == nil || resolved.ObservedGeneration != release.Generation {
		unresolved(pass, release, v1alpha1.ReasonNotAccepted, "the registry is asked once the spec is accepted")
	}
	// A verdict is about what was asked for, and that is not well-formed now, whether the release was edited or its profile.
	if required(release) == v1alpha1.VerificationDisabled {
		pass.Clear(v1alpha1.ConditionVerified)
	} else {
		pass.Set(v1alpha1.ConditionVerified, metav1.ConditionUnknown, v1alpha1.ReasonNotAccepted, "signatures are looked for once the spec is accepted")
	}
	return refusal
}

// awaitDigest says that there is no verdict for this generation, unless there is one.
func awaitDigest(pass *outcome.Pass, release *v1alpha1.GatewayRelease) {
	switch {
	case required(release) == v1alpha1.VerificationDisabled:
		pass.Clear(v1alpha1.ConditionVerified)
	case verdictReached(release) == nil:
		pass.Set(v1alpha1.ConditionVerified, metav1.ConditionUnknown, v1alpha1.ReasonVerifying, "signatures are looked for once the digest is known")
	}
}

// resolving is before the digest of a generation is known.
func resolving(pass *outcome.Pass, release *v1alpha1.GatewayRelease, known assessment) {
	summary, reason, message := summaryResolving, v1alpha1.ReasonResolving, fmt.Sprintf("asking for the digest of %s", known.wanted.reference)
	if trouble := known.resolved.trouble; trouble != nil {
		reason, message = outcome.As(trouble).Reason, trouble.Error()
		summary += ": " + message
	}
	release.Status.Summary = outcome.Bound(summary, maxSummary)
	awaitDigest(pass, release)
	unresolved(pass, release, reason, message)
	underWay(pass, reason, message)
}

// unresolved says why the digest of this generation is not known.
func unresolved(pass *outcome.Pass, release *v1alpha1.GatewayRelease, reason, message string) {
	release.Status.ResolvedImage = ""
	pass.Set(v1alpha1.ConditionResolved, metav1.ConditionFalse, reason, message)
}

// progress says how far the accepted revision has come.
func progress(pass *outcome.Pass, rollout *v1alpha1.RolloutStatus) error {
	switch rollout.State {
	case v1alpha1.RolloutComplete:
		pass.Set(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRolloutComplete, rollout.Message)
		pass.Clear(v1alpha1.ConditionReconciling)
	case v1alpha1.RolloutFailed:
		return outcome.Terminal(v1alpha1.ReasonRolloutFailed, errors.New(rollout.Message))
	case v1alpha1.RolloutPaused:
		underWay(pass, v1alpha1.ReasonRolloutPaused, rollout.Message)
	default:
		underWay(pass, v1alpha1.ReasonRolloutProgressing, rollout.Message)
	}
	return nil
}

func underWay(pass *outcome.Pass, reason, message string) {
	pass.Set(v1alpha1.ConditionReady, metav1.ConditionFalse, reason, message)
	pass.Set(v1alpha1.ConditionReconciling, metav1.ConditionTrue, reason, message)
}
