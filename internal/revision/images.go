package revision

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/image"
)

// PodImage is an image that the pods of a revision run or mount, and where: container gateway, init container setup,
// volume models.
type PodImage struct {
	Where string
	Image image.Pinned
}

// Images are all images of a revision, each once: the release's first, then those of the profile's template in its order.
func (r Revision) Images() ([]PodImage, error) {
	template, err := r.Template()
	if err != nil {
		return nil, err
	}
	found := []PodImage{{"container " + v1alpha1.GatewayContainer, r.Image}}
	known := map[image.Pinned]bool{r.Image: true}
	add := func(where, written string) error {
		reference, err := image.Parse(written)
		if err != nil {
			return fmt.Errorf("revision %s: %s: %w", r.Name(), where, err)
		}
		pinned := reference.WithDigest(reference.Digest())
		if pinned.IsZero() {
			return fmt.Errorf("revision %s: %s: image %q is not pinned", r.Name(), where, written)
		}
		if !known[pinned] {
			known[pinned] = true
			found = append(found, PodImage{where, pinned})
		}
		return nil
	}
	if err := eachImage(&template.Spec, add); err != nil {
		return nil, err
	}
	return found, nil
}

func eachImage(pod *corev1.PodSpec, add func(where, written string) error) error {
	for i := range pod.InitContainers {
		if err := add("init container "+pod.InitContainers[i].Name, pod.InitContainers[i].Image); err != nil {
			return err
		}
	}
	for i := range pod.Containers {
		if err := add("container "+pod.Containers[i].Name, pod.Containers[i].Image); err != nil {
			return err
		}
	}
	for i := range pod.Volumes {
		if mounted := pod.Volumes[i].Image; mounted != nil {
			if err := add("volume "+pod.Volumes[i].Name, mounted.Reference); err != nil {
				return err
			}
		}
	}
	return nil
}
