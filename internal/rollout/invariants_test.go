package rollout

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// checkPlan holds what is true of every plan, also of one that is made from a stale view and never written.
func (w *world) checkPlan(in Input, plan Plan) {
	t := w.t
	got := encode(&plan.Status)

	shuffled := in
	shuffled.Fleet = slices.Clone(in.Fleet)
	random := rand.New(rand.NewPCG(1, uint64(len(got))))
	random.Shuffle(len(shuffled.Fleet), func(i, j int) {
		shuffled.Fleet[i], shuffled.Fleet[j] = shuffled.Fleet[j], shuffled.Fleet[i]
	})
	if other := encode(ptr(Next(shuffled).Status)); other != got {
		t.Fatalf("determinism: another order of the fleet gives another status:\n%s\n%s", got, other)
	}

	again := in
	again.Status = &plan.Status
	if second := Next(again); encode(&second.Status) != got || !second.WakeAt.Equal(plan.WakeAt) {
		t.Fatalf("idempotence: planning twice at one time:\n%s %v\n%s %v", got, plan.WakeAt, encode(&second.Status), second.WakeAt)
	}

	// Until WakeAt time changes nothing; at WakeAt it does, or there is something later to wait for.
	idle := again
	if plan.WakeAt.IsZero() {
		idle.Now = in.Now.Add(time.Duration(rapid.IntRange(0, 7200).Draw(t, "idle seconds")) * time.Second)
	} else {
		if !plan.WakeAt.After(in.Now) {
			t.Fatalf("wake-up: WakeAt %v is not after now %v", plan.WakeAt, in.Now)
		}
		idle.Now = plan.WakeAt.Add(-time.Nanosecond)
	}
	if later := encode(ptr(Next(idle).Status)); later != got {
		t.Fatalf("wake-up: time alone changed the status before WakeAt %v:\n%s\n%s", plan.WakeAt, got, later)
	}
	if !plan.WakeAt.IsZero() {
		idle.Now = plan.WakeAt
		if woken := Next(idle); encode(&woken.Status) == got && woken.WakeAt.Equal(plan.WakeAt) {
			t.Fatalf("wake-up: nothing moves at WakeAt %v:\n%s", plan.WakeAt, got)
		}
	}

	s := plan.Status
	w.checkWithheld(in, s)
	if len(s.Message) > maxMessage || !utf8.ValidString(s.Message) {
		t.Fatalf("message: %d bytes, valid %v", len(s.Message), utf8.ValidString(s.Message))
	}
	if len(s.InFlight) > maxWindow {
		t.Fatalf("window: %d entries", len(s.InFlight))
	}
	w.checkAdmissions(in, s)
	w.checkDepartures(in, s)
	if in.Status != nil && s.Attempt < in.Status.Attempt {
		t.Fatalf("attempt went back from %d to %d", in.Status.Attempt, s.Attempt)
	}
	if in.Spec.Paused && in.Status != nil && in.Status.Target != "" && (s.Target != in.Status.Target || s.Attempt != in.Status.Attempt) {
		t.Fatalf("pause: the target went from %s to %s", in.Status.Target, s.Target)
	}
}

// checkWithheld holds that a status withholds exactly what does not verify, and leaves alone what is not known, unless it
// is of a view that decides nothing.
func (w *world) checkWithheld(in Input, s v1alpha1.RolloutStatus) {
	if in.Status != nil && encode(in.Status) == encode(&s) {
		return
	}
	for _, revision := range []string{s.Target, s.Stable} {
		if revision == "" {
			continue
		}
		want := slices.Contains(in.Withheld, revision)
		if slices.Contains(in.Undecided, revision) && !want {
			want = in.Status != nil && slices.Contains(in.Status.Withheld, revision)
		}
		if slices.Contains(s.Withheld, revision) != want {
			w.t.Fatalf("withheld: %s of %s; withheld %v, undecided %v", revision, encode(&s), in.Withheld, in.Undecided)
		}
	}
	for _, revision := range s.Withheld {
		if revision != s.Target && revision != s.Stable {
			w.t.Fatalf("withheld: %s is neither target nor stable: %s", revision, encode(&s))
		}
	}
}

