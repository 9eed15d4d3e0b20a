package manifest

import (
	"fmt"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// setEnvironment adds the tenant's variables to those of the profile. It replaces none: a profile relies on its own.
func (r *renderer) setEnvironment(container *corev1.Container) error {
	taken := map[string]bool{}
	for _, variable := range container.Env {
		taken[variable.Name] = true
	}
	for _, variable := range r.gateway.Spec.Env {
		if taken[variable.Name] {
			return &SpecError{
				Field:  fmt.Sprintf("spec.env[%s]", variable.Name),
				Reason: fmt.Sprintf("the profile of release %s sets this variable; remove it or choose another name", r.recorded.Release),
			}
		}
		taken[variable.Name] = true
		container.Env = append(container.Env, environment(variable))
	}
	for _, source := range r.gateway.Spec.EnvFrom {
		from := corev1.EnvFromSource{Prefix: source.Prefix}
		if source.SecretRef != nil {
			from.SecretRef = &corev1.SecretEnvSource{LocalObjectReference: local(source.SecretRef.Name)}
		}
		if source.ConfigMapRef != nil {
			from.ConfigMapRef = &corev1.ConfigMapEnvSource{LocalObjectReference: local(source.ConfigMapRef.Name)}
		}
		container.EnvFrom = append(container.EnvFrom, from)
	}
	return nil
}

// environment writes a value so that Kubernetes does not expand it: it reads $$ as $.
func environment(variable v1alpha1.EnvVar) corev1.EnvVar {
	out := corev1.EnvVar{Name: variable.Name}
	switch {
	case variable.SecretKeyRef != nil:
		out.ValueFrom = &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: local(variable.SecretKeyRef.Name), Key: variable.SecretKeyRef.Key,
		}}
	case variable.ConfigMapKeyRef != nil:
		out.ValueFrom = &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: local(variable.ConfigMapKeyRef.Name), Key: variable.ConfigMapKeyRef.Key,
		}}
	case variable.Value != nil:
		out.Value = strings.ReplaceAll(*variable.Value, "$", "$$")
	}
	return out
}

// mountVolumes mounts the tenant's Secrets and ConfigMaps, read-only, beside what the profile mounts.
func (r *renderer) mountVolumes(pod *corev1.PodSpec, container *corev1.Container) error {
	names, paths := map[string]bool{}, map[string]bool{}
	for _, volume := range pod.Volumes {
		names[volume.Name] = true
	}
	for _, mount := range container.VolumeMounts {
		paths[path.Clean(mount.MountPath)] = true
	}
	for _, volume := range r.gateway.Spec.Volumes {
		field := fmt.Sprintf("spec.volumes[%s]", volume.Name)
		if names[volume.Name] {
			return &SpecError{
				Field:  field + ".name",
				Reason: fmt.Sprintf("the profile of release %s has a volume of this name; choose another", r.recorded.Release),
			}
		}
		if paths[path.Clean(volume.MountPath)] {
			return &SpecError{
				Field:  field + ".mountPath",
				Reason: fmt.Sprintf("%q is mounted already; choose another path", volume.MountPath),
			}
		}
		names[volume.Name], paths[path.Clean(volume.MountPath)] = true, true
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: volume.Name, VolumeSource: source(volume)})
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{
			Name: volume.Name, MountPath: volume.MountPath, ReadOnly: true,
		})
	}
	return nil
}

func source(volume v1alpha1.Volume) corev1.VolumeSource {
	if volume.SecretRef != nil {
		return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: volume.SecretRef.Name}}
	}
	return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: local(volume.ConfigMapRef.Name),
	}}
}

func local(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
