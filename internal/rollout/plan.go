package rollout

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// Input is everything that a plan is made from.
type Input struct {
	// Release is the name, UID the UID of the release.
	Release string
	UID     types.UID
	// Version is the resource version that Spec and Status were read at; the write of the plan is conditional on it.
	Version string
	Spec    v1alpha1.RolloutSpec
	// Status is status.rollout as stored; nil when it is empty. It is not modified.
	Status *v1alpha1.RolloutStatus
	// Accepted is the name of the accepted revision, "" when there is none.
	Accepted string
	// Withheld names the revisions that may be given to no further gateway, because they do not verify.
	Withheld []string
	// Undecided names those of which that is not known at the moment: nobody is admitted to them, and whether they are
	// withheld stays as it is.
	Undecided []string
	// Fleet is every gateway that references the release, in any order. It is not modified.
	Fleet []Member
	// FleetVersion is the resource version up to which the cache that Fleet came from has caught up; "" when it is not
	// known, and then nothing guards against a cache that is behind the one an earlier plan was made from.
	FleetVersion string
	Now          time.Time
}

// Plan is what Next decided.
type Plan struct {
	// Status is the whole of status.rollout, to be written if it differs from what is stored.
	Status v1alpha1.RolloutStatus
	// WakeAt is when time alone brings something further; zero when only an event can.
	WakeAt time.Time
}

// Next moves the window of a release as far as it may move now. It is a function of its input alone; the order of the
// fleet does not matter, and planning again at the same time from the status that it returned changes nothing.
func Next(in Input) Plan {
	p := begin(in)
	if p.behind() {
		return Plan{Status: p.status, WakeAt: in.Now.Add(catchUp)}
	}
	p.survey()
	p.retarget()
	p.withhold()
	p.sweep()
	p.count()
	p.admit()
	p.conclude()
	p.stamp()
	return Plan{Status: p.status, WakeAt: p.wakeAt}
}

// pass is one planning pass: what is known, and the status that it becomes.
type pass struct {
	in     Input
	status v1alpha1.RolloutStatus
	settings

	// seen holds, by UID, the window's entries and the gateways behind them.
	seen map[types.UID]*Member
	// highest is the highest attempt of this release that any gateway has recorded; outrun says that a record contradicts
	// the status, because the status is older than the records or was lost.
	highest int64
	outrun  bool
	// strayed says that a gateway that runs something is not on the target.
	strayed bool

	tally
	wakeAt time.Time
}

func begin(in Input) *pass {
	p := &pass{in: in}
	if in.Status != nil {
		in.Status.DeepCopyInto(&p.status)
	}
	if p.in.Accepted == "" {
		p.in.Accepted = p.status.Target
	}
	return p
}

// survey reads the fleet once for what decides about the attempt.
func (p *pass) survey() {
	window := p.status.InFlight
	p.seen = make(map[types.UID]*Member, len(window))
	for i := range window {
		p.seen[window[i].UID] = nil
	}
	total := 0
	for i := range p.in.Fleet {
		m := &p.in.Fleet[i]
		if m.Leaving {
			continue
		}
		total++
		if len(window) > 0 {
			if _, inWindow := p.seen[m.UID]; inWindow {
				p.seen[m.UID] = m
			}
		}
		if m.of(p.in.Release) {
			p.highest = max(p.highest, m.Record.Attempt)
			if m.Record.Attempt > p.status.Attempt || (m.Record.Attempt == p.status.Attempt && m.Record.Name != p.status.Target && !m.Barred) {
				p.outrun = true
			}
		}
		if (m.Record != nil || m.unadopted()) && !m.runs(p.in.Release, p.status.Target) && !m.Barred {
			p.strayed = true
		}
	}
	p.settings = settingsFor(p.in.Spec, total)
	p.status.Fleet = v1alpha1.FleetStatus{Total: int32(total)}
}

