package gateway

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// stuck says in Kubernetes' own words why a Deployment does not progress, or nothing while it may. The most telling
// reason is chosen: what keeps pods from being made, then what keeps one from running, then that time is up. The same
// pods in any order give the same word.
func stuck(deployment *appsv1.Deployment, pods []corev1.Pod) string {
	for _, condition := range deployment.Status.Conditions {
		if condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue {
			return condition.Reason
		}
	}
	var reasons []string
	for i := range pods {
		if reason := stuckPod(&pods[i]); reason != "" {
			reasons = append(reasons, reason)
		}
	}
	if len(reasons) > 0 {
		return slices.Min(reasons)
	}
	for _, condition := range deployment.Status.Conditions {
		if condition.Type == appsv1.DeploymentProgressing && condition.Status == corev1.ConditionFalse {
			return condition.Reason
		}
	}
	return ""
}

// stuckPod is why a pod does not get to run; nothing for one that runs, or may still. What a kubelet alternates between
// counts as one reason, so that status does not follow its every try.
func stuckPod(pod *corev1.Pod) string {
	if !pod.DeletionTimestamp.IsZero() {
		return ""
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse && condition.Reason == corev1.PodReasonUnschedulable {
			return condition.Reason
		}
	}
	for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if reason := stuckContainer(container); reason != "" {
			return reason
		}
	}
	return ""
}

func stuckContainer(container corev1.ContainerStatus) string {
	crashed := container.LastTerminationState.Terminated
	if container.State.Terminated != nil {
		crashed = container.State.Terminated
	}
	if !container.Ready && container.RestartCount > 0 && crashed != nil && crashed.ExitCode != 0 {
		return "CrashLoopBackOff"
	}
	if container.State.Waiting == nil {
		return ""
	}
	switch reason := container.State.Waiting.Reason; reason {
	case "ErrImagePull", "ImagePullBackOff":
		return "ImagePullBackOff"
	case "CrashLoopBackOff", "CreateContainerConfigError", "CreateContainerError", "ErrImageNeverPull",
		"ImageInspectError", "InvalidImageName", "RegistryUnavailable", "RunContainerError":
		return reason
	default:
		return ""
	}
}
