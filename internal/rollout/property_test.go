package rollout

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

func drawSpec(t *rapid.T) v1alpha1.RolloutSpec {
	amount := func(label string, counts []int, percents []string) *intstr.IntOrString {
		if rapid.IntRange(0, 3).Draw(t, label+" in percent") == 0 {
			return ptr(intstr.FromString(rapid.SampledFrom(percents).Draw(t, label)))
		}
		return ptr(intstr.FromInt32(int32(rapid.SampledFrom(counts).Draw(t, label))))
	}
	return v1alpha1.RolloutSpec{
		MaxUnavailable:   amount("maxUnavailable", []int{1, 2, 3}, []string{"10%", "34%", "100%"}),
		MaxFailures:      amount("maxFailures", []int{0, 1, 2}, []string{"0%", "20%"}),
		MinReadySeconds:  ptr(rapid.SampledFrom([]int32{0, 1, 5, 20}).Draw(t, "minReadySeconds")),
		ProgressDeadline: &metav1.Duration{Duration: rapid.SampledFrom([]time.Duration{25 * time.Second, time.Minute}).Draw(t, "progressDeadline")},
	}
}

// An act is something that happens in the world, and how often.
type act struct {
	name   string
	weight int
	do     func(*world)
}

var (
	planPass = act{"planPass", 10, func(w *world) {
		view := w.planners[rapid.IntRange(0, 1).Draw(w.t, "planner")]
		view.releaseSeen = w.catchUpTo(view.releaseSeen, "planner sees releases")
		view.fleetSeen = w.catchUpTo(view.fleetSeen, "planner sees gateways")
		w.plan(view, w.releases[rapid.SampledFrom([]string{"a", "a", "a", "b"}).Draw(w.t, "of release")])
	}}
	gatewayPass = act{"gatewayPass", 24, func(w *world) {
		if g := w.someone(); g != nil {
			g.ownSeen = max(g.ownSeen, w.catchUpTo(g.ownSeen, "gateway sees itself"))
			g.releaseSeen = w.catchUpTo(g.releaseSeen, "gateway sees its release")
			w.reconcile(g)
		}
	}}
	passTime = act{"passTime", 8, func(w *world) { w.advance(w.duration(100, 30_000, "time")) }}
	prompt   = act{"prompt", 6, func(w *world) { w.round() }}

	editImage = act{"editImage", 3, func(w *world) {
		release := rapid.SampledFrom([]string{"a", "a", "b"}).Draw(w.t, "edit")
		image := rapid.SampledFrom([]string{"good1", "good2", "good3", "bad1", "bad2", "slow", "flaky"}).Draw(w.t, "image")
		w.edit(release, func(v *releaseVersion) { v.accepted = release + "-" + image })
	}}
	editPause = act{"editPause", 1, func(w *world) { w.edit("a", func(v *releaseVersion) { v.spec.Paused = !v.spec.Paused }) }}
	editSpec  = act{"editSpec", 1, func(w *world) { spec := drawSpec(w.t); w.edit("a", func(v *releaseVersion) { v.spec = spec }) }}

	// doubt has revisions of a release verify no more, or again, or be undecided.
	doubt = act{"doubt", 3, func(w *world) {
		h := w.releases["a"]
		known := []string{h.latest().accepted}
		if s := h.latest().status; s != nil {
			known = append(known, s.Target, s.Stable)
		}
		pick := func(label string) []string {
			return slices.DeleteFunc(slices.Clone(known), func(string) bool { return !rapid.Bool().Draw(w.t, label) })
		}
		withheld, undecided := pick("withheld"), pick("undecided")
		w.edit("a", func(v *releaseVersion) { v.withheld, v.undecided = withheld, undecided })
	}}

	flap = act{"flap", 2, func(w *world) {
		g := w.someone()
		if g == nil || g.workload.marks == nil || !strings.Contains(g.workload.marks.Revision, "flaky") {
			return
		}
		g.workload.up = !g.workload.up && !g.ill
		g.workload.upAt = time.Time{}
		w.advance(0)
	}}
	illness = act{"illness", 2, func(w *world) {
		g := w.someone()
		if g == nil {
			return
		}
		g.ill = !g.ill
		if g.ill && g.workload.up {
			g.workload.up, g.workload.upAt = false, w.now
		}
		w.advance(0)
	}}

	createGateway = act{"createGateway", 2, func(w *world) {
		if len(w.living()) < 12 {
			w.create(rapid.SampledFrom([]string{"a", "a", "b"}).Draw(w.t, "create in"))
		}
	}}
	deleteGateway = act{"deleteGateway", 1, func(w *world) {
		if g := w.someone(); g != nil {
			w.delete(g)
		}
	}}
	moveGateway = act{"moveGateway", 3, func(w *world) {
		if g := w.someone(); g != nil {
			w.move(g, map[string]string{"a": "b", "b": "a"}[g.latest().release])
		}
	}}
	tenantEdit = act{"tenantEdit", 1, func(w *world) {
		if g := w.someone(); g != nil {
			w.touch(g, func(v *gatewayVersion) { v.generation++ })
		}
	}}

	restartPlanner = act{"restartPlanner", 1, func(w *world) {
		view := w.planners[rapid.IntRange(0, 1).Draw(w.t, "restart planner")]
		view.releaseSeen = rapid.Int64Range(w.floor, w.version).Draw(w.t, "releases listed at")
		view.fleetSeen = rapid.Int64Range(w.floor, w.version).Draw(w.t, "gateways listed at")
	}}
	restartGateways = act{"restartGateways", 1, func(w *world) {
		for _, g := range w.gateways {
			g.releaseSeen = rapid.Int64Range(w.floor, w.version).Draw(w.t, "release listed at")
		}
	}}
	// recreateRelease loses the status of a release while everything else goes on.
	recreateRelease = act{"recreateRelease", 1, func(w *world) {
		w.lost, w.epoch = true, w.epoch+1
		w.edit("a", func(v *releaseVersion) { v.status = nil })
	}}
	// restore loses every status; what runs keeps its marks. Everything starts anew.
	restore = act{"restore", 1, func(w *world) {
		w.lost, w.epoch = true, w.epoch+1
		for name := range w.releases {
			w.edit(name, func(v *releaseVersion) { v.status = nil })
		}
		for _, g := range w.living() {
			w.touch(g, func(v *gatewayVersion) {
				*v = gatewayVersion{generation: v.generation, release: v.release}
			})
		}
		w.floor = w.version
		w.present()
	}}
)