// checkAdmissions holds what a plan may add to the window, judged apart from the planner's own code.
func (w *world) checkAdmissions(in Input, s v1alpha1.RolloutStatus) {
	t := w.t
	before := window(in.Status)
	after := window(&s)
	used := func(entries map[types.UID]v1alpha1.InFlightGateway) (n int) {
		for _, e := range entries {
			if e.WasReady {
				n++
			}
		}
		return n
	}
	budget := settingsFor(in.Spec, len(in.Fleet)).budget
	if used(after) > max(used(before), budget) {
		t.Fatalf("budget: %d use a budget of %d, before it were %d", used(after), budget, used(before))
	}
	var admitted, passedOver []Member
	for _, m := range in.Fleet {
		_, was := before[m.UID]
		_, is := after[m.UID]
		switch {
		case is && !was:
			admitted = append(admitted, m)
		case !is && (m.Record == nil || m.Record.Release != in.Release || m.Record.Name != s.Target):
			passedOver = append(passedOver, m)
		}
	}
	if len(admitted) == 0 {
		return
	}
	if in.Spec.Paused {
		t.Fatalf("pause: admitted %v", admitted)
	}
	if slices.Contains(in.Withheld, s.Target) || slices.Contains(in.Undecided, s.Target) {
		t.Fatalf("withheld: admitted %v to %s", admitted, s.Target)
	}
	if s.State == v1alpha1.RolloutFailed {
		t.Fatalf("failed: admitted %v", admitted)
	}
	place := func(m Member) int {
		carried := m.Record != nil && m.Record.Release == in.Release && m.Record.Attempt > s.StableAttempt
		switch {
		case m.unadopted():
			if m.Serves {
				return 1
			}
			return 2
		case m.Record == nil || carried && !m.Ready && m.Record.Install && !m.Record.WasReady:
			return -1 // runs nothing: waits for nobody
		case carried && !m.Ready && m.Record.WasReady:
			return 0
		case m.Ready:
			return 1
		default:
			return 2
		}
	}
	for _, a := range admitted {
		for _, p := range passedOver {
			if place(p) >= 0 && place(a) > place(p) {
				t.Fatalf("order: %s (place %d) was admitted before %s (place %d)", a.Name, place(a), p.Name, place(p))
			}
		}
		entry := after[a.UID]
		if a.Ready && a.Record != nil && !entry.WasReady {
			t.Fatalf("budget: %s is Ready and was admitted without using the budget", a.Name)
		}
		if place(a) == 0 && !entry.WasReady {
			t.Fatalf("excused: %s was Ready before an earlier attempt broke it, and was admitted as if it had not been", a.Name)
		}
	}
}

// checkDepartures holds who may leave the window: one that has converged in truth, is past its deadline, or is gone.
func (w *world) checkDepartures(in Input, s v1alpha1.RolloutStatus) {
	after := window(&s)
	for uid, entry := range window(in.Status) {
		if e, stays := after[uid]; stays {
			if e.Generation > entry.Generation {
				continue // edited, and admitted again
			}
			if e.Attempt < entry.Attempt || (e.WasReady != entry.WasReady || e.Install != entry.Install) && !risen(in, entry) {
				w.t.Fatalf("window: an entry changed from %+v to %+v", entry, e)
			}
			continue
		}
		i := slices.IndexFunc(in.Fleet, func(m Member) bool { return m.UID == uid })
		if i < 0 {
			continue
		}
		m := in.Fleet[i]
		numbers := settingsFor(in.Spec, len(in.Fleet))
		if m.Generation > entry.Generation || risen(in, entry) {
			continue
		}
		if m.Record == nil || m.Record.Release != in.Release || m.Record.Attempt < entry.Attempt {
			w.t.Fatalf("window: %s left without having reported attempt %d", m.Name, entry.Attempt)
		}
		late := !in.Now.Before(entry.AdmittedAt.Add(numbers.deadline))
		ready := m.Ready && m.Observed && !in.Now.Before(w.readySince(uid, m.Since).Add(numbers.minReady))
		if !late && !ready {
			w.t.Fatalf("window: %s left neither converged nor late: %+v at %v", m.Name, m, in.Now)
		}
	}
}

