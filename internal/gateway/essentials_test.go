package gateway

import (
	"encoding/json"
	"reflect"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// ownedMeta is the metadata of something that the gateway "edge" owns, with what else may stand there.
func ownedMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: "edge", Namespace: "tenant", UID: "uid", ResourceVersion: "7", Generation: 4,
		Labels: map[string]string{
			v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelGateway: "edge", "app.kubernetes.io/name": "edge",
		},
		Annotations: map[string]string{
			v1alpha1.AnnotationInputs: "inputs", v1alpha1.AnnotationAdopt: "true", "cloud.example.com/role": "arn",
			v1alpha1.AnnotationRevision: "v1", v1alpha1.AnnotationRevisionRelease: "stable", v1alpha1.AnnotationAttempt: "1", v1alpha1.AnnotationImage: "image",
		},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "gatehouse.dev/v1alpha1", Kind: "GatewayInstance", Name: "edge", UID: "owner", Controller: ptr.To(true)}},
		ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "somebody"}},
	}
}

func ownedObject(kind string) client.Object {
	m := ownedMeta()
	switch kind {
	case "Deployment":
		d := deployment(func(d *appsv1.Deployment) {
			d.ObjectMeta = m
			d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.LabelGateway: "edge"}}
			d.Spec.Template.Spec.Containers[1].Env = []corev1.EnvVar{{Name: "A", Value: "b"}}
		})
		return d
	case "NetworkPolicy":
		return &networkingv1.NetworkPolicy{ObjectMeta: m, Spec: networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{"Ingress"}}}
	case "PodDisruptionBudget":
		return &policyv1.PodDisruptionBudget{ObjectMeta: m, Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: ptr.To(intstr.FromInt32(1))}}
	case "Service":
		return &corev1.Service{ObjectMeta: m, Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.0.0.1", Selector: map[string]string{v1alpha1.LabelGateway: "edge"},
			Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080), Protocol: corev1.ProtocolTCP}},
		}}
	case "ServiceAccount":
		return &corev1.ServiceAccount{ObjectMeta: m, AutomountServiceAccountToken: ptr.To(false), Secrets: []corev1.ObjectReference{{Name: "token"}}}
	case "ConfigMap":
		return &corev1.ConfigMap{ObjectMeta: m, Data: map[string]string{"gateway.toml": "a"}, BinaryData: map[string][]byte{"b": {1}}}
	case "RoleBinding":
		return &rbacv1.RoleBinding{ObjectMeta: m, RoleRef: rbacv1.RoleRef{Name: "view"}, Subjects: []rbacv1.Subject{{Name: "edge"}}}
	}
	panic(kind)
}

// What is cached and what an apply answers are compared with each other: nothing that counts may be lost on the way.
func TestNothingThatCountsIsDropped(t *testing.T) {
	for _, owned := range ownedKinds {
		t.Run(owned.kind.Kind, func(t *testing.T) {
			whole, cached := ownedObject(owned.kind.Kind), ownedObject(owned.kind.Kind)
			for range 2 { // a cache may transform what it has transformed
				if _, err := Essentials(cached); err != nil {
					t.Fatal(err)
				}
			}
			want, err := mark(owned, whole)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := mark(owned, cached); err != nil || got != want {
				t.Errorf("mark %s of what is cached, %s of the whole (%v)", got, want, err)
			}
			gateway := &v1alpha1.GatewayInstance{ObjectMeta: metav1.ObjectMeta{Name: "edge", UID: "owner"}}
			if !metav1.IsControlledBy(cached, gateway) || !ours(gateway, cached) {
				t.Errorf("it is not known as the gateway's any more: %+v", cached)
			}
			if a, b := cached.GetAnnotations(), whole.GetAnnotations(); a[v1alpha1.AnnotationInputs] != "inputs" || a[v1alpha1.AnnotationAdopt] != b[v1alpha1.AnnotationAdopt] {
				t.Errorf("annotations %v", a)
			}
			if cached.GetResourceVersion() != "7" || cached.GetGeneration() != 4 || cached.GetUID() != "uid" {
				t.Errorf("identity %+v", cached)
			}
			if cached.GetManagedFields() != nil || cached.GetLabels()["app.kubernetes.io/name"] != "" {
				t.Errorf("what nobody looks at is kept: %+v", cached)
			}
			if a, b := size(t, cached), size(t, whole); a >= b {
				t.Errorf("%d bytes of %d", a, b)
			}
		})
	}
}

