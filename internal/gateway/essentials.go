package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// Essentials is a cache's transform for what gateways own and for their pods: it keeps what this controller looks at, and
// drops the rest. A fleet's pod templates and files would be most of the manager's memory. What is compared whole, or
// written back, is read past the cache. An object that is transformed already stays as it is.
func Essentials(object any) (any, error) {
	switch o := object.(type) {
	case *appsv1.Deployment:
		identify(&o.ObjectMeta)
		o.Spec = appsv1.DeploymentSpec{
			Replicas: o.Spec.Replicas, Selector: o.Spec.Selector, ProgressDeadlineSeconds: o.Spec.ProgressDeadlineSeconds,
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: imagesOf(o.Spec.Template.Spec.Containers)}},
		}
		for i := range o.Status.Conditions {
			c := &o.Status.Conditions[i]
			*c = appsv1.DeploymentCondition{Type: c.Type, Status: c.Status, Reason: c.Reason}
		}
	case *networkingv1.NetworkPolicy: // its generation says whether it has changed
		identify(&o.ObjectMeta)
		o.Spec = networkingv1.NetworkPolicySpec{}
	case *policyv1.PodDisruptionBudget:
		identify(&o.ObjectMeta)
		o.Spec, o.Status = policyv1.PodDisruptionBudgetSpec{}, policyv1.PodDisruptionBudgetStatus{}
	case *corev1.Service:
		identify(&o.ObjectMeta)
		o.Spec = corev1.ServiceSpec{Type: o.Spec.Type, Selector: o.Spec.Selector, Ports: o.Spec.Ports}
		o.Status = corev1.ServiceStatus{}
	case *corev1.ServiceAccount: // its annotations count: clouds read them
		annotations := o.Annotations
		identify(&o.ObjectMeta)
		o.Annotations, o.Secrets, o.ImagePullSecrets = annotations, nil, nil
	case *corev1.ConfigMap:
		identify(&o.ObjectMeta)
		seal(o)
	case *rbacv1.RoleBinding:
		identify(&o.ObjectMeta)
	case *corev1.Pod:
		identify(&o.ObjectMeta)
		status := corev1.PodStatus{Phase: o.Status.Phase, Reason: o.Status.Reason}
		for _, c := range o.Status.Conditions {
			if c.Type == corev1.PodReady || c.Type == corev1.PodScheduled {
				status.Conditions = append(status.Conditions, corev1.PodCondition{Type: c.Type, Status: c.Status, Reason: c.Reason, LastTransitionTime: c.LastTransitionTime})
			}
		}
		status.InitContainerStatuses = statesOf(o.Status.InitContainerStatuses)
		status.ContainerStatuses = statesOf(o.Status.ContainerStatuses)
		o.Spec, o.Status = corev1.PodSpec{}, status
	}
	return object, nil
}

// lookedAt are the labels and annotations that are.
var (
	lookedAtLabels      = []string{v1alpha1.LabelManagedBy, v1alpha1.LabelGateway}
	lookedAtAnnotations = []string{
		v1alpha1.AnnotationInputs, v1alpha1.AnnotationAdopt,
		v1alpha1.AnnotationRevision, v1alpha1.AnnotationRevisionRelease, v1alpha1.AnnotationAttempt, v1alpha1.AnnotationImage,
	}
)

// identify keeps of an object's metadata by what it is told apart, found, claimed and written on condition.
func identify(o *metav1.ObjectMeta) {
	*o = metav1.ObjectMeta{
		Name: o.Name, Namespace: o.Namespace, UID: o.UID, ResourceVersion: o.ResourceVersion, Generation: o.Generation,
		CreationTimestamp: o.CreationTimestamp, DeletionTimestamp: o.DeletionTimestamp,
		OwnerReferences: o.OwnerReferences,
		Labels:          only(o.Labels, lookedAtLabels),
		Annotations:     only(o.Annotations, lookedAtAnnotations),
	}
}

// only keeps those of a map's keys. The keys are those of the list: a fleet has each of them once in memory.
func only(all map[string]string, keys []string) map[string]string {
	var kept map[string]string
	for _, key := range keys {
		if value, found := all[key]; found {
			if kept == nil {
				kept = make(map[string]string, len(keys))
			}
			kept[key] = value
		}
	}
	return kept
}

func imagesOf(containers []corev1.Container) []corev1.Container {
	var kept []corev1.Container
	for _, c := range containers {
		if c.Name == v1alpha1.GatewayContainer {
			kept = append(kept, corev1.Container{Name: c.Name, Image: c.Image})
		}
	}
	return kept
}

func statesOf(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	var kept []corev1.ContainerStatus
	for _, s := range statuses {
		state := corev1.ContainerStatus{Name: s.Name, Ready: s.Ready, RestartCount: s.RestartCount, Image: s.Image, State: s.State}
		if ended := s.LastTerminationState.Terminated; ended != nil { // a crash loop between two crashes
			state.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: ended.ExitCode, Reason: ended.Reason}
		}
		kept = append(kept, state)
	}
	return kept
}

// sealed is the key under which a sealed ConfigMap has the digest of what it held. No ConfigMap of an API server has it:
// a key of those is not empty.
const sealed = ""

// seal replaces what a ConfigMap holds by its digest: a gateway's files are in memory once, in its own spec.
func seal(o *corev1.ConfigMap) {
	o.Data, o.BinaryData = map[string]string{sealed: filesOf(o)}, nil
}

// filesOf is the digest of what a ConfigMap holds, sealed or not.
func filesOf(o *corev1.ConfigMap) string {
	if digest, is := o.Data[sealed]; is {
		return digest
	}
	text, err := json.Marshal([]any{o.Data, o.BinaryData})
	if err != nil {
		panic(fmt.Sprintf("gateway: maps of strings and bytes have no JSON: %v", err)) // they always have
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