// risen says whether a gateway that was admitted as one that has nothing to lose is seen to have something now.
func risen(in Input, entry v1alpha1.InFlightGateway) bool {
	return !entry.WasReady && slices.ContainsFunc(in.Fleet, func(m Member) bool { return m.UID == entry.UID && (m.Ready || m.Serves) })
}

// readySince is the exact moment of a transition that the API stores in whole seconds: the latest it may have been.
func (w *world) readySince(uid types.UID, stored time.Time) time.Time {
	latest := stored
	for _, g := range w.gateways {
		for i := range g.versions {
			if v := &g.versions[i]; g.uid == uid && v.ready && v.since.Equal(stored) && v.exactly.After(latest) {
				latest = v.exactly
			}
		}
	}
	return latest
}

// checkWrite holds what is true of every status that is stored.
func (w *world) checkWrite(h *releaseHistory, in Input, s *v1alpha1.RolloutStatus) {
	numbers := settingsFor(in.Spec, len(in.Fleet))
	h.budget = max(h.budget, numbers.budget)
	h.maxFailures = max(h.maxFailures, numbers.maxFailures)
	if s.Target != "" {
		key := fmt.Sprintf("%s/%d/%d", h.name, w.epoch, s.Attempt)
		if target, known := w.targets[key]; known && target != s.Target {
			w.t.Fatalf("attempt %s had target %s and has %s", key, target, s.Target)
		}
		w.targets[key] = s.Target
	}
	w.checkGrants(h, in, s)
	completes := s.StableAttempt == s.Attempt && (in.Status == nil || in.Status.StableAttempt < s.Attempt)
	if !completes || s.Target == "" {
		return
	}
	var moved, up, failed int
	for _, m := range in.Fleet {
		if !m.runs(h.name, s.Target) {
			w.t.Fatalf("complete: %s is not on %s: %+v", m.Name, s.Target, m.Record)
		}
		if in.Status != nil && in.Status.Target != "" && m.Record.Attempt > in.Status.StableAttempt {
			moved++
			if !m.Ready && (m.Record.WasReady || m.Record.Install) {
				failed++
			}
		}
		if m.Ready {
			up++
		}
	}
	if w.lost {
		return // what had been moved before is not known any more
	}
	if len(s.InFlight) > 0 || failed > numbers.maxFailures || moved > 0 && up == 0 {
		w.t.Fatalf("complete: window %d, moved %d, failed %d, up %d", len(s.InFlight), moved, failed, up)
	}
}

// checkGrants holds what a stored window is to the gateways as they are in truth, whatever the planner saw of them.
func (w *world) checkGrants(h *releaseHistory, in Input, s *v1alpha1.RolloutStatus) {
	before, after := window(in.Status), window(s)
	admitted, failed := 0, 0
	for _, g := range w.living() {
		v := g.latest()
		if v.release != h.name {
			continue
		}
		entry, was := before[g.uid]
		added, is := after[g.uid]
		if is && !was && added.WasReady {
			admitted++
		}
		if is && !was && added.Install && v.record == nil && g.workload.marks != nil {
			w.t.Fatalf("adoption: %s runs %+v and was admitted as if it ran nothing", g.name, g.workload.marks)
		}
		if w.lost {
			continue
		}
		reported := v.record != nil && v.record.Release == h.name && v.record.Attempt >= entry.Attempt
		if was && !is && !reported && v.generation == entry.Generation && entry.WasReady {
			w.t.Fatalf("window: %s lost its slot and may still take attempt %d", g.name, entry.Attempt)
		}
		late := was && !w.now.Before(entry.AdmittedAt.Add(settingsFor(in.Spec, len(in.Fleet)).deadline))
		if was && !is && !late && v.generation == entry.Generation && g.downBy == h.name {
			w.t.Fatalf("window: %s left as converged and is down", g.name)
		}
		if !is && g.downBy == h.name && reported && v.record.Name == s.Target {
			failed++
		}
	}
	if admitted > 0 && failed > settingsFor(in.Spec, len(in.Fleet)).maxFailures {
		w.t.Fatalf("failed: %d were admitted while %d that had been moved are down", admitted, failed)
	}
}

