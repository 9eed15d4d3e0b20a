package demo

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// firstRollout creates profile, release and gateways as the people whose they are, and sees all of them become Ready.
func firstRollout(ctx context.Context, s *scene, r *record) error {
	s.fleet.begin()
	if err := s.property.create(ctx, edgeProfile(s.profile, "info")); err != nil {
		return err
	}
	if err := s.property.create(ctx, s.caOf()); err != nil {
		return err
	}
	if err := s.property.create(ctx, s.executor()); err != nil {
		return err
	}
	if err := s.property.create(ctx, s.newRelease(s.versions["v1"].image)); err != nil {
		return err
	}
	refusal, err := createGateways(ctx, s.property, s.kubernetes.config, s.tenants, s.release)
	if err != nil {
		return err
	}
	if err := s.complete(ctx, 1, s.versions["v1"], nil); err != nil {
		return err
	}
	r.note("gateways", fleetSize)
	r.note("namespaces", len(s.tenants))
	r.note("refused", refusal)
	r.seen = fmt.Sprintf("%d gateways in %d namespaces Ready; a user without the verb use on %s was refused", fleetSize, len(s.tenants), s.release)
	return s.intact()
}

// editTo edits the image and sees the whole fleet follow within the budget.
func editTo(to string) func(context.Context, *scene, *record) error {
	return func(ctx context.Context, s *scene, r *record) error {
		before := s.fleet.begin()
		generation, err := s.editImage(ctx, s.versions[to].image)
		if err != nil {
			return err
		}
		if err := s.complete(ctx, generation, s.versions[to], nil); err != nil {
			return err
		}
		return s.paced(before, fleetSize, s.pace.budget, r)
	}
}

// malformed is what comes of pasting an address out of a browser.
func malformed(s *scene) string { return "https://" + s.versions["v5"].image }

// refused edits the image to one that the release is to refuse, and sees that it says so, in words that begin so, and that
// nothing moves.
func refused(image func(*scene) string, saying string) func(context.Context, *scene, *record) error {
	return func(ctx context.Context, s *scene, r *record) error {
		before := s.fleet.begin()
		was := ""
		s.fleet.look(func() { was = s.fleet.release.Status.Image })
		generation, err := s.editImage(ctx, image(s))
		if err != nil {
			return err
		}
		now, err := s.says(ctx, generation, saying)
		if err != nil {
			return err
		}
		if now.Image != was {
			return fmt.Errorf("the accepted image was to be kept, %s, but the release now says %s", was, now.Image)
		}
		if err := s.steady(ctx, before); err != nil {
			return err
		}
		r.note("summary", now.Summary)
		r.note("moved", 0)
		r.seen = fmt.Sprintf("nothing moved; the release says %q", now.Summary)
		return nil
	}
}

// says waits until the release says of a generation something that begins so, and returns all that it says.
func (s *scene) says(ctx context.Context, generation int64, saying string) (now v1alpha1.GatewayReleaseStatus, err error) {
	err = s.fleet.await(ctx, s.pace.patience, fmt.Sprintf("the release says %q", saying+"…"), func() string {
		now = *s.fleet.release.Status.DeepCopy()
		if now.ObservedGeneration == generation && strings.HasPrefix(now.Summary, saying) {
			return ""
		}
		return fmt.Sprintf("it says %q of generation %d (now %d)", now.Summary, now.ObservedGeneration, generation)
	})
	return now, err
}

// editWhileStopped edits the image while no manager runs, and sees that the next one picks it up.
func editWhileStopped(ctx context.Context, s *scene, r *record) error {
	before := s.fleet.begin()
	if err := s.manager.scale(ctx, 0); err != nil {
		return err
	}
	generation, err := s.editImage(ctx, s.versions[lastVersion].image)
	if err != nil {
		return err
	}
	if err := s.steady(ctx, before); err != nil {
		return fmt.Errorf("while no replica ran: %w", err)
	}
	if err := s.manager.scale(ctx, replicaCount); err != nil {
		return err
	}
	if err := s.complete(ctx, generation, s.versions[lastVersion], nil); err != nil {
		return err
	}
	if err := s.paced(before, fleetSize, s.pace.budget, r); err != nil {
		return err
	}
	r.seen = "picked up after the start; " + r.seen
	return nil
}

// profileEdit changes how the gateways are run, and sees the change move through the fleet like an image.
func profileEdit(ctx context.Context, s *scene, r *record) error {
	const level = "debug"
	before := s.fleet.begin()
	var generation int64
	s.fleet.look(func() { generation = s.fleet.release.Generation })
	profile := edgeProfile(s.profile, level)
	patch := fmt.Appendf(nil, `{"spec":{"template":%s}}`, profile.Spec.Template.Raw)
	if err := s.client.Patch(ctx, profile, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("edit profile %s: %w", s.profile, err)
	}
	err := s.complete(ctx, generation, s.versions[lastVersion], func(w workload) bool { return w.logLevel == level })
	if err != nil {
		return err
	}
	return s.paced(before, fleetSize, s.pace.budget, r)
}
