package revision

import (
	"bytes"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/image"
)

// ControllerRevision is the stored form of r, the number-th revision of owner. Its annotations are for people.
func (r Revision) ControllerRevision(namespace string, owner *v1alpha1.GatewayRelease, number int64) *appsv1.ControllerRevision {
	stored := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name:      r.Name(),
			Namespace: namespace,
			Labels: map[string]string{
				v1alpha1.LabelManagedBy: v1alpha1.ManagedBy,
				v1alpha1.LabelRelease:   r.Release,
			},
			Annotations:     map[string]string{v1alpha1.AnnotationImage: r.Image.String()},
			OwnerReferences: []metav1.OwnerReference{Owner(owner)},
		},
		Data:     runtime.RawExtension{Raw: bytes.Clone(r.content)},
		Revision: number,
	}
	if r.Tag != "" {
		stored.Annotations[v1alpha1.AnnotationTag] = r.Tag
	}
	return stored
}

// Owner is the owner reference with which a revision goes when its release goes. It does not block the deletion of
// the release, which would need a verb on its finalizers.
func Owner(release *v1alpha1.GatewayRelease) metav1.OwnerReference {
	controller := true
	return metav1.OwnerReference{
		APIVersion: v1alpha1.GroupVersion.String(),
		Kind:       "GatewayRelease",
		Name:       release.Name,
		UID:        release.UID,
		Controller: &controller,
	}
}

// FromControllerRevision reads a revision back. It refuses one whose content does not hash to its name: somebody
// else has written it.
func FromControllerRevision(stored *appsv1.ControllerRevision) (Revision, error) {
	fail := func(format string, args ...any) (Revision, error) {
		return Revision{}, fmt.Errorf("ControllerRevision %s/%s: %w", stored.Namespace, stored.Name, fmt.Errorf(format, args...))
	}
	release := stored.Labels[v1alpha1.LabelRelease]
	if release == "" {
		return fail("it has no label %s; it was not written by Gatehouse", v1alpha1.LabelRelease)
	}
	raw, err := canonical(stored.Data.Raw)
	if err != nil {
		return fail("its data is not JSON: %w", err)
	}
	revision := Revision{Release: release, Tag: stored.Annotations[v1alpha1.AnnotationTag], content: raw}
	if name := revision.Name(); name != stored.Name {
		return fail("its content belongs to the name %s; delete it, and Gatehouse writes it anew", name)
	}
	var decoded content
	unknown, err := kjson.UnmarshalStrict(raw, &decoded)
	if err == nil && len(unknown) > 0 {
		err = unknown[0]
	}
	if err != nil {
		return fail("its data was written by another version of Gatehouse: %w", err)
	}
	if revision.Image, err = image.ParsePinned(decoded.Image); err != nil {
		return fail("its image: %w", err)
	}
	revision.Profile = decoded.Profile
	return revision, nil
}