// checkTake holds what is true whenever a gateway records what it was given.
func (w *world) checkTake(g *gatewayHistory, read *gatewayVersion, status *v1alpha1.RolloutStatus, record v1alpha1.RecordedRevision) {
	t := w.t
	previous := read.record
	if slices.Contains(status.Withheld, record.Name) {
		t.Fatalf("withheld: %s took %s", g.name, record.Name)
	}
	running := g.workload.marks
	if previous == nil && running != nil && (running.Release == read.release || window(status)[g.uid].Attempt == 0) {
		t.Fatalf("adoption: %s runs %+v, has recorded nothing, and took %+v", g.name, g.workload.marks, record)
	}
	rolls := previous == nil || previous.Name != record.Name
	if !w.lost {
		if same := previous != nil && previous.Release == record.Release; same && record.Attempt <= previous.Attempt {
			t.Fatalf("attempt: %s recorded %+v after %+v", g.name, record, *previous)
		}
		if g.rolled[record.Attempt] && rolls {
			t.Fatalf("twice: attempt %d rolls %s again", record.Attempt, g.name)
		}
		if target := w.targets[fmt.Sprintf("%s/%d/%d", record.Release, w.epoch, record.Attempt)]; target != record.Name {
			t.Fatalf("target: %s took %s by attempt %d, whose target is %q", g.name, record.Name, record.Attempt, target)
		}
		if previous != nil && record.Install && !previous.Install {
			t.Fatalf("budget: %s had %+v and was moved as if it ran nothing", g.name, *previous)
		}
		latest := w.releases[record.Release].latest().status
		if window(status)[g.uid].Attempt == record.Attempt && window(latest)[g.uid].UID == "" && (record.WasReady || g.workload.up) {
			t.Fatalf("window: %s took attempt %d, and is not in the window any more", g.name, record.Attempt)
		}
		stable := latest.StableAttempt
		if previous != nil && previous.Release == record.Release && previous.Attempt > stable && previous.WasReady && !record.WasReady {
			t.Fatalf("excused: %s took %+v after %+v", g.name, record, *previous)
		}
	}
	g.rolled[record.Attempt] = true
	if rolls && g.workload.up {
		g.downBy = record.Release
	}
}

// checkWorld holds what is true of the truth at every moment.
func (w *world) checkWorld() {
	if w.lost {
		return
	}
	for _, h := range w.releases {
		down := 0
		for _, g := range w.living() {
			if g.downBy == h.name && g.latest().release == h.name {
				down++
			}
		}
		if down > h.budget+h.maxFailures {
			w.t.Fatalf("budget: %d gateways of %s are down, allowed are %d and %d failures:\n%s", down, h.name, h.budget, h.maxFailures, encode(h.latest().status))
		}
	}
}

func window(status *v1alpha1.RolloutStatus) map[types.UID]v1alpha1.InFlightGateway {
	entries := map[types.UID]v1alpha1.InFlightGateway{}
	if status != nil {
		for _, e := range status.InFlight {
			entries[e.UID] = e
		}
	}
	return entries
}

func ptr[T any](v T) *T { return &v }
