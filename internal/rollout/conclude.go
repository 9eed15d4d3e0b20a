package rollout

import (
	"time"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// conclude completes the attempt when there is nothing left of it, and says where it stands.
func (p *pass) conclude() {
	s := &p.status
	if s.Target == "" {
		s.State, s.Message = "", "no revision has been accepted yet"
		return
	}
	over := len(s.InFlight) == 0 && p.waiting() == 0 && p.unheard.total+p.waiters.total == 0
	// A fleet that was on the target all along has nothing to prove; one that was moved there must have shown one gateway
	// that came up.
	proven := p.converged > 0 || p.given == 0 && p.barred.total == 0
	if over && proven && !p.stopped() && !p.completed() {
		s.Stable, s.StableAttempt = s.Target, s.Attempt
		now := p.moment()
		s.CompletedAt = &now
		p.withhold()
		p.recount()
	}
	if over && !proven && !p.settles.IsZero() {
		p.wake(p.settles)
	}
	s.Fleet.Failed = int32(p.failures.total)
	s.State = p.state(over && !proven)
	s.Message = p.say(s.State)
}

// recount looks at the fleet once more when the attempt has completed: what this rollout moved is settled now, and those
// that are not Ready are so on the last completed revision.
func (p *pass) recount() {
	p.status.Fleet = v1alpha1.FleetStatus{Total: p.status.Fleet.Total}
	p.tally, p.wakeAt = tally{}, time.Time{}
	p.count()
}

// state is the first of these that holds. A target that is withheld pauses the rollout as a person would. A pause hides neither a completion nor a failure, but an edit that waits for
// its end is what is to be known first. A completed attempt has gateways to move only while a pause holds those who came
// since.
func (p *pass) state(unproven bool) v1alpha1.RolloutState {
	switch {
	case p.in.Accepted != p.status.Target:
		return v1alpha1.RolloutPaused
	case p.completed() && p.costly.total+p.idle.total == 0:
		return v1alpha1.RolloutComplete
	case p.stopped() || unproven:
		return v1alpha1.RolloutFailed
	case p.in.Spec.Paused || p.withheld(p.status.Target):
		return v1alpha1.RolloutPaused
	default:
		return v1alpha1.RolloutProgressing
	}
}
