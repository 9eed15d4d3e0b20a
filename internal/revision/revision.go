package revision

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/image"
)

// hashLength is the number of characters of the hash in a name: 50 bits. Content is compared wherever a name is met
// again, so a collision is an error and never a wrong image.
const hashLength = 10

// Revision is one accepted state of a release. Only New and FromControllerRevision make one that has a name.
type Revision struct {
	// Release is the name of the release that it is a revision of.
	Release string
	// Image is what the container "gateway" runs.
	Image image.Pinned
	// Tag is what the digest was resolved from, for people; it may be empty and is no part of the content.
	Tag string
	// Profile says how it is run. AllowedNamespaces is no part of it.
	Profile v1alpha1.GatewayProfileSpec

	content []byte // canonical; what the name is a hash of
}

// New makes the revision that release has with this image and profile. The error is a *ProfileError: only another
// profile cures it.
func New(release string, pinned image.Pinned, tag string, profile v1alpha1.GatewayProfileSpec) (Revision, error) {
	if err := Validate(&profile); err != nil {
		return Revision{}, err
	}
	profile = *profile.DeepCopy()
	profile.AllowedNamespaces = nil
	raw, err := json.Marshal(content{Image: pinned.String(), Profile: profile})
	if err == nil {
		raw, err = canonical(raw)
	}
	if err != nil {
		return Revision{}, problem("spec", "is not JSON: "+err.Error()+"; correct it")
	}
	return Revision{Release: release, Image: pinned, Tag: tag, Profile: profile, content: raw}, nil
}

// Name is <release>-<hash of the content>.
func (r Revision) Name() string {
	sum := sha256.Sum256(r.content)
	return r.Release + "-" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:hashLength]
}

// Same reports whether r and other are the same revision: the name is a hash, and this compares what it is a hash of.
func (r Revision) Same(other Revision) bool {
	return r.Release == other.Release && bytes.Equal(r.content, other.content)
}

// Template is the profile's pod template with the image in the container "gateway". Every call returns a new one.
func (r Revision) Template() (corev1.PodTemplateSpec, error) {
	template, err := decodeTemplate(r.Profile.Template.Raw)
	if err != nil {
		return corev1.PodTemplateSpec{}, fmt.Errorf("revision %s: profile %w", r.Name(), err)
	}
	for i := range template.Spec.Containers {
		if template.Spec.Containers[i].Name == v1alpha1.GatewayContainer {
			template.Spec.Containers[i].Image = r.Image.String()
			return template, nil
		}
	}
	return corev1.PodTemplateSpec{}, fmt.Errorf("revision %s: its pod template has no container %q", r.Name(), v1alpha1.GatewayContainer)
}
