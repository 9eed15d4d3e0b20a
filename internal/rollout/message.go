package rollout

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// maxMessage bounds a message, in bytes, as the API does.
const maxMessage = 1024

// maxNamed is how many gateways a message names of each kind.
const maxNamed = 3

// names keeps the first few of many gateways in the order of their names, and counts all.
type names struct {
	first [maxNamed]*Member
	total int
}

func (n *names) add(m *Member) {
	n.total++
	for i := range n.first {
		switch {
		case n.first[i] == nil:
			n.first[i] = m
			return
		case cmp.Or(cmp.Compare(m.Namespace, n.first[i].Namespace), cmp.Compare(m.Name, n.first[i].Name), cmp.Compare(m.UID, n.first[i].UID)) < 0:
			m, n.first[i] = n.first[i], m
		}
	}
}

// list says each of the first few in words, and how many more there are.
func (n *names) list(say func(*Member) string) string {
	var said []string
	for _, m := range n.first {
		if m != nil {
			said = append(said, fmt.Sprintf("%s/%s: %s", m.Namespace, m.Name, say(m)))
		}
	}
	return enumerate(said, n.total)
}

func enumerate(said []string, total int) string {
	text := strings.Join(said, ", ")
	if more := total - len(said); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// condition says how a gateway is, in numbers and typed reasons. A time is that of a transition, never an age: the same
// state reads the same in every pass.
func condition(m *Member) string {
	if m.Ready {
		return "Ready since " + stamped(m.Since)
	}
	text := fmt.Sprintf("%d/%d ready", m.ReadyReplicas, m.DesiredReplicas)
	moving := m.Reason == v1alpha1.ReasonProgressing || m.Reason == v1alpha1.ReasonNotProgressing
	if moving && m.ReadyReplicas >= m.DesiredReplicas {
		text += " with its old pods, new ones not available" // a rolling update keeps the old until the new are there
	}
	if !m.Since.IsZero() {
		text += " since " + stamped(m.Since)
	}
	if m.Reason != "" {
		text += " (" + m.Reason + ")"
	}
	return text
}

func stamped(t time.Time) string {
	return t.UTC().Format(time.RFC3339)
}

// awaited says what each gateway of the window is waited for; those not heard of come first, they hold their slots.
func (p *pass) awaited() string {
	var silent, others []string
	for i := range p.status.InFlight {
		entry := p.status.InFlight[i]
		m := p.seen[entry.UID]
		name := entry.Namespace + "/" + entry.Name + ": "
		switch {
		case !p.reported(entry, m):
			if len(silent) < maxNamed {
				silent = append(silent, name+"not heard of since it was admitted at "+stamped(entry.AdmittedAt.Time))
			}
		case len(others) < maxNamed:
			others = append(others, name+condition(m))
		}
	}
	said := append(silent, others...)
	return enumerate(said[:min(len(said), maxNamed)], len(p.status.InFlight))
}

// say composes the sentence for a state.
func (p *pass) say(state v1alpha1.RolloutState) string {
	s := &p.status
	var parts []string
	part := func(format string, args ...any) {
		parts = append(parts, fmt.Sprintf(format, args...))
	}
	switch state {
	case v1alpha1.RolloutComplete:
		if s.Fleet.Total == 0 {
			part("no gateway follows this release; a new one gets %s", s.Target)
		} else {
			part("%d of %d gateways run %s", s.Fleet.Updated, s.Fleet.Total, s.Target)
		}
	case v1alpha1.RolloutFailed:
		if p.stopped() {
			part("attempt %d failed: %d of %d gateways did not come back (maxFailures %d): %s",
				s.Attempt, p.failures.total, s.Fleet.Total, p.maxFailures, p.failures.list(condition))
		} else {
			part("attempt %d failed: nothing has converged: %s", s.Attempt, p.unsettled.list(condition))
		}
	case v1alpha1.RolloutPaused:
		if p.in.Accepted != s.Target {
			part("paused: %s waits to be rolled out", p.in.Accepted)
		} else if p.withheld(s.Target) {
			part("held: %s is withheld: %d of %d admitted gateways converged, %d not admitted", s.Target, p.back, p.given+len(s.InFlight), p.waiting())
		} else {
			part("paused: %d of %d admitted gateways converged, %d not admitted", p.back, p.given+len(s.InFlight), p.waiting())
		}
	default:
		part("%d of %d admitted gateways converged", p.back, p.given+len(s.InFlight))
	}
	if p.failures.total > 0 && !(state == v1alpha1.RolloutFailed && p.stopped()) {
		part("%d did not come back (maxFailures %d): %s", p.failures.total, p.maxFailures, p.failures.list(condition))
	}
	if len(s.InFlight) > 0 {
		part("waiting for %s", p.awaited())
	}
	if p.unheard.total > 0 && state != v1alpha1.RolloutComplete {
		part("waiting for the first report of %s", p.unheard.list(func(m *Member) string { return "nothing recorded yet" }))
	}
	if p.barred.total > 0 {
		part("%d may not take it: %s", p.barred.total, p.barred.list(condition))
	}
	for _, revision := range s.Withheld {
		if revision == s.Stable {
			part("%s is withheld from new gateways", revision)
		} else if state != v1alpha1.RolloutPaused || p.in.Accepted != s.Target {
			part("%s is withheld, no further gateway is given it", revision)
		}
	}
	if p.waiters.total > 0 {
		part("%d wait for it: %s", p.waiters.total, p.waiters.list(condition))
	}
	if state == v1alpha1.RolloutComplete && p.in.Spec.Paused {
		part("paused")
	}
	return cut(strings.Join(parts, "; "), maxMessage)
}

// cut shortens a text to at most limit bytes, on a rune boundary, and shows that it did.
func cut(text string, limit int) string {
	const ellipsis = "…"
	if len(text) <= limit {
		return text
	}
	end := limit - len(ellipsis)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}
