package demo

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// steadyFor is how long nothing may happen where nothing should.
const steadyFor = 2 * time.Second

// complete waits until the whole fleet runs a version and everybody says so: workloads, gateways and release.
func (s *scene) complete(ctx context.Context, generation int64, v version, runs func(workload) bool) error {
	what := fmt.Sprintf("all %d gateways run %s and release %s is complete", fleetSize, v.name, s.release)
	return s.fleet.await(ctx, s.pace.patience, what, func() string {
		f := s.fleet
		there := f.count(func(w workload) bool { return w.settled && w.digest == v.digest && (runs == nil || runs(w)) })
		if missing := releaseNot(f.release, generation, v.digest); there != fleetSize || missing != "" {
			return fmt.Sprintf("%d workloads run it; %s", there, missing)
		}
		if ready := f.readyGateways(); ready != fleetSize {
			return fmt.Sprintf("the release is complete, but %d of %d gateways are Ready", ready, fleetSize)
		}
		return ""
	})
}

// releaseNot says what a release lacks to be complete on a digest.
func releaseNot(r *v1alpha1.GatewayRelease, generation int64, digest string) string {
	switch {
	case r == nil:
		return "the release has not been seen"
	case r.Status.ObservedGeneration < generation:
		return fmt.Sprintf("the release has observed generation %d of %d", r.Status.ObservedGeneration, generation)
	case r.Status.Rollout == nil:
		return fmt.Sprintf("the release says %q and has no rollout", r.Status.Summary)
	}
	ro := r.Status.Rollout
	switch {
	case r.Status.Summary != "Available":
		return fmt.Sprintf("the release says %q", r.Status.Summary)
	case !strings.HasSuffix(r.Status.Image, "@"+digest):
		return fmt.Sprintf("the release's image is %s", r.Status.Image)
	case ro.Target != r.Status.Revision || ro.State != v1alpha1.RolloutComplete:
		return fmt.Sprintf("the release is %s: %s", ro.State, ro.Message)
	case ro.Fleet.Total != fleetSize || ro.Fleet.Updated != fleetSize || ro.Fleet.Ready != fleetSize:
		return fmt.Sprintf("the release counts %d updated and %d ready of %d", ro.Fleet.Updated, ro.Fleet.Ready, ro.Fleet.Total)
	}
	return ""
}

// steady watches for a while that no workload's spec changes.
func (s *scene) steady(ctx context.Context, before map[types.NamespacedName]workload) error {
	timer := time.NewTimer(steadyFor)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if m := s.fleet.since(before); len(m.moved) > 0 {
		return fmt.Errorf("nothing was to move, but %d gateways did: %s", len(m.moved), names(m.moved))
	}
	return s.intact()
}

// intact says whether what the demo has seen can be relied upon.
func (s *scene) intact() (err error) {
	s.fleet.look(func() { err = s.fleet.broken })
	if err != nil {
		return fmt.Errorf("the watch broke: %w", err)
	}
	return s.manager.check()
}

// paced checks that the whole fleet moved, each gateway once, never more of them at once than allowed, and that all of
// them kept serving meanwhile.
func (s *scene) paced(before map[types.NamespacedName]workload, expected int, allowed int, r *record) error {
	m := s.fleet.since(before)
	var e extremes
	s.fleet.look(func() { e = s.fleet.extremes })
	r.note("moved", len(m.moved))
	r.note("movedTwice", len(m.twice))
	r.note("budget", s.pace.budget)
	r.note("maxUnderWay", e.underWay)
	r.note("maxInFlight", e.inFlight)
	r.note("minServing", e.serving)
	switch {
	case len(m.moved) != expected:
		return fmt.Errorf("%d gateways were to move, but %d did", expected, len(m.moved))
	case len(m.twice) > 0:
		return fmt.Errorf("each gateway was to move once, but these moved more often: %s", names(m.twice))
	case e.underWay > allowed:
		return fmt.Errorf("at most %d gateways were to be under way at once, but %d were", allowed, e.underWay)
	case e.inFlight > allowed:
		return fmt.Errorf("at most %d gateways were to be in the window at once, but %d were", allowed, e.inFlight)
	case e.serving < fleetSize:
		return fmt.Errorf("all %d gateways were to keep serving, but at one moment only %d did", fleetSize, e.serving)
	}
	r.seen = fmt.Sprintf("%d gateways moved, once each; at most %d were under way (%d allowed); all %d served throughout",
		len(m.moved), e.underWay, allowed, fleetSize)
	return s.intact()
}

func names(all []types.NamespacedName) string {
	const most = 5
	var b strings.Builder
	for i, n := range all {
		if i == most {
			fmt.Fprintf(&b, " and %d more", len(all)-most)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(n.String())
	}
	return b.String()
}
