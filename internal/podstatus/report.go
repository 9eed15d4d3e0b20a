package podstatus

import (
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/executor"
)

// identityOf says which Executor has a name; a name without a namespace is the cluster's.
func identityOf(name types.NamespacedName, uid types.UID) v1alpha1.ExecutorIdentity {
	kind := v1alpha1.KindExecutor
	if name.Namespace != "" {
		kind = v1alpha1.KindNamespacedExecutor
	}
	return v1alpha1.ExecutorIdentity{Kind: kind, Namespace: name.Namespace, Name: name.Name, UID: uid}
}

// keyOf is under which name an Executor is worked on.
func keyOf(e v1alpha1.ExecutorIdentity) types.NamespacedName {
	return types.NamespacedName{Namespace: e.Namespace, Name: e.Name}
}

// written is what a process of a pod says, as it is to be stored; without a time.
func written(replica Replica, pod v1alpha1.PodIdentity, said executor.Report) *v1alpha1.ExecutorPodStatus {
	identity := identityOf(said.Name, said.UID)
	return &v1alpha1.ExecutorPodStatus{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       replica.Namespace,
			Name:            PackName(pod.Name, identity),
			Labels:          map[string]string{v1alpha1.LabelExecutorUID: string(said.UID), v1alpha1.LabelPodUID: string(pod.UID)},
			OwnerReferences: owner(pod),
		},
		Spec: v1alpha1.ExecutorPodStatusSpec{Executor: identity, Pod: pod},
		Status: v1alpha1.ExecutorPodStatusStatus{
			Process:            replica.Process,
			ObservedGeneration: said.Attempted,
			ServingGeneration:  said.Serving,
			Inputs:             said.Inputs,
			Succeeded:          said.Succeeded,
			Reason:             said.Reason,
			Error:              said.Error,
			BriefError:         said.Brief,
		},
	}
}

// sameMetadata reports whether an object has the labels and the owner that it should have. Other labels are nobody's
// business; another owner would keep it when the pod is gone.
func sameMetadata(have, want *v1alpha1.ExecutorPodStatus) bool {
	for label, value := range want.Labels {
		if have.Labels[label] != value {
			return false
		}
	}
	return equality.Semantic.DeepEqual(have.OwnerReferences, want.OwnerReferences)
}

// withMetadata is an object with the labels and the owner that it should have.
func withMetadata(have, want *v1alpha1.ExecutorPodStatus) *v1alpha1.ExecutorPodStatus {
	mended := have.DeepCopy()
	if mended.Labels == nil {
		mended.Labels = map[string]string{}
	}
	maps.Copy(mended.Labels, want.Labels)
	mended.OwnerReferences = want.OwnerReferences
	return mended
}

// sameStatus reports whether two say the same, whenever it was.
func sameStatus(a, b v1alpha1.ExecutorPodStatusStatus) bool {
	a.LastTransitionTime, b.LastTransitionTime = nil, nil
	return a == b
}