func (w *world) someone() *gatewayHistory {
	living := w.living()
	if len(living) == 0 {
		return nil
	}
	return living[rapid.IntRange(0, len(living)-1).Draw(w.t, "gateway")]
}

// present shows everybody the present.
func (w *world) present() {
	for _, view := range w.planners {
		view.releaseSeen, view.fleetSeen = w.version, w.version
	}
	for _, g := range w.gateways {
		g.ownSeen, g.releaseSeen = w.version, w.version
	}
}

// round is a pass of everybody over the present, and says how much was written.
func (w *world) round() int {
	before := w.writes
	for _, name := range []string{"a", "b"} {
		w.present()
		w.plan(w.planners[0], w.releases[name])
	}
	for _, g := range w.living() {
		w.present()
		w.reconcile(g)
		w.present()
		w.reconcile(g)
	}
	w.checkWorld()
	return w.writes - before
}

// settle goes on, with nothing in the way any more, until nothing is written and nothing is waited for.
func (w *world) settle() {
	for range 2000 {
		if w.round() > 0 {
			continue
		}
		next := time.Time{}
		sooner := func(at time.Time) {
			if at.After(w.now) && (next.IsZero() || at.Before(next)) {
				next = at
			}
		}
		for _, h := range w.releases {
			sooner(h.wakeAt)
		}
		for _, g := range w.living() {
			sooner(g.workload.upAt)
		}
		if next.IsZero() {
			return
		}
		w.advance(next.Sub(w.now))
	}
	w.t.Fatalf("termination: still under way: %s", encode(w.releases["a"].latest().status))
}

