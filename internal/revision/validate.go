package revision

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/image"
)

// maxTemplate bounds a pod template, in bytes: a revision has to fit into an object of the API server beside the rest
// of the profile, and a history of revisions into a list.
const maxTemplate = 512 << 10

// ownedPrefix is that of every label and annotation that Gatehouse sets on pods.
const ownedPrefix = "gatehouse.dev/"

// decodeTemplate reads a pod template strictly: every unknown and every repeated field is named.
func decodeTemplate(raw []byte) (corev1.PodTemplateSpec, error) {
	var template corev1.PodTemplateSpec
	if len(raw) == 0 {
		return template, problem("spec.template", "is missing; write a pod template with a container \"gateway\"")
	}
	strict, err := kjson.UnmarshalStrict(raw, &template)
	if err != nil {
		return template, problem("spec.template", strings.TrimPrefix(err.Error(), "json: ")+"; correct the value")
	}
	var found problems
	for _, err := range strict {
		var field kjson.FieldError
		if !errors.As(err, &field) {
			found.add("spec.template", "%s", err)
			continue
		}
		kind, _, _ := strings.Cut(err.Error(), " \"")
		found.add("spec.template."+field.FieldPath(), "%s; correct its spelling or remove it", kind)
	}
	return template, found.err()
}

// Validate says what in a profile could not run, or would take what is Gatehouse's to set. The error is a
// *ProfileError; a profile that passes makes a revision with every image.
func Validate(profile *v1alpha1.GatewayProfileSpec) error {
	if size := len(profile.Template.Raw); size > maxTemplate {
		return problem("spec.template", fmt.Sprintf("has %d KiB; shorten it to %d KiB", size>>10, maxTemplate>>10))
	}
	template, err := decodeTemplate(profile.Template.Raw)
	if err != nil {
		return err
	}
	var found problems
	checkMetadata(&found, &template)
	checkPod(&found, &template.Spec)
	checkContainers(&found, &template.Spec)
	checkConfig(&found, &template.Spec, profile.Config)
	checkKeys(&found, profile, &template.Spec)
	return found.err()
}

func checkMetadata(found *problems, template *corev1.PodTemplateSpec) {
	const path = "spec.template.metadata"
	for _, key := range slices.Sorted(maps.Keys(template.Labels)) {
		if strings.HasPrefix(key, ownedPrefix) || key == v1alpha1.LabelManagedBy {
			found.add(fmt.Sprintf("%s.labels[%s]", path, key), "this label is set by Gatehouse; remove it")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(template.Annotations)) {
		if strings.HasPrefix(key, ownedPrefix) {
			found.add(fmt.Sprintf("%s.annotations[%s]", path, key), "this annotation is set by Gatehouse; remove it")
		}
	}
	if template.Name != "" {
		found.add(path+".name", "pods are named by Kubernetes; remove it")
	}
	if template.GenerateName != "" {
		found.add(path+".generateName", "pods are named by Kubernetes; remove it")
	}
	if template.Namespace != "" {
		found.add(path+".namespace", "a pod runs in the namespace of its gateway; remove it")
	}
	if len(template.OwnerReferences) > 0 {
		found.add(path+".ownerReferences", "a pod is owned by its ReplicaSet; remove it")
	}
	if len(template.Finalizers) > 0 {
		found.add(path+".finalizers", "nothing would remove them; remove it")
	}
}

func checkPod(found *problems, pod *corev1.PodSpec) {
	const path = "spec.template.spec"
	if pod.ServiceAccountName != "" || pod.DeprecatedServiceAccount != "" {
		found.add(path+".serviceAccountName", "every gateway has a ServiceAccount of its own; remove it, and use spec.serviceAccount and spec.clusterRoles")
	}
	if pod.AutomountServiceAccountToken != nil {
		found.add(path+".automountServiceAccountToken", "use spec.serviceAccount.automountToken")
	}
	if pod.RestartPolicy != "" && pod.RestartPolicy != corev1.RestartPolicyAlways {
		found.add(path+".restartPolicy", "%q is not possible in a Deployment; write Always or remove it", pod.RestartPolicy)
	}
	if pod.ActiveDeadlineSeconds != nil {
		found.add(path+".activeDeadlineSeconds", "is not possible in a Deployment; remove it")
	}
	if len(pod.EphemeralContainers) > 0 {
		found.add(path+".ephemeralContainers", "are for debugging a running pod; remove them")
	}
	for i, volume := range pod.Volumes {
		field := fmt.Sprintf("%s.volumes[%d]", path, i)
		if volume.Name == v1alpha1.ConfigVolume {
			found.add(field+".name", "%q is taken by the gateway's own configuration; choose another name", volume.Name)
		}
		if volume.Image != nil {
			checkPinned(found, field+".image.reference", volume.Image.Reference)
		}
	}
}

func checkContainers(found *problems, pod *corev1.PodSpec) {
	const path = "spec.template.spec"
	gateways := 0
	for i, container := range pod.Containers {
		field := fmt.Sprintf("%s.containers[%d]", path, i)
		if container.Name != v1alpha1.GatewayContainer {
			checkPinned(found, field+".image", container.Image)
			continue
		}
		gateways++
		if container.Image != "" {
			found.add(field+".image", "the container %q gets the image of its release; remove it", v1alpha1.GatewayContainer)
		}
	}
	for i, container := range pod.InitContainers {
		field := fmt.Sprintf("%s.initContainers[%d]", path, i)
		if container.Name == v1alpha1.GatewayContainer {
			found.add(field+".name", "%q is the container in spec.containers that gets the release's image; choose another name", container.Name)
			continue
		}
		checkPinned(found, field+".image", container.Image)
	}
	switch {
	case gateways == 0:
		found.add(path+".containers", "no container is named %q; name the one that runs the release's image so", v1alpha1.GatewayContainer)
	case gateways > 1:
		found.add(path+".containers", "%d containers are named %q; keep one", gateways, v1alpha1.GatewayContainer)
	}
}

// checkPinned holds every image but the release's to a digest, because a tag that moves would alter pods behind the
// back of the window.
func checkPinned(found *problems, field, written string) {
	ref, err := image.Parse(written)
	switch {
	case err != nil:
		found.add(field, "%s", err)
	case ref.Digest().IsZero():
		found.add(field, "image %q is not pinned; write it with its digest: %s@sha256:…", ref, ref)
	}
}

// checkConfig refuses a template that mounts something where the files of spec.config appear.
func checkConfig(found *problems, pod *corev1.PodSpec, config *v1alpha1.ConfigMount) {
	if config == nil {
		return
	}
	for i, container := range pod.Containers {
		if container.Name != v1alpha1.GatewayContainer {
			continue
		}
		for j, mount := range container.VolumeMounts {
			if strings.TrimRight(mount.MountPath, "/") == strings.TrimRight(config.MountPath, "/") {
				found.add(fmt.Sprintf("spec.template.spec.containers[%d].volumeMounts[%d].mountPath", i, j),
					"%q is where spec.config.mountPath puts the gateway's configuration; choose another path", mount.MountPath)
			}
		}
	}
}
