package release

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/outcome"
	"github.com/gatehouse-dev/gatehouse/internal/revision"
)

// candidate is what a spec asks for, once it is known to be well-formed.
type candidate struct {
	reference image.Reference
	profile   v1alpha1.GatewayProfileSpec
}

// revision is what the candidate is with the digest that its reference names.
func (c candidate) revision(release *v1alpha1.GatewayRelease, digest image.Digest) (revision.Revision, error) {
	made, err := revision.New(release.Name, c.reference.WithDigest(digest), c.reference.Tag(), c.profile)
	if err != nil {
		return revision.Revision{}, outcome.Terminal(v1alpha1.ReasonInvalidProfile, fmt.Errorf("profile %s: %w", release.Spec.ProfileRef.Name, err))
	}
	return made, nil
}

// accept reads the spec and its profile. What is wrong with them is terminal: an edit of either wakes the release. Nobody
// is told of a profile that is missing or wrong in a cache that is behind.
func (r *reconciler) accept(ctx context.Context, release *v1alpha1.GatewayRelease) (candidate, error) {
	reference, err := image.Parse(release.Spec.Image)
	if err != nil {
		return candidate{}, outcome.Terminal(v1alpha1.ReasonInvalidImage, err)
	}
	profile, err := readProfile(ctx, r.client, release.Spec.ProfileRef.Name)
	if outcome.As(err) != nil {
		profile, err = readProfile(ctx, r.live, release.Spec.ProfileRef.Name)
	}
	return candidate{reference: reference, profile: profile}, err
}

// again is what the spec asks for by the profile that is stored now. A profile of a while ago, beside a release of now,
// would take a fleet back to where it came from, and the version of the release would not give it away.
func (r *reconciler) again(ctx context.Context, release *v1alpha1.GatewayRelease, wanted candidate) (candidate, error) {
	profile, err := readProfile(ctx, r.live, release.Spec.ProfileRef.Name)
	wanted.profile = profile
	return wanted, err
}

func readProfile(ctx context.Context, from client.Reader, name string) (v1alpha1.GatewayProfileSpec, error) {
	profile := &v1alpha1.GatewayProfile{}
	switch err := from.Get(ctx, client.ObjectKey{Name: name}, profile); {
	case apierrors.IsNotFound(err):
		return v1alpha1.GatewayProfileSpec{}, outcome.Terminal(v1alpha1.ReasonProfileNotFound,
			fmt.Errorf("profile %s: not found; create the GatewayProfile or correct spec.profileRef", name))
	case err != nil:
		return v1alpha1.GatewayProfileSpec{}, fmt.Errorf("read profile %s: %w", name, err)
	}
	if err := revision.Validate(&profile.Spec); err != nil {
		return v1alpha1.GatewayProfileSpec{}, outcome.Terminal(v1alpha1.ReasonInvalidProfile, fmt.Errorf("profile %s: %w", name, err))
	}
	return profile.Spec, nil
}
