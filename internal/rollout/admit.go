package rollout

import (
	"cmp"
	"slices"
	"time"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// tally is what one look at the fleet outside the window found.
type tally struct {
	// costly candidates use the budget; installs run nothing yet; idle ones were unready before.
	costly, installs, idle queue
	// failures are those that this rollout moved onto the target and that are not back.
	failures names
	// unheard gateways have recorded nothing, and have not said either that they run nothing and wait for the window.
	unheard names
	// waiters run nothing and have said so: what they would be given is withheld.
	waiters names
	// barred gateways are not on the target and may not take it.
	barred names
	// unsettled are on the target and not Ready for minReadySeconds, whoever gave it to them.
	unsettled names
	// given counts those that this rollout moved onto the target, back those of them that have converged, and converged
	// all that have converged on the target.
	given, back, converged int
	// settles is when the first of those that have not converged does, if it stays Ready.
	settles time.Time
}

// count looks at every gateway of the fleet: where it stands, and whether it is a candidate.
func (p *pass) count() {
	used := 0
	for i := range p.status.InFlight {
		if p.status.InFlight[i].WasReady {
			used++
		}
	}
	slots := max(0, maxWindow-len(p.status.InFlight))
	p.costly.limit = min(slots, max(0, p.budget-used))
	p.installs.limit, p.idle.limit = slots, slots

	hash := newHasher(p.in.UID)
	for i := range p.in.Fleet {
		m := &p.in.Fleet[i]
		if m.Leaving {
			continue
		}
		if m.Ready {
			p.status.Fleet.Ready++
		}
		if m.runs(p.in.Release, p.status.Target) && !m.Unapplied {
			p.status.Fleet.Updated++
		}
		if len(p.seen) > 0 {
			if _, inWindow := p.seen[m.UID]; inWindow {
				continue
			}
		}
		switch {
		case p.status.Target == "":
		case m.Barred && !m.runs(p.in.Release, p.status.Target):
			p.barred.add(m)
		case m.unadopted():
			p.line(m, hash)
		case m.Record == nil:
			// With a stable revision it takes that by itself, and then has something to lose: what was seen of it before
			// says nothing.
			switch {
			case m.Observed && p.status.Stable == "":
				p.installs.add(rank{healthy, hash.of(m.UID), m})
			case m.Observed && p.stranded(m):
				p.costly.add(rank{healthy, hash.of(m.UID), m})
			case m.Observed && p.withheld(p.status.Stable):
				p.waiters.add(m)
			default:
				p.unheard.add(m)
			}
		case m.Record.Name == p.status.Target && m.of(p.in.Release):
			p.place(m)
		default:
			p.line(m, hash)
		}
	}
	for i := range p.status.InFlight {
		if entry := &p.status.InFlight[i]; !entry.WasReady && !entry.Install && !p.seen[entry.UID].Ready {
			p.status.Fleet.AlreadyUnready++
		}
	}
}

// place judges a gateway that is on the target and not in the window.
func (p *pass) place(m *Member) {
	moved := p.moved(m)
	counts := (moved || m.Record.Attempt == p.status.Attempt && !p.later(m)) && (m.Record.WasReady || m.Record.Install)
	if moved {
		p.given++
	}
	if p.settled(m) {
		p.converged++
		if moved {
			p.back++
		}
		return
	}
	p.unsettled.add(m)
	if counts {
		p.failures.add(m)
	} else if !m.Ready {
		p.status.Fleet.AlreadyUnready++
	}
	if m.Ready {
		settles := after(m.Since, p.minReady)
		if p.settles.IsZero() || settles.Before(p.settles) {
			p.settles = settles
		}
		if moved || counts {
			p.wake(settles)
		}
	}
}

// later says whether the gateway became unready after the present attempt had completed: by an edit of its tenant or a
// loss of its pods, which is no failure of the attempt.
func (p *pass) later(m *Member) bool {
	at := p.status.CompletedAt
	return p.completed() && at != nil && m.Since.After(at.Time)
}

// line puts a gateway that is not on the target into its queue.
func (p *pass) line(m *Member, hash hasher) {
	wasReady, install := p.before(m)
	r := rank{healthy, hash.of(m.UID), m}
	if !m.Ready && p.moved(m) && (wasReady || install) {
		r.class = broken
	}
	switch {
	case wasReady:
		p.costly.add(r)
	case install:
		p.installs.add(r)
	default:
		r.class = unready
		p.idle.add(r)
		p.status.Fleet.AlreadyUnready++
	}
}

// before says how a gateway stood on the last completed revision. What an attempt that has not completed recorded is
// carried, so that a bad revision after a bad one does not find its victims excused; a gateway that is Ready now, or
// serves, has something to lose, whatever it was before.
func (p *pass) before(m *Member) (wasReady, install bool) {
	switch {
	case m.loses():
		return true, false
	case m.Record == nil && p.status.Stable != "" && !m.unadopted():
		// It may have taken the stable revision before that was withheld, and then has something to lose.
		return true, false
	case m.Record == nil:
		return false, !m.unadopted()
	case p.moved(m):
		return m.Record.WasReady, m.Record.Install && !m.Record.WasReady
	default:
		return false, false
	}
}

// admit fills the window: those that use the budget while there is some, those that run nothing as far as there are
// slots, and those that were unready before only when nobody who was Ready is left.
func (p *pass) admit() {
	if p.in.Spec.Paused || p.completed() || p.stopped() || p.held() {
		return
	}
	p.enter(&p.costly)
	p.enter(&p.installs)
	if p.costly.total == 0 {
		p.enter(&p.idle)
	}
	slices.SortFunc(p.status.InFlight, func(a, b v1alpha1.InFlightGateway) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
}

func (p *pass) enter(q *queue) {
	for _, r := range q.sorted() {
		if len(p.status.InFlight) == maxWindow {
			return
		}
		m := r.member
		wasReady, install := p.before(m)
		p.status.InFlight = append(p.status.InFlight, v1alpha1.InFlightGateway{
			UID:        m.UID,
			Namespace:  m.Namespace,
			Name:       m.Name,
			Attempt:    p.status.Attempt,
			Generation: m.Generation,
			AdmittedAt: p.moment(),
			WasReady:   wasReady,
			Install:    install,
		})
		p.seen[m.UID] = m
		q.total--
	}
}

// stopped says that more gateways have failed than may.
func (p *pass) stopped() bool {
	return p.failures.total > p.maxFailures
}

// waiting counts the candidates that are not admitted.
func (p *pass) waiting() int {
	return p.costly.total + p.installs.total + p.idle.total
}
