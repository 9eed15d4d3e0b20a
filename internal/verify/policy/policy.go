package policy

import (
	"fmt"
	"slices"
	"strings"
)

// Bounds of a policy.
const (
	// MaxVerifiers is how many verifiers a policy may decide among.
	MaxVerifiers = 32
	// MaxGroups is how many groups it may have.
	MaxGroups = 32
)

// Group is one threshold.
type Group struct {
	Name string
	// Min is how many of the members must be met, from 1.
	Min int
	// Of names the members: verifiers, or groups that come earlier.
	Of []string
}

// Policy is compiled: each name is resolved, and each threshold within reach.
// It is immutable.
type Policy struct {
	verifiers []string
	groups    []group // the last one decides; none means that every verifier must
}

type group struct {
	name    string
	min     int
	members []member
	flat    bool // all members are verifiers
}

// member is a verifier, by its place in Policy.verifiers, or a group.
type member struct {
	index int
	group bool
}

// Compile resolves the groups over the verifiers. The error names the group,
// and the member, that is at fault.
func Compile(verifiers []string, groups []Group) (*Policy, error) {
	switch {
	case len(verifiers) == 0:
		return nil, fmt.Errorf("no verifier is given; a policy decides by what verifiers say")
	case len(verifiers) > MaxVerifiers:
		return nil, fmt.Errorf("more than %d verifiers", MaxVerifiers)
	case len(groups) > MaxGroups:
		return nil, fmt.Errorf("more than %d groups", MaxGroups)
	}
	known := map[string]member{}
	for i, name := range verifiers {
		if _, taken := known[name]; taken || name == "" {
			return nil, fmt.Errorf("verifier %q: the name is empty or given twice; name each verifier once", name)
		}
		known[name] = member{index: i}
	}
	p := &Policy{verifiers: slices.Clone(verifiers)}
	used := map[string]bool{}
	for i, g := range groups {
		if _, taken := known[g.Name]; taken || g.Name == "" {
			return nil, fmt.Errorf("group %q: the name is empty or taken; groups and verifiers have names of their own", g.Name)
		}
		compiled := group{name: g.Name, min: g.Min, flat: true}
		for _, name := range g.Of {
			m, ok := known[name]
			if !ok {
				return nil, fmt.Errorf("group %s: %q is neither a verifier nor an earlier group", g.Name, name)
			}
			if slices.Contains(compiled.members, m) {
				return nil, fmt.Errorf("group %s: %q is a member twice", g.Name, name)
			}
			compiled.members = append(compiled.members, m)
			compiled.flat = compiled.flat && !m.group
			used[name] = true
		}
		if g.Min < 1 || g.Min > len(g.Of) {
			return nil, fmt.Errorf("group %s: min is %d; write a number from 1 to its %d members", g.Name, g.Min, len(g.Of))
		}
		p.groups = append(p.groups, compiled)
		known[g.Name] = member{index: i, group: true}
	}
	if len(groups) == 0 {
		return p, nil
	}
	// What decides nothing is a mistake that would go unnoticed.
	used[groups[len(groups)-1].Name] = true
	for _, name := range verifiers {
		if !used[name] {
			return nil, fmt.Errorf("verifier %s is in no group and would decide nothing; add it to a group, or remove it", name)
		}
	}
	for _, g := range groups {
		if !used[g.Name] {
			return nil, fmt.Errorf("group %s is a member of no later group and would decide nothing; the last group, %s, decides", g.Name, groups[len(groups)-1].Name)
		}
	}
	return p, nil
}

// String is what the policy asks for, for people.
func (p *Policy) String() string {
	if len(p.groups) == 0 {
		return "each of " + strings.Join(p.verifiers, ", ")
	}
	return p.describe(len(p.groups) - 1)
}

func (p *Policy) describe(index int) string {
	g := p.groups[index]
	names := make([]string, len(g.members))
	for i, m := range g.members {
		if m.group {
			names[i] = p.groups[m.index].name
		} else {
			names[i] = p.verifiers[m.index]
		}
	}
	return fmt.Sprintf("%s: %d of %s", g.name, g.min, strings.Join(names, ", "))
}

// Grouped reports whether the policy has groups.
func (p *Policy) Grouped() bool { return len(p.groups) > 0 }