// retarget starts a new attempt when there is something new to attempt. Entries of the window stay where they are: their
// gateways are still unavailable, and go straight to the new target.
func (p *pass) retarget() {
	s := &p.status
	switch {
	case p.in.Accepted == "":
		return
	case s.Target == "":
		// The first run, or the status was lost. Whatever the gateways have recorded counts as settled: who broke it is
		// not known any more.
		s.StableAttempt = p.highest
	case p.in.Spec.Paused:
		return
	case p.outrun:
		if s.Stable == "" {
			s.StableAttempt = p.highest
		}
	case p.in.Accepted != s.Target:
	case p.completed() && p.strayed:
		// Somebody came from another release, after the fact. Those who came first are not judged again by it.
	default:
		return
	}
	s.Target = p.in.Accepted
	s.Attempt = max(s.Attempt, p.highest) + 1
	for i := range s.InFlight {
		s.InFlight[i].Attempt = s.Attempt
		s.InFlight[i].AdmittedAt = p.moment()
	}
}

// completed says that the present attempt has completed, which it does once.
func (p *pass) completed() bool {
	s := &p.status
	return s.Attempt > 0 && s.StableAttempt == s.Attempt && s.Stable == s.Target
}

// sweep takes those out of the window that have converged, failed or gone.
func (p *pass) sweep() {
	kept := p.status.InFlight[:0]
	for _, entry := range p.status.InFlight {
		m := p.seen[entry.UID]
		if m == nil || p.done(entry, m) {
			delete(p.seen, entry.UID)
			continue
		}
		kept = append(kept, entry)
	}
	if len(kept) == 0 {
		kept = nil
	}
	p.status.InFlight = kept
}

// done says whether a gateway of the window has reported the entry's attempt and has converged or failed. One that has
// not reported may take the target at any moment, and is not done; unless it has been edited since, or it uses no budget
// and has something to lose by now: then it does not take what the entry gives, and stands in line again as what it is.
func (p *pass) done(entry v1alpha1.InFlightGateway, m *Member) bool {
	if !p.reported(entry, m) {
		return entry.Generation < m.Generation || m.Barred && !m.of(p.in.Release) || p.declines(entry, m)
	}
	onTarget := m.Record.Name == p.status.Target
	if !onTarget && m.Barred {
		return true // it has reported that it may not take the target, and cannot any more in this attempt
	}
	if onTarget && m.Observed && p.settled(m) {
		return true
	}
	deadline := after(entry.AdmittedAt.Time, p.deadline)
	if !p.in.Now.Before(deadline) {
		return true
	}
	p.wake(deadline)
	if onTarget && m.Observed && m.Ready {
		p.wake(after(m.Since, p.minReady))
	}
	return false
}

// declines says whether a gateway does not take what an entry gives, because it was admitted without using the budget and
// has something to lose by now (Decide). Should it lose that before it hears that the entry is gone, it may still take the
// target: then that costs nobody anything, as it was when the entry was made, and no slot of the budget went with it.
func (p *pass) declines(entry v1alpha1.InFlightGateway, m *Member) bool {
	return !entry.WasReady && m.loses() && !m.runs(p.in.Release, p.status.Target)
}

func (p *pass) reported(entry v1alpha1.InFlightGateway, m *Member) bool {
	return m.of(p.in.Release) && m.Record.Attempt >= entry.Attempt
}

// settled says whether the gateway has been Ready for minReadySeconds.
func (p *pass) settled(m *Member) bool {
	return m.Ready && !p.in.Now.Before(after(m.Since, p.minReady))
}

// moved says whether an attempt that has not completed gave the gateway what it has recorded.
func (p *pass) moved(m *Member) bool {
	return m.of(p.in.Release) && m.Record.Attempt > p.status.StableAttempt
}

func (p *pass) wake(at time.Time) {
	if p.wakeAt.IsZero() || at.Before(p.wakeAt) {
		p.wakeAt = at
	}
}

// moment is now as the API stores it.
func (p *pass) moment() metav1.Time {
	return metav1.Time{Time: p.in.Now.Truncate(time.Second)}
}
