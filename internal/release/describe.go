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

// The words of status.summary. A reason follows the first after a colon, and the second while a registry does not
// answer.
const (
	summaryInvalid   = "Invalid"
	summaryResolving = "Resolving"
	summaryAvailable = "Available"
)

// describe says in status what became of the spec of this generation, and returns the outcome of the pass. What a
// condition says is a function of the steps' outcomes alone, so the same state has the same words.
func describe(pass *outcome.Pass, release *v1alpha1.GatewayRelease, wanted candidate, found resolution, refusal error) error {
	switch {
	case refusal != nil:
		return refused(pass, release, refusal)
	case !found.known():
		waiting(pass, release, wanted, found)
		return nil
	}
	release.Status.Summary = summaryAvailable
	accepted(pass)
	if found.trouble != nil {
		pass.Set(v1alpha1.ConditionResolved, metav1.ConditionUnknown, outcome.As(found.trouble).Reason,
			"not asked anew: "+found.trouble.Error())
	} else {
		pass.Set(v1alpha1.ConditionResolved, metav1.ConditionTrue, v1alpha1.ReasonResolved,
			fmt.Sprintf("%s is %s", wanted.reference, found.digest))
	}
	return progress(pass, release.Status.Rollout)
}

func accepted(pass *outcome.Pass) {
	pass.Set(v1alpha1.ConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAccepted, "the image and the profile are well-formed")
}

// refused is the end of what only a person can cure. Everything that was accepted before stays as it is.
func refused(pass *outcome.Pass, release *v1alpha1.GatewayRelease, refusal error) error {
	release.Status.Summary = outcome.Bound(summaryInvalid+": "+refusal.Error(), maxSummary)
	pass.Set(v1alpha1.ConditionAccepted, metav1.ConditionFalse, outcome.As(refusal).Reason, refusal.Error())
	resolved := meta.FindStatusCondition(release.Status.Conditions, v1alpha1.ConditionResolved)
	if resolved == nil || resolved.ObservedGeneration != release.Generation {
		pass.Set(v1alpha1.ConditionResolved, metav1.ConditionFalse, v1alpha1.ReasonNotAccepted, "the registry is asked once the spec is accepted")
	}
	return refusal
}

// waiting is before the first verdict of a generation.
func waiting(pass *outcome.Pass, release *v1alpha1.GatewayRelease, wanted candidate, found resolution) {
	summary, reason, message := summaryResolving, v1alpha1.ReasonResolving, fmt.Sprintf("asking for the digest of %s", wanted.reference)
	if found.trouble != nil {
		reason, message = outcome.As(found.trouble).Reason, found.trouble.Error()
		summary += ": " + message
	}
	release.Status.Summary = outcome.Bound(summary, maxSummary)
	accepted(pass)
	pass.Set(v1alpha1.ConditionResolved, metav1.ConditionFalse, reason, message)
	pass.Set(v1alpha1.ConditionReady, metav1.ConditionFalse, reason, message)
	pass.Set(v1alpha1.ConditionReconciling, metav1.ConditionTrue, reason, message)
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
