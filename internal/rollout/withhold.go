package rollout

import (
	"slices"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// withhold notes which of the target and the stable revision may be given to nobody further. Entries of the window stay
// where they are: their gateways may have taken the target on an older view of the status. One that has not reported
// begins anew when the target is given again, so that it does not pay for the time in between.
func (p *pass) withhold() {
	before := p.status.Withheld
	p.status.Withheld = nil
	for _, revision := range []string{p.status.Target, p.status.Stable} {
		undecided := slices.Contains(p.in.Undecided, revision) && slices.Contains(before, revision)
		if revision != "" && (undecided || slices.Contains(p.in.Withheld, revision)) && !p.withheld(revision) {
			p.status.Withheld = append(p.status.Withheld, revision)
		}
	}
	slices.Sort(p.status.Withheld)
	if !slices.Contains(before, p.status.Target) || p.withheld(p.status.Target) {
		return
	}
	for i := range p.status.InFlight {
		entry := &p.status.InFlight[i]
		if m := p.seen[entry.UID]; m != nil && !p.reported(*entry, m) {
			entry.AdmittedAt = p.moment()
		}
	}
}

// withheld says whether a revision may be given to nobody further.
func (p *pass) withheld(revision string) bool {
	return slices.Contains(p.status.Withheld, revision)
}

// held says whether nobody may be admitted to the target now.
func (p *pass) held() bool {
	return p.withheld(p.status.Target) || slices.Contains(p.in.Undecided, p.status.Target)
}

// stranded says that a new gateway cannot take the stable revision, because that is withheld or somebody has deleted it, and
// is to be admitted to the target instead.
func (p *pass) stranded(m *Member) bool {
	return p.status.Stable != p.status.Target && (p.withheld(p.status.Stable) || m.Reason == v1alpha1.ReasonRevisionNotFound)
}
