package demo

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// trustTakenAway takes the authority's certificate out of its Secret while a rollout is under way, sees that no further
// gateway gets the image, puts it back, and sees the rollout go on to its end.
func trustTakenAway(ctx context.Context, s *scene, r *record) error {
	to := s.versions[trustVersion]
	before := s.fleet.begin()
	generation, err := s.editImage(ctx, to.image)
	if err != nil {
		return err
	}
	err = s.fleet.await(ctx, s.pace.patience, "the first gateways run "+to.name, func() string {
		n := s.fleet.count(func(w workload) bool { return w.settled && w.digest == to.digest })
		if n > 0 {
			return ""
		}
		return "none does"
	})
	if err != nil {
		return err
	}
	if err := s.editSecret(ctx, nil); err != nil {
		return err
	}
	now, err := s.says(ctx, generation, "Unverified: ")
	if err != nil {
		return err
	}
	// Those that have it already may finish.
	err = s.fleet.await(ctx, s.pace.patience, "what is under way comes to rest", func() string {
		if under := s.fleet.underWay(); len(under) > 0 {
			return names(under) + " are under way"
		}
		return ""
	})
	if err != nil {
		return err
	}
	if err := s.steady(ctx, s.fleet.now()); err != nil {
		return fmt.Errorf("after the certificate was taken away: %w", err)
	}
	given := 0
	s.fleet.look(func() { given = s.fleet.count(func(w workload) bool { return w.digest == to.digest }) })
	if given >= fleetSize {
		return fmt.Errorf("the rollout was over before the certificate was taken away")
	}
	r.note("givenWhenTakenAway", given)
	r.note("summary", now.Summary)

	if err := s.editSecret(ctx, s.signers.authority.PEM()); err != nil {
		return err
	}
	if err := s.complete(ctx, generation, to, nil); err != nil {
		return err
	}
	if err := s.paced(before, fleetSize, s.pace.budget, r); err != nil {
		return err
	}
	r.seen = fmt.Sprintf("stopped at %d of %d gateways, and went on when the certificate was back; %s", given, fleetSize, r.seen)
	return nil
}

func (s *scene) editSecret(ctx context.Context, content []byte) error {
	patch, err := secretPatch(content)
	if err == nil {
		err = s.client.Patch(ctx, s.caOf(), client.RawPatch(types.MergePatchType, patch))
	}
	if err != nil {
		return fmt.Errorf("edit Secret %s/%s: %w", systemNamespace, caSecret, err)
	}
	return nil
}
