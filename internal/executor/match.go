package executor

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/image"
)

// State is what is known of who judges an image. The zero value is NotReady: what was never looked up is not unmatched.
type State int

const (
	// NotReady: not every Executor that may judge it has been attempted since the start, so nobody can tell.
	NotReady State = iota
	// Unmatched: no Executor has the image in scope.
	Unmatched
	// Audited: only Executors in mode Audit have; they satisfy nothing and enforce nothing.
	Audited
	// Matched: at least one Executor that enforces has.
	Matched
)

// Match is who judges an image.
type Match struct {
	State State
	// Enforced must all pass.
	Enforced []*Served
	// Audited report only.
	Audited []*Served
	// key tells matches apart that would judge differently.
	key string
	// What was asked: who judges ref in namespace, or who of the namespace's own does.
	ref       image.Reference
	namespace string
	own       bool
}

// Key is equal for two matches if they judge by the same Executors, in the same generation, with the same trust and the
// same credentials: what one of them said holds for the other.
func (m Match) Key() string { return m.key }

// Match says who judges an image in a namespace; without a namespace, the cluster's Executors alone do. Of each kind
// those with the most specific scope count, where several have the same one all of them. Executors in mode Audit are
// matched apart, so that one with a narrow scope takes nobody's protection away.
func (l *Live) Match(ref image.Reference, namespace string) Match {
	now := l.current.Load()
	m := Match{State: Unmatched, ref: ref, namespace: namespace}
	m.add(now.tables[""], ref)
	if namespace != "" {
		tenant := Match{}
		tenant.add(now.tables[namespace], ref)
		if len(tenant.Enforced) > 0 {
			m.Enforced = insisting(m.Enforced)
		}
		m.Enforced = append(m.Enforced[:len(m.Enforced):len(m.Enforced)], tenant.Enforced...)
		m.Audited = append(m.Audited[:len(m.Audited):len(m.Audited)], tenant.Audited...)
	}
	return l.settled(m, now.attempted("") && (namespace == "" || now.attempted(namespace)))
}

// MatchOwn says who judges an image by a namespace's own Executors alone. It is for those whose images the cluster's
// Executors have judged elsewhere.
func (l *Live) MatchOwn(ref image.Reference, namespace string) Match {
	now := l.current.Load()
	m := Match{State: Unmatched, ref: ref, namespace: namespace, own: true}
	m.add(now.tables[namespace], ref)
	return l.settled(m, now.attempted(namespace))
}

// HasOwn says whether a namespace has Executors of its own: Unmatched if it has none, Matched if it has any, whatever
// their scope, and NotReady while that cannot be told.
func (l *Live) HasOwn(namespace string) State {
	now := l.current.Load()
	switch {
	case !now.attempted(namespace):
		return NotReady
	case len(now.tables[namespace]) > 0:
		return Matched
	default:
		return Unmatched
	}
}

// settled completes a match in which all who judge have been found, if ready says that they are all.
func (l *Live) settled(m Match, ready bool) Match {
	m.Enforced, m.Audited = l.usable(m.Enforced, m.ref), l.usable(m.Audited, m.ref)
	switch {
	case !ready:
		m.State = NotReady
	case len(m.Enforced) > 0:
		m.State = Matched
	case len(m.Audited) > 0:
		m.State = Audited
	}
	m.key = m.fingerprint()
	return m
}

// add finds the most specific scope in a table, for each mode.
func (m *Match) add(t table, ref image.Reference) {
	if len(t) == 0 {
		return
	}
	var enforced, audited []*Served
	for scope := range scopesOf(ref) {
		var enforcing, auditing []*Served
		for _, s := range t[scope] {
			if s.Mode == v1alpha1.ModeAudit {
				auditing = append(auditing, s)
			} else {
				enforcing = append(enforcing, s)
			}
		}
		if enforced == nil {
			enforced = enforcing
		}
		if audited == nil {
			audited = auditing
		}
		if enforced != nil && audited != nil {
			break
		}
	}
	m.Enforced, m.Audited = append(m.Enforced, enforced...), append(m.Audited, audited...)
}

// insisting are those of the cluster's Executors that do not delegate to a namespace.
func insisting(cluster []*Served) []*Served {
	var kept []*Served
	for _, s := range cluster {
		if s.Tenancy != v1alpha1.TenancyDelegate {
			kept = append(kept, s)
		}
	}
	return kept
}

// usable takes the build from those whose build may not judge an image: what it trusts could not be read for too long,
// which the set itself may not have been told yet; or it is of an earlier spec, which did not have the image in scope.
func (l *Live) usable(all []*Served, ref image.Reference) []*Served {
	for i, s := range all {
		why, away := "", s.Away
		switch {
		case s.Compiled == nil:
		case !s.Expires.IsZero() && !l.clock.Now().Before(s.Expires):
			why, away = "what it trusts could not be read for longer than maxStale", true // which the set itself may yet tell
		case s.BuiltFor != nil && !slices.ContainsFunc(s.BuiltFor, func(scope Scope) bool { return scope.Covers(ref) }):
			why = fmt.Sprintf("generation %d, which serves, does not have it in scope, and the present one is not compiled: %s", s.Generation, s.Problem)
		}
		if why == "" {
			continue
		}
		without := *s
		without.Compiled, without.Generation, without.Problem, without.Away = nil, 0, why, away
		all = append(append(all[:i:i], &without), all[i+1:]...)
	}
	return all
}

// scopesOf yields every scope that a repository can be in, the most specific first.
func scopesOf(ref image.Reference) iter.Seq[Scope] {
	return func(yield func(Scope) bool) {
		key := ref.RepositoryKey()
		if key == "" || !yield(Scope{exact, key}) {
			return
		}
		for end := strings.LastIndexByte(key, '/'); end >= 0; end = strings.LastIndexByte(key[:end], '/') {
			if !yield(Scope{prefix, key[:end+1]}) {
				return
			}
		}
		host, _, _ := strings.Cut(key, "/")
		for {
			dot := strings.IndexByte(host, '.')
			if dot < 0 {
				break
			}
			if dot > 0 && !yield(Scope{domain, host[dot:]}) {
				return
			}
			host = host[dot+1:]
		}
		yield(Scope{kind: everything})
	}
}

func (m Match) fingerprint() string {
	if m.State == NotReady || m.State == Unmatched {
		return ""
	}
	h := sha256.New()
	for _, list := range [][]*Served{m.Enforced, m.Audited} {
		fmt.Fprintf(h, "%d;", len(list))
		for _, s := range list {
			build := "none"
			if s.Compiled != nil {
				build = s.Compiled.key
			}
			fmt.Fprintf(h, "%s/%s/%s=%s@%d;", s.Name.Namespace, s.Name.Name, s.UID, build, s.Generation)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