func size(t *testing.T, object any) int {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return len(text)
}

// Drift shows in a mark, also of what is cached without its content.
func TestAnEditShowsInWhatIsCached(t *testing.T) {
	for kind, edit := range map[string]func(client.Object){
		"ConfigMap":      func(o client.Object) { o.(*corev1.ConfigMap).Data["gateway.toml"] = "b" },
		"Service":        func(o client.Object) { o.(*corev1.Service).Spec.Ports[0].Port = 81 },
		"ServiceAccount": func(o client.Object) { o.(*corev1.ServiceAccount).Annotations["cloud.example.com/role"] = "another" },
		"RoleBinding":    func(o client.Object) { o.(*rbacv1.RoleBinding).Subjects[0].Name = "another" },
		"NetworkPolicy":  func(o client.Object) { o.SetGeneration(5) },
		"Deployment":     func(o client.Object) { o.SetGeneration(5) },
	} {
		t.Run(kind, func(t *testing.T) {
			before, now := ownedObject(kind), ownedObject(kind)
			edit(now)
			var marks []string
			for _, object := range []client.Object{before, now} {
				if _, err := Essentials(object); err != nil {
					t.Fatal(err)
				}
				for _, owned := range ownedKinds {
					if owned.kind.Kind == kind {
						one, err := mark(owned, object)
						if err != nil {
							t.Fatal(err)
						}
						marks = append(marks, one)
					}
				}
			}
			if marks[0] == marks[1] {
				t.Errorf("both are %s", marks[0])
			}
		})
	}
}

// What a Deployment looks like, and what it says of itself, is the same from the cache.
func TestADeploymentIsSeenAlikeFromTheCache(t *testing.T) {
	for name, edit := range map[string]func(*appsv1.Deployment){
		"converged":         func(*appsv1.Deployment) {},
		"not observed":      func(d *appsv1.Deployment) { d.Generation = 9 },
		"not all available": func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 2 },
		"pods are refused": func(d *appsv1.Deployment) {
			d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: "quota"}}
		},
		"time is up": func(d *appsv1.Deployment) {
			d.Status.Conditions[1] = appsv1.DeploymentCondition{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			whole, cached := deployment(edit), deployment(edit)
			if _, err := Essentials(cached); err != nil {
				t.Fatal(err)
			}
			if a, b := see(whole, nil), see(cached, nil); a != b {
				t.Errorf("%+v from the cache, %+v from the whole", b, a)
			}
		})
	}
	d := ownedObject("Deployment").(*appsv1.Deployment)
	selector := d.Spec.Selector.DeepCopy()
	if _, err := Essentials(d); err != nil || !reflect.DeepEqual(d.Spec.Selector, selector) {
		t.Errorf("selector %v, want %v (%v)", d.Spec.Selector, selector, err)
	}
}

func TestWhyAPodDoesNotRunIsSeenFromTheCache(t *testing.T) {
	pod := corev1.Pod{
		ObjectMeta: ownedMeta(),
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "gateway"}}},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			RestartCount: 1, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "stack"}},
		}}},
	}
	if _, err := Essentials(&pod); err != nil || stuckPod(&pod) != "CrashLoopBackOff" || pod.Spec.Containers != nil {
		t.Errorf("%q, %+v (%v)", stuckPod(&pod), pod, err)
	}
}
