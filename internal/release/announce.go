package release

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/outcome"
)

// announceVerdict makes the events of a verdict that has changed, but for those that come with Stalled.
func announceVerdict(pass *outcome.Pass, now, before v1alpha1.GatewayReleaseStatus) {
	verdict := meta.FindStatusCondition(now.Conditions, v1alpha1.ConditionVerified)
	was := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionVerified)
	if verdict == nil || was != nil && was.Reason == verdict.Reason {
		return
	}
	switch verdict.Reason {
	case v1alpha1.ReasonVerified, v1alpha1.ReasonNotRequired:
		pass.Event(corev1.EventTypeNormal, verdict.Reason, verdict.Message)
	case v1alpha1.ReasonCannotVerify:
		pass.Event(corev1.EventTypeWarning, verdict.Reason, verdict.Message)
	}
}

// announce makes the events and log lines of what this pass changed. The events of a refusal, of a failed and of a
// complete rollout come with their conditions.
func announce(ctx context.Context, pass *outcome.Pass, release *v1alpha1.GatewayRelease, before v1alpha1.GatewayReleaseStatus) {
	logger := log.FromContext(ctx)
	now := release.Status
	if now.Image != before.Image {
		pass.Event(corev1.EventTypeNormal, v1alpha1.ReasonResolved, fmt.Sprintf("resolved to %s", now.Image))
		logger.Info("image accepted", "digest", now.Image, "revision", now.Revision)
	}
	trouble := meta.FindStatusCondition(now.Conditions, v1alpha1.ConditionResolved)
	was := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionResolved)
	if trouble != nil && trouble.Reason == v1alpha1.ReasonRegistryUnavailable && (was == nil || was.Reason != trouble.Reason) {
		pass.Event(corev1.EventTypeWarning, trouble.Reason, trouble.Message)
	}
	announceVerdict(pass, now, before)
	if now.Summary != before.Summary {
		logger.Info("release assessed", "summary", now.Summary)
	}
	if now.Rollout == nil {
		return
	}
	if before.Rollout == nil {
		before.Rollout = &v1alpha1.RolloutStatus{}
	}
	if now.Rollout.Attempt != before.Rollout.Attempt && now.Rollout.State != v1alpha1.RolloutComplete {
		pass.Event(corev1.EventTypeNormal, v1alpha1.ReasonRolloutStarted,
			fmt.Sprintf("attempt %d moves %d gateways to %s", now.Rollout.Attempt, now.Rollout.Fleet.Total, now.Rollout.Target))
	}
	if now.Rollout.State != before.Rollout.State {
		logger.Info("rollout "+string(now.Rollout.State), "revision", now.Rollout.Target, "attempt", now.Rollout.Attempt, "message", now.Rollout.Message)
		if now.Rollout.State == v1alpha1.RolloutPaused {
			pass.Event(corev1.EventTypeNormal, v1alpha1.ReasonRolloutPaused, now.Rollout.Message)
		}
	}
}
