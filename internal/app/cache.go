package app

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/gateway"
)

// cacheOptions keep in memory what the controllers look at and nothing else: of workloads those that Gatehouse
// manages, and of them what a gateway looks at; of Secrets and revisions those in its own namespace; of a ConfigMap in its
// own namespace all, for a release may refer to it; of the pods there all, for some of them are its replicas.
func cacheOptions(namespace string, watchFailed toolscache.WatchErrorHandlerWithContext) cache.Options {
	managed := labels.SelectorFromSet(labels.Set{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy})
	own := map[string]cache.Config{namespace: {}}
	return cache.Options{
		DefaultTransform:         withoutCopies,
		DefaultWatchErrorHandler: watchFailed,
		ByObject: map[client.Object]cache.ByObject{
			&appsv1.Deployment{}:            {Label: managed, Transform: gateway.Essentials},
			&corev1.Service{}:               {Label: managed, Transform: gateway.Essentials},
			&corev1.ServiceAccount{}:        {Label: managed, Transform: gateway.Essentials},
			&networkingv1.NetworkPolicy{}:   {Label: managed, Transform: gateway.Essentials},
			&rbacv1.RoleBinding{}:           {Label: managed, Transform: gateway.Essentials},
			&policyv1.PodDisruptionBudget{}: {Label: managed, Transform: gateway.Essentials},
			&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{
				namespace:           {},
				cache.AllNamespaces: {LabelSelector: managed, Transform: gateway.Essentials},
			}},
			&corev1.Pod{}: {Namespaces: map[string]cache.Config{
				namespace:           {Transform: labelled},
				cache.AllNamespaces: {LabelSelector: managed, Transform: gateway.Essentials},
			}},
			&corev1.Secret{}:             {Namespaces: own},
			&appsv1.ControllerRevision{}: {Namespaces: own},
		},
	}
}

// labelled is gateway.Essentials for pods of Gatehouse's own namespace: their labels tell which are its replicas.
func labelled(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	labels := pod.Labels
	if _, err := gateway.Essentials(pod); err != nil {
		return nil, err
	}
	pod.Labels = labels
	return pod, nil
}

// withoutCopies drops what repeats the rest of an object: who owns which field, and what kubectl applied last. Nobody
// here looks at them, and no patch that is made from a cached object touches them.
func withoutCopies(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
		if annotations := accessor.GetAnnotations(); annotations[corev1.LastAppliedConfigAnnotation] != "" {
			delete(annotations, corev1.LastAppliedConfigAnnotation)
		}
	}
	return object, nil
}
