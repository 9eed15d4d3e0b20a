package soak

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// belongings are the objects of one gateway, by kind and name.
type belongings map[string]client.Object

// owned reads what there is of every gateway.
func (w *world) owned(ctx context.Context) (map[types.UID]belongings, error) {
	out := map[types.UID]belongings{}
	for kind, list := range map[string]client.ObjectList{
		"Deployment": &appsv1.DeploymentList{}, "Service": &corev1.ServiceList{}, "ServiceAccount": &corev1.ServiceAccountList{},
		"ConfigMap": &corev1.ConfigMapList{}, "NetworkPolicy": &networkingv1.NetworkPolicyList{},
		"RoleBinding": &rbacv1.RoleBindingList{}, "PodDisruptionBudget": &policyv1.PodDisruptionBudgetList{},
	} {
		if err := w.product.Client.List(ctx, list); err != nil {
			return nil, err
		}
		_ = meta.EachListItem(list, func(item runtime.Object) error {
			object := item.(client.Object)
			owner := metav1.GetControllerOf(object)
			if owner == nil || owner.Kind != "GatewayInstance" {
				return nil
			}
			if out[owner.UID] == nil {
				out[owner.UID] = belongings{}
			}
			out[owner.UID][kind+" "+object.GetName()] = object
			return nil
		})
	}
	return out, nil
}

// take returns an object and strikes it out.
func take[T client.Object](b belongings, kind, name string) (T, error) {
	object, found := b[kind+" "+name].(T)
	delete(b, kind+" "+name)
	if !found {
		return object, fmt.Errorf("its %s %s is not there", kind, name)
	}
	return object, nil
}

// workload holds that a gateway has what its spec and its profile ask for, and nothing else.
func (s *specs) workload(g *v1alpha1.GatewayInstance, has belongings) error {
	profile := s.profileOf(g)
	for _, check := range []func(*v1alpha1.GatewayInstance, *v1alpha1.GatewayProfile, belongings) error{
		s.deployment, serviceAccount, service, configMap, networkPolicy, roleBinding, disruptionBudget,
	} {
		if err := check(g, profile, has); err != nil {
			return err
		}
	}
	if len(has) > 0 {
		return fmt.Errorf("nobody has asked for its %v", slices.Sorted(maps.Keys(has)))
	}
	return nil
}

// readTemplate reads a profile's pod template as strictly as a person would have it.
func readTemplate(profile *v1alpha1.GatewayProfile) (corev1.PodTemplateSpec, error) {
	var template corev1.PodTemplateSpec
	decoder := json.NewDecoder(bytes.NewReader(profile.Spec.Template.Raw))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&template)
	return template, err
}

func (s *specs) deployment(g *v1alpha1.GatewayInstance, profile *v1alpha1.GatewayProfile, has belongings) error {
	d, err := take[*appsv1.Deployment](has, "Deployment", g.Name)
	if err != nil {
		return err
	}
	template, err := readTemplate(profile)
	if err != nil {
		return err
	}
	want := template.Spec.Containers[0]
	for _, variable := range g.Spec.Env {
		want.Env = append(want.Env, corev1.EnvVar{Name: variable.Name, Value: *variable.Value})
	}
	if g.Spec.Resources != nil {
		want.Resources = corev1.ResourceRequirements{Requests: g.Spec.Resources.Requests, Limits: g.Spec.Resources.Limits}
	}
	if len(g.Spec.Config) > 0 {
		want.VolumeMounts = append(want.VolumeMounts, corev1.VolumeMount{Name: v1alpha1.ConfigVolume, MountPath: profile.Spec.Config.MountPath, ReadOnly: true})
	}
	pod := d.Spec.Template.Spec
	if len(pod.Containers) != 1 || len(pod.InitContainers) > 0 || pod.HostNetwork || pod.ServiceAccountName != g.Name {
		return fmt.Errorf("its pods: %s", text(pod))
	}
	got, image := pod.Containers[0], s.images[g.Spec.ReleaseRef.Name]
	switch {
	case ptr.Deref(d.Spec.Replicas, 1) != ptr.Deref(g.Spec.Replicas, 1):
		return fmt.Errorf("its Deployment has %d replicas, want %d", *d.Spec.Replicas, ptr.Deref(g.Spec.Replicas, 1))
	case got.Image != image:
		return fmt.Errorf("its Deployment runs %s, want %s", got.Image, image)
	case !equality.Semantic.DeepEqual(got.Env, want.Env):
		return fmt.Errorf("its variables are %s, want %s", text(got.Env), text(want.Env))
	case !equality.Semantic.DeepEqual(got.Resources, want.Resources):
		return fmt.Errorf("its resources are %s, want %s", text(got.Resources), text(want.Resources))
	case !equality.Semantic.DeepEqual(got.VolumeMounts, want.VolumeMounts):
		return fmt.Errorf("its mounts are %s, want %s", text(got.VolumeMounts), text(want.VolumeMounts))
	case len(got.Command)+len(got.Args) > 0 || d.Labels[v1alpha1.LabelManagedBy] != v1alpha1.ManagedBy || d.Labels[v1alpha1.LabelGateway] != g.Name:
		return fmt.Errorf("its Deployment: labels %v, command %v %v", d.Labels, got.Command, got.Args)
	}
	return nil
}

