package manifest

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// maxConfig bounds a gateway's configuration files together, in bytes: what a ConfigMap can hold.
const maxConfig = 1 << 20

// configMap holds the gateway's configuration files.
func (r *renderer) configMap() error {
	files := r.gateway.Spec.Config
	if len(files) == 0 {
		return nil
	}
	if r.revision.Profile.Config == nil {
		return &SpecError{
			Field:  "spec.config",
			Reason: fmt.Sprintf("the profile of release %s has no place for files; remove spec.config, or have spec.config.mountPath set in the profile", r.recorded.Release),
		}
	}
	data, size := make(map[string]string, len(files)), 0
	for name, content := range files {
		data[name] = string(content)
		size += len(content)
	}
	if size > maxConfig {
		return &SpecError{
			Field:  "spec.config",
			Reason: fmt.Sprintf("the files have %d bytes together; shorten them to %d", size, maxConfig),
		}
	}
	return r.add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), &corev1.ConfigMap{Data: data}, files)
}

// mountConfig puts the configuration files into the container, and their hash on the template: a change of a file
// rolls the pods, which would otherwise run on what they have read at their start.
func (r *renderer) mountConfig(template *corev1.PodTemplateSpec, container *corev1.Container) error {
	if len(r.gateway.Spec.Config) == 0 {
		return nil
	}
	sum, err := hash(r.gateway.Spec.Config)
	if err != nil {
		return err
	}
	if template.Annotations == nil {
		template.Annotations = map[string]string{}
	}
	template.Annotations[v1alpha1.AnnotationConfigHash] = sum
	template.Spec.Volumes = append(template.Spec.Volumes, corev1.Volume{
		Name: v1alpha1.ConfigVolume,
		VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: r.gateway.Name},
		}},
	})
	container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{
		Name: v1alpha1.ConfigVolume, MountPath: r.revision.Profile.Config.MountPath, ReadOnly: true,
	})
	return nil
}
