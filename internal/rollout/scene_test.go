package rollout

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// A scene is a release called "stable" and its fleet, told step by step. Unless a test says otherwise its budget is 2,
// one may fail, a gateway converges after 10 seconds and has a minute to do so.
type scene struct {
	t    *testing.T
	in   Input
	wake time.Time
}

func given(t *testing.T, accepted string, fleet ...Member) *scene {
	t.Helper()
	return &scene{t: t, in: Input{
		Release: "stable",
		UID:     "release-uid",
		Spec: v1alpha1.RolloutSpec{
			MaxUnavailable:   ptr(intstr.FromInt32(2)),
			MaxFailures:      ptr(intstr.FromInt32(1)),
			MinReadySeconds:  ptr(int32(10)),
			ProgressDeadline: &metav1.Duration{Duration: time.Minute},
		},
		Accepted: accepted,
		Fleet:    fleet,
		Now:      time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC),
	}}
}

// completed is a fleet of n Ready gateways that runs v1, which attempt 1 completed.
func completed(t *testing.T, n int) *scene {
	t.Helper()
	var fleet []Member
	for i := range n {
		fleet = append(fleet, gateway(fmt.Sprintf("edge-%d", i), runs("v1", 1), ready))
	}
	s := given(t, "v1", fleet...)
	s.in.Status = &v1alpha1.RolloutStatus{Attempt: 1, Target: "v1", Stable: "v1", StableAttempt: 1, State: v1alpha1.RolloutComplete}
	s.plan()
	return s
}

// gateway is one that has been seen by its controller, and nothing more.
func gateway(name string, traits ...func(*Member)) Member {
	m := Member{
		UID: types.UID("uid-" + name), Namespace: "tenant-a", Name: name, Generation: 1, Observed: true,
		Reason: "ReplicasUnavailable", DesiredReplicas: 1,
		Since: time.Date(2026, 5, 1, 9, 0, 0, 0, time.UTC),
	}
	for _, trait := range traits {
		trait(&m)
	}
	return m
}

func runs(revision string, attempt int64) func(*Member) { return runsOf("stable", revision, attempt) }

func runsOf(release, revision string, attempt int64) func(*Member) {
	return func(m *Member) {
		m.Record = &v1alpha1.RecordedRevision{Release: release, Name: revision, Attempt: attempt}
	}
}

func ready(m *Member)      { m.Ready, m.ReadyReplicas = true, 1 }
func down(m *Member)       { m.Ready, m.ReadyReplicas = false, 0 }
func unobserved(m *Member) { m.Observed = false }
func wasReady(m *Member)   { m.Record.WasReady = true }
func install(m *Member)    { m.Record.Install = true }

// plan is one pass; its status is stored.
func (s *scene) plan() *v1alpha1.RolloutStatus {
	s.t.Helper()
	plan := Next(s.in)
	s.in.Status, s.wake = &plan.Status, plan.WakeAt
	return &plan.Status
}

// later lets time pass.
func (s *scene) later(d time.Duration) { s.in.Now = s.in.Now.Add(d) }

func (s *scene) member(name string) *Member {
	s.t.Helper()
	i := slices.IndexFunc(s.in.Fleet, func(m Member) bool { return m.Name == name })
	if i < 0 {
		s.t.Fatalf("no gateway %s", name)
	}
	return &s.in.Fleet[i]
}

// take lets the named gateways record what the window gives them; they are not Ready from then on, unless it is the
// revision that they run already. No name means all of the window.
func (s *scene) take(names ...string) {
	s.t.Helper()
	for _, entry := range s.in.Status.InFlight {
		if len(names) > 0 && !slices.Contains(names, entry.Name) {
			continue
		}
		m := s.member(entry.Name)
		decision := Decide("stable", s.in.Status, Gateway{UID: m.UID, Generation: m.Generation, Record: m.Record, Serves: m.loses()})
		if decision.Action != Take {
			continue
		}
		if m.Record == nil || m.Record.Name != decision.Record.Name {
			down(m)
			m.Since = s.in.Now.Truncate(time.Second)
		}
		m.Record = &decision.Record
	}
}

// comeUp makes the named gateways Ready now.
func (s *scene) comeUp(names ...string) {
	for _, name := range names {
		m := s.member(name)
		ready(m)
		m.Since = s.in.Now.Truncate(time.Second)
	}
}

// goDown makes the named gateways unready now.
func (s *scene) goDown(names ...string) {
	for _, name := range names {
		m := s.member(name)
		down(m)
		m.Since = s.in.Now.Truncate(time.Second)
	}
}

// converge lets the whole window take the target and come up, and plans until nothing is in flight.
func (s *scene) converge() *v1alpha1.RolloutStatus {
	s.t.Helper()
	for range 100 {
		s.take()
		s.comeUp(s.window()...)
		s.later(time.Minute / 2)
		if status := s.plan(); len(status.InFlight) == 0 {
			return status
		}
	}
	s.t.Fatal("the window does not empty")
	return nil
}

func (s *scene) window() []string {
	var names []string
	for _, entry := range s.in.Status.InFlight {
		names = append(names, entry.Name)
	}
	return names
}

func (s *scene) entry(name string) v1alpha1.InFlightGateway {
	s.t.Helper()
	for _, entry := range s.in.Status.InFlight {
		if entry.Name == name {
			return entry
		}
	}
	s.t.Fatalf("%s is not in the window: %v", name, s.window())
	return v1alpha1.InFlightGateway{}
}

// isState checks where the rollout stands, and that its message says so.
func (s *scene) isState(state v1alpha1.RolloutState, says ...string) {
	s.t.Helper()
	if s.in.Status.State != state {
		s.t.Fatalf("state %s, want %s: %s", s.in.Status.State, state, encode(s.in.Status))
	}
	for _, part := range says {
		if !strings.Contains(s.in.Status.Message, part) {
			s.t.Errorf("message %q does not say %q", s.in.Status.Message, part)
		}
	}
}

func (s *scene) isWindow(size int) {
	s.t.Helper()
	if len(s.in.Status.InFlight) != size {
		s.t.Fatalf("the window holds %v, want %d: %s", s.window(), size, encode(s.in.Status))
	}
}

// isStill checks that a pass at this time changes nothing.
func (s *scene) isStill() {
	s.t.Helper()
	before := encode(s.in.Status)
	if after := encode(s.plan()); after != before {
		s.t.Fatalf("a pass changed\n%s\nto\n%s", before, after)
	}
}

// wakesAfter checks when time alone brings the rollout further; negative is never.
func (s *scene) wakesAfter(d time.Duration) {
	s.t.Helper()
	switch {
	case d < 0 && !s.wake.IsZero():
		s.t.Fatalf("wakes after %v, want never", s.wake.Sub(s.in.Now))
	case d >= 0 && s.wake.IsZero():
		s.t.Fatalf("never wakes, want after %v", d)
	case d >= 0 && s.wake.Sub(s.in.Now) != d:
		s.t.Fatalf("wakes after %v, want %v", s.wake.Sub(s.in.Now), d)
	}
}
