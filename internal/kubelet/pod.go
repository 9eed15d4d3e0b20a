package kubelet

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// Pod is a replica's pod that belongs to no Deployment, for a cluster without controllers or a test that wants a name. Its
// container's arguments are the process's.
func Pod(namespace, name, serviceAccount string, arguments ...string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name,
			Labels: map[string]string{v1alpha1.LabelApplication: v1alpha1.Application, v1alpha1.LabelComponent: v1alpha1.ComponentManager},
		},
		Spec: corev1.PodSpec{
			ServiceAccountName: serviceAccount,
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), RunAsUser: new(int64(65532)),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "manager", Image: "ghcr.io/gatehouse-dev/gatehouse:dev", Args: arguments,
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
	Claim(&pod.ObjectMeta, &pod.Spec)
	return pod
}

// Claim makes a pod, or a Deployment's template of pods, one that no node runs and this kubelet can.
func Claim(meta *metav1.ObjectMeta, spec *corev1.PodSpec) {
	meta.Finalizers = append(meta.Finalizers, Finalizer)
	spec.SchedulerName = Scheduler
}
