package app

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// cacheOptions keep in memory what the controllers look at and nothing else: of workloads those that Gatehouse
// manages, of Secrets and revisions those in its own namespace, of pods what says why they are not ready.
func cacheOptions(namespace string, watchFailed toolscache.WatchErrorHandlerWithContext) cache.Options {
	managed := labels.SelectorFromSet(labels.Set{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy})
	own := map[string]cache.Config{namespace: {}}
	return cache.Options{
		DefaultTransform:         cache.TransformStripManagedFields(),
		DefaultWatchErrorHandler: watchFailed,
		ByObject: map[client.Object]cache.ByObject{
			&appsv1.Deployment{}:            {Label: managed},
			&corev1.Service{}:               {Label: managed},
			&corev1.ServiceAccount{}:        {Label: managed},
			&networkingv1.NetworkPolicy{}:   {Label: managed},
			&rbacv1.RoleBinding{}:           {Label: managed},
			&policyv1.PodDisruptionBudget{}: {Label: managed},
			&corev1.ConfigMap{}:             {Namespaces: map[string]cache.Config{namespace: {}, cache.AllNamespaces: {LabelSelector: managed}}},
			&corev1.Pod{}:                   {Label: managed, Transform: podEssentials},
			&corev1.Secret{}:                {Namespaces: own},
			&appsv1.ControllerRevision{}:    {Namespaces: own},
		},
	}
}

// podEssentials keeps of a pod what its gateway's status is told from: identity, labels, owners and the states of its
// containers. A fleet's pod specs would be most of the manager's memory.
func podEssentials(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	small := &corev1.Pod{
		TypeMeta: pod.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			Labels: pod.Labels, OwnerReferences: pod.OwnerReferences,
			CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp,
		},
		Status: corev1.PodStatus{Phase: pod.Status.Phase, Reason: pod.Status.Reason},
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady || c.Type == corev1.PodScheduled {
			small.Status.Conditions = append(small.Status.Conditions, corev1.PodCondition{Type: c.Type, Status: c.Status, Reason: c.Reason, LastTransitionTime: c.LastTransitionTime})
		}
	}
	small.Status.InitContainerStatuses = containerEssentials(pod.Status.InitContainerStatuses)
	small.Status.ContainerStatuses = containerEssentials(pod.Status.ContainerStatuses)
	return small, nil
}

func containerEssentials(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	var small []corev1.ContainerStatus
	for _, s := range statuses {
		kept := corev1.ContainerStatus{Name: s.Name, Ready: s.Ready, RestartCount: s.RestartCount, Image: s.Image, State: s.State}
		if ended := s.LastTerminationState.Terminated; ended != nil { // a crash loop between two crashes
			kept.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: ended.ExitCode, Reason: ended.Reason}
		}
		small = append(small, kept)
	}
	return small
}
