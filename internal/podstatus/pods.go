package podstatus

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// replicaLabels are on every pod of the installation, and tell it from other pods in its namespace.
var replicaLabels = client.MatchingLabels{
	v1alpha1.LabelApplication: v1alpha1.Application,
	v1alpha1.LabelComponent:   v1alpha1.ComponentManager,
}

// IsReplica reports whether a pod in Gatehouse's namespace is a replica of this installation.
func IsReplica(pod client.Object) bool {
	for key, value := range replicaLabels {
		if pod.GetLabels()[key] != value {
			return false
		}
	}
	return true
}

// serving reports whether requests reach a pod: it is Ready, and neither ends nor has ended.
func serving(pod *corev1.Pod) bool {
	if !pod.DeletionTimestamp.IsZero() || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// replicaChanged passes what alters who is counted: replicas come, go, begin to serve and cease to.
var replicaChanged = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return IsReplica(e.Object) },
	DeleteFunc: func(e event.DeleteEvent) bool { return IsReplica(e.Object) },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, was := e.ObjectOld.(*corev1.Pod)
		now, is := e.ObjectNew.(*corev1.Pod)
		if !was || !is || !IsReplica(before) && !IsReplica(now) {
			return false
		}
		return IsReplica(before) != IsReplica(now) || before.UID != now.UID || serving(before) != serving(now)
	},
}
