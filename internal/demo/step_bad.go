package demo

import (
	"context"
	"fmt"
	"strings"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/kwokstage"
)

// badImage edits the image to one whose pods never become ready, and sees that the rollout stops by itself: at most
// the budget and the failures that are allowed are down, and who they are is said.
func badImage(ctx context.Context, s *scene, r *record) error {
	bad := s.versions[badVersion]
	if !s.kubernetes.runsPods {
		if err := kwokstage.Apply(ctx, s.client, bad.digest, kwokstage.NeverReady); err != nil {
			return err
		}
	}
	s.fleet.begin()
	generation, err := s.editImage(ctx, bad.image)
	if err != nil {
		return err
	}
	var status v1alpha1.GatewayReleaseStatus
	err = s.fleet.await(ctx, s.pace.patience, "the rollout stops as Failed and says who failed", func() string {
		status = *s.fleet.release.Status.DeepCopy()
		if status.ObservedGeneration < generation || status.Rollout == nil || !strings.HasSuffix(status.Image, "@"+bad.digest) {
			return fmt.Sprintf("the release says %q of generation %d", status.Summary, status.ObservedGeneration)
		}
		if status.Rollout.State != v1alpha1.RolloutFailed || !s.blames(status.Rollout.Message, bad.digest) {
			return fmt.Sprintf("it is %s: %s", status.Rollout.State, status.Rollout.Message)
		}
		return ""
	})
	if err != nil {
		return err
	}
	if err := s.steady(ctx, s.fleet.now()); err != nil {
		return fmt.Errorf("after the rollout had failed: %w", err)
	}

	// Every gateway that was given the bad image, whether it has failed or is still awaited.
	var given, serving int
	var e extremes
	s.fleet.look(func() {
		given = s.fleet.count(func(w workload) bool { return w.digest == bad.digest })
		serving = s.fleet.count(func(w workload) bool { return w.serving })
		e = s.fleet.extremes
	})
	most := s.pace.budget + s.pace.maxFailures
	r.note("budget", s.pace.budget)
	r.note("maxFailures", s.pace.maxFailures)
	r.note("givenBadImage", given)
	r.note("maxUnderWay", e.underWay)
	r.note("minServing", e.serving)
	r.note("state", string(status.Rollout.State))
	r.note("message", status.Rollout.Message)
	switch {
	case given == 0:
		return fmt.Errorf("the rollout has failed although no gateway was given the bad image")
	case given > most || e.underWay > most:
		return fmt.Errorf("at most %d gateways (budget %d, failures %d) were to get the bad image, but %d did, %d at once",
			most, s.pace.budget, s.pace.maxFailures, given, e.underWay)
	case e.serving < fleetSize:
		return fmt.Errorf("the old pods of all %d gateways were to keep serving, but at one moment only %d did (now %d)", fleetSize, e.serving, serving)
	}
	r.seen = fmt.Sprintf("stopped after %d of %d gateways (at most %d), all %d still serving from their old pods: %q",
		given, fleetSize, most, e.serving, status.Rollout.Message)
	return s.intact()
}

// blames says whether a message names a gateway that was given the bad image, and its namespace.
func (s *scene) blames(message, digest string) bool {
	for name, w := range s.fleet.workloads {
		if w.digest == digest && strings.Contains(message, name.String()) {
			return true
		}
	}
	return false
}

// goingBack edits the image back, and sees that those that had got the bad one return and no other gateway moves.
func goingBack(ctx context.Context, s *scene, r *record) error {
	good := s.versions[lastVersion]
	before := s.fleet.begin()
	given := 0
	for _, w := range before {
		if w.digest != good.digest {
			given++
		}
	}
	generation, err := s.editImage(ctx, good.image)
	if err != nil {
		return err
	}
	if err := s.complete(ctx, generation, good, nil); err != nil {
		return err
	}
	if err := s.paced(before, given, s.pace.budget+s.pace.maxFailures, r); err != nil {
		return err
	}
	r.note("untouched", fleetSize-given)
	r.seen = fmt.Sprintf("%d gateways went back, the %d that never ran %s were not touched", given, fleetSize-given, badVersion)
	return nil
}
