package manifest

import (
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

const (
	// progressDeadlineSeconds is how long Kubernetes waits before it calls a Deployment stuck: longer than a slow
	// image pull, shorter than the default deadline of a rollout, so that the reason is known when that one passes.
	progressDeadlineSeconds = 300
	// revisionHistoryLimit is how many old ReplicaSets are kept for people to look at. Going back is a release's
	// affair and needs none.
	revisionHistoryLimit = 2
)

// DeploymentKind is the kind of the workload.
var DeploymentKind = appsv1.SchemeGroupVersion.WithKind("Deployment")

// deployment runs the revision. Its rolling update never goes below the desired replicas, and its annotations are the
// marks by which a gateway that has lost its status is adopted. The marks are not on the pod template, where a new
// attempt or another tag of the same digest would roll pods.
func (r *renderer) deployment() error {
	template, err := r.template()
	if err != nil {
		return err
	}
	marks := map[string]string{
		v1alpha1.AnnotationRevision:        r.recorded.Name,
		v1alpha1.AnnotationRevisionRelease: r.recorded.Release,
		v1alpha1.AnnotationAttempt:         strconv.FormatInt(r.recorded.Attempt, 10),
		v1alpha1.AnnotationImage:           r.recorded.Image,
	}
	if r.revision.Tag != "" {
		marks[v1alpha1.AnnotationTag] = r.revision.Tag
	}
	spec := r.gateway.Spec
	return r.add(DeploymentKind, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Annotations: marks},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(r.replicas()),
			Selector: &metav1.LabelSelector{MatchLabels: Selector(r.gateway.Name)},
			Template: template,
			Strategy: appsv1.DeploymentStrategy{
				Type: appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{
					MaxUnavailable: ptr.To(intstr.FromInt32(0)),
					MaxSurge:       ptr.To(intstr.FromString("25%")), // rounded up: at least one pod
				},
			},
			RevisionHistoryLimit:    ptr.To[int32](revisionHistoryLimit),
			ProgressDeadlineSeconds: ptr.To[int32](progressDeadlineSeconds),
		},
	}, r.recorded.Release, r.recorded.Name, r.replicas(),
		spec.Config, spec.Env, spec.EnvFrom, spec.Volumes, spec.Resources)
}

func (r *renderer) replicas() int32 { return ptr.Deref(r.gateway.Spec.Replicas, 1) }

// template is the revision's pod template with the gateway's own wishes in the container "gateway".
func (r *renderer) template() (corev1.PodTemplateSpec, error) {
	template, err := r.revision.Template()
	if err != nil {
		return template, err
	}
	labels := maps.Clone(template.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, Labels(r.gateway.Name))
	template.Labels = labels
	template.Spec.ServiceAccountName = r.gateway.Name
	template.Spec.AutomountServiceAccountToken = ptr.To(r.automountToken())

	container := gatewayContainer(&template.Spec)
	if err := r.setEnvironment(container); err != nil {
		return template, err
	}
	if err := r.mountConfig(&template, container); err != nil {
		return template, err
	}
	if err := r.mountVolumes(&template.Spec, container); err != nil {
		return template, err
	}
	if resources := r.gateway.Spec.Resources; resources != nil {
		container.Resources.Requests = resources.Requests.DeepCopy()
		container.Resources.Limits = resources.Limits.DeepCopy()
	}
	return template, nil
}

// gatewayContainer is never nil: no revision is without one.
func gatewayContainer(pod *corev1.PodSpec) *corev1.Container {
	for i := range pod.Containers {
		if pod.Containers[i].Name == v1alpha1.GatewayContainer {
			return &pod.Containers[i]
		}
	}
	return nil
}

// disruptionBudget keeps a drain from taking more than one pod at a time. A single pod gets none, because it would
// block every drain.
func (r *renderer) disruptionBudget() error {
	if r.replicas() <= 1 {
		return nil
	}
	return r.add(policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), &policyv1.PodDisruptionBudget{
		Spec: policyv1.PodDisruptionBudgetSpec{
			Selector:                   &metav1.LabelSelector{MatchLabels: Selector(r.gateway.Name)},
			MaxUnavailable:             ptr.To(intstr.FromInt32(1)),
			UnhealthyPodEvictionPolicy: ptr.To(policyv1.AlwaysAllow),
		},
	})
}