// live lets acts happen in any order, then calms the world and holds what must come of it.
func live(t *rapid.T, acts ...act) {
	w := newWorld(t)
	named := map[string]act{}
	var lots []string
	for _, a := range acts {
		named[a.name] = a
		for range a.weight {
			lots = append(lots, a.name)
		}
	}
	for range rapid.IntRange(20, 150).Draw(t, "acts") {
		named[rapid.SampledFrom(lots).Draw(t, "act")].do(w)
		w.checkWorld()
	}

	// From here on nobody is ill, nobody pauses, and what is flaky stays up.
	for _, g := range w.gateways {
		g.ill = false
		if marks := g.workload.marks; marks != nil && !strings.Contains(marks.Revision, "bad") && g.workload.upAt.IsZero() {
			g.workload.upAt = w.now
		}
	}
	w.advance(0)
	for name := range w.releases {
		w.edit(name, func(v *releaseVersion) { v.spec.Paused, v.withheld, v.undecided = false, nil, nil })
	}
	w.settle()
	for _, h := range w.releases {
		w.checkEnd(h)
	}

	// Whatever was wrong, a good revision cures it.
	for name := range w.releases {
		w.edit(name, func(v *releaseVersion) { v.accepted = name + "-good9" })
	}
	w.settle()
	for _, h := range w.releases {
		w.checkEnd(h)
	}

	// A restart of everything over a fleet at rest writes nothing, now or later.
	w.advance(time.Hour)
	if n := w.round(); n > 0 {
		t.Fatalf("rest: a restart wrote %d times", n)
	}
}

// checkEnd holds where a rollout ends when nothing is in the way.
func (w *world) checkEnd(h *releaseHistory) {
	end := h.latest()
	up := 0
	for _, g := range w.living() {
		if g.latest().release != h.name {
			continue
		}
		// One that runs what another release gave, and has lost its status, has no record until the window admits it.
		record := g.latest().record
		if g.workload.up && record != nil && record.Name == end.accepted {
			up++
		} else if !strings.Contains(end.accepted, "bad") {
			w.t.Fatalf("termination: %s does not run %s: %+v, %+v\n%s", g.name, end.accepted, record, g.workload, encode(end.status))
		}
	}
	switch s := end.status; {
	case s.Target != end.accepted || len(s.InFlight) > 0:
		w.t.Fatalf("termination: %s", encode(s))
	case !strings.Contains(end.accepted, "bad") && s.State != v1alpha1.RolloutComplete,
		s.State != v1alpha1.RolloutComplete && s.State != v1alpha1.RolloutFailed:
		w.t.Fatalf("termination: state %s: %s", s.State, encode(s))
	}
}

// The properties were seen to catch, each by itself, a planner or a gateway that: drops the fence of fleetVersion; takes
// by the entry of an earlier generation, or refreshes an entry instead of voiding it; lets a silent gateway leave at the
// deadline; keeps the attempt of the entries, or empties the window, at a new target; repeats an attempt, or takes one
// twice; forgets who was Ready before an earlier attempt; admits the unready or the healthy before the broken; counts no
// budget, one too much, or the failures one too late; admits, or changes the target, while paused; admits as new what has
// not been heard of or may have taken the stable revision; believes a Ready that is a second too young, or of an
// unobserved edit, or of the revision before; completes with failures, unproven, or without having heard of all; compares
// attempts of different releases; leaves joiners out; ignores records that are newer than its status; depends on the
// order of the fleet; admits to, or takes, what is withheld; withholds what it does not know, or too long; admits as new
// what may have taken a stable revision that is withheld since; wakes late or never; notes a version at every pass; moves what runs before it is adopted.
var (
	routine    = []act{planPass, gatewayPass, passTime, prompt, editImage, editPause, editSpec, flap, illness, tenantEdit, doubt}
	membership = append([]act{createGateway, deleteGateway, moveGateway}, routine...)
	restarts   = append([]act{restartPlanner, restartGateways}, membership...)
	losses     = append([]act{recreateRelease, restore}, restarts...)
)

func TestARolloutOverAFixedFleet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { live(t, routine...) })
}

func TestARolloutOverAFleetThatChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { live(t, membership...) })
}

func TestARolloutWithRestarts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { live(t, restarts...) })
}

func TestARolloutWithLostStatus(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { live(t, losses...) })
}