func serviceAccount(g *v1alpha1.GatewayInstance, _ *v1alpha1.GatewayProfile, has belongings) error {
	account, err := take[*corev1.ServiceAccount](has, "ServiceAccount", g.Name)
	if err == nil && ptr.Deref(account.AutomountServiceAccountToken, true) {
		return fmt.Errorf("a token is mounted, and nobody asked for one")
	}
	return err
}

func service(g *v1alpha1.GatewayInstance, profile *v1alpha1.GatewayProfile, has belongings) error {
	if len(profile.Spec.Ports) == 0 {
		return nil
	}
	service, err := take[*corev1.Service](has, "Service", g.Name)
	if err != nil {
		return err
	}
	port := profile.Spec.Ports[0]
	if len(service.Spec.Ports) != 1 || service.Spec.Ports[0].Port != port.Port || service.Spec.Ports[0].TargetPort != *port.TargetPort ||
		len(service.Spec.Selector) != 2 || service.Spec.Selector[v1alpha1.LabelGateway] != g.Name {
		return fmt.Errorf("its Service: %s", text(service.Spec))
	}
	return nil
}

func configMap(g *v1alpha1.GatewayInstance, _ *v1alpha1.GatewayProfile, has belongings) error {
	if len(g.Spec.Config) == 0 {
		return nil
	}
	files, err := take[*corev1.ConfigMap](has, "ConfigMap", g.Name)
	if err != nil {
		return err
	}
	want := map[string]string{}
	for name, content := range g.Spec.Config {
		want[name] = string(content)
	}
	if !maps.Equal(files.Data, want) {
		return fmt.Errorf("its files are %v, want %v", files.Data, want)
	}
	return nil
}

func networkPolicy(g *v1alpha1.GatewayInstance, profile *v1alpha1.GatewayProfile, has belongings) error {
	if profile.Spec.NetworkPolicy == nil {
		return nil
	}
	policy, err := take[*networkingv1.NetworkPolicy](has, "NetworkPolicy", g.Name)
	if err == nil && (len(policy.Spec.Ingress) != 1 || len(policy.Spec.Ingress[0].Ports) != 1 || len(policy.Spec.Ingress[0].From) > 0) {
		return fmt.Errorf("its NetworkPolicy: %s", text(policy.Spec))
	}
	return err
}

func roleBinding(g *v1alpha1.GatewayInstance, profile *v1alpha1.GatewayProfile, has belongings) error {
	for _, role := range profile.Spec.ClusterRoles {
		binding, err := take[*rbacv1.RoleBinding](has, "RoleBinding", g.Name+"."+role)
		if err != nil {
			return err
		}
		if binding.RoleRef.Name != role || len(binding.Subjects) != 1 || binding.Subjects[0].Name != g.Name {
			return fmt.Errorf("its RoleBinding: %s to %s", text(binding.RoleRef), text(binding.Subjects))
		}
	}
	return nil
}

func disruptionBudget(g *v1alpha1.GatewayInstance, _ *v1alpha1.GatewayProfile, has belongings) error {
	if ptr.Deref(g.Spec.Replicas, 1) <= 1 {
		return nil
	}
	_, err := take[*policyv1.PodDisruptionBudget](has, "PodDisruptionBudget", g.Name)
	return err
}
