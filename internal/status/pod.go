package status

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podState is whether a pod gets requests, and if not, why and since when.
type podState struct {
	serves bool
	why    string
	since  *metav1.Time
}

// stateOf reads a pod as Services do: one that is Ready and not about to end gets requests.
func stateOf(pod *corev1.Pod) podState {
	created := pod.CreationTimestamp
	ready, scheduled := condition(pod, corev1.PodReady), condition(pod, corev1.PodScheduled)
	since := &created
	if ready != nil && !ready.LastTransitionTime.IsZero() {
		since = &ready.LastTransitionTime
	}
	switch {
	case pod.DeletionTimestamp != nil:
		return podState{why: "it is ending", since: pod.DeletionTimestamp}
	case pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded:
		return podState{why: "it has ended" + because(pod.Status.Reason), since: since}
	case ready != nil && ready.Status == corev1.ConditionTrue:
		return podState{serves: true}
	case scheduled != nil && scheduled.Status != corev1.ConditionTrue:
		return podState{why: "it has no node" + because(scheduled.Reason), since: &scheduled.LastTransitionTime}
	case pod.Status.Phase == corev1.PodPending:
		return podState{why: "it is starting" + because(waiting(pod)), since: &created}
	default:
		return podState{why: "it is not Ready" + because(waiting(pod)), since: since}
	}
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

// waiting is why a container does not run.
func waiting(pod *corev1.Pod) string {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, s := range statuses {
			if s.State.Waiting != nil && s.State.Waiting.Reason != "PodInitializing" {
				return s.State.Waiting.Reason
			}
		}
	}
	return ""
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
