package policy

import "slices"

// Verdict is how far the evidence goes.
type Verdict int

const (
	// Open: more evidence could decide either way.
	Open Verdict = iota
	// Satisfied: certain, whatever may come.
	Satisfied
	// Unsatisfiable: certain, whatever may come.
	Unsatisfiable
)

// Evidence is what one verifier has shown so far.
type Evidence struct {
	// Signers are those whom it accepted.
	Signers []string
	// Open says that it may yet accept others.
	Open bool
}

// Place is one place of a threshold and who fills it.
type Place struct {
	Verifier, Signer string
}

// Decision is a verdict and what it rests on.
type Decision struct {
	Verdict Verdict
	// Places are those that satisfy the policy, in the order in which its
	// groups name them. Set if Satisfied.
	Places []Place
	// SharedSigner says that what is missing is a signer: verifiers enough have
	// accepted one, but the same one.
	SharedSigner bool
}

// maxSteps bounds the search for signers. Few policies need a hundredth of it; one
// that needs more stays Open.
const maxSteps = 20_000

// Decide weighs the evidence, by the names of verifiers; a verifier without an
// entry has shown nothing and will not.
func (p *Policy) Decide(evidence map[string]Evidence) Decision {
	proven := p.search(evidence, false)
	if met, _ := proven.meets(); met {
		return Decision{Verdict: Satisfied, Places: proven.places()}
	}
	decision := Decision{SharedSigner: len(p.groups) > 0 && proven.reachable(len(p.groups)-1)}
	possible := p.search(evidence, true)
	if met, exhausted := possible.meets(); !met && !exhausted {
		decision.Verdict = Unsatisfiable
	}
	return decision
}

// search looks for signers who fill the places of a policy.
type search struct {
	policy  *Policy
	open    []bool  // verifiers whose places anybody may fill
	signers [][]int // by verifier, whom it accepted
	names   []string
	steps   int

	taken  []int // verifiers whose places are counted, in order
	holder []int // by signer, the index in taken of the place that he fills, or -1
}

func (p *Policy) search(evidence map[string]Evidence, optimistic bool) *search {
	s := &search{policy: p, open: make([]bool, len(p.verifiers)), signers: make([][]int, len(p.verifiers)), steps: maxSteps}
	index := map[string]int{}
	for i, name := range p.verifiers {
		shown := evidence[name]
		s.open[i] = optimistic && shown.Open
		sorted := slices.Clone(shown.Signers)
		slices.Sort(sorted) // the same signers fill the same places, in whatever order they came
		for _, signer := range slices.Compact(sorted) {
			n, ok := index[signer]
			if !ok {
				n = len(s.names)
				index[signer] = n
				s.names = append(s.names, signer)
				s.holder = append(s.holder, -1)
			}
			s.signers[i] = append(s.signers[i], n)
		}
	}
	return s
}

// meets reports whether the policy can be met, and whether the search gave up.
func (s *search) meets() (met, exhausted bool) {
	if len(s.policy.groups) == 0 {
		for i := range s.policy.verifiers {
			if !s.shown(i) {
				return false, false
			}
		}
		return true, false
	}
	last := len(s.policy.groups) - 1
	if !s.reachable(last) {
		return false, false
	}
	met = s.fill(&frame{group: last, need: s.policy.groups[last].min})
	return met, !met && s.steps <= 0
}

func (s *search) shown(verifier int) bool {
	return s.open[verifier] || len(s.signers[verifier]) > 0
}

// reachable reports whether a group would be met if a signer could fill any
// number of places. What is not reachable needs no search.
func (s *search) reachable(index int) bool {
	met := make([]bool, index+1)
	for i := range met {
		count := 0
		for _, m := range s.policy.groups[i].members {
			if m.group && met[m.index] || !m.group && s.shown(m.index) {
				count++
			}
		}
		met[i] = count >= s.policy.groups[i].min
	}
	return met[index]
}

// frame is a group of which the members from next on may still be counted.
type frame struct {
	group, next, need int
	outer             *frame // what remains to be met after this one
}

// fill counts members until every frame has what it needs, and takes back what
// leads nowhere.
func (s *search) fill(f *frame) bool {
	for f != nil && f.need == 0 {
		f = f.outer
	}
	if f == nil {
		return true
	}
	g := &s.policy.groups[f.group]
	if len(g.members)-f.next < f.need || s.steps <= 0 {
		return false
	}
	s.steps--
	m := g.members[f.next]
	counted := &frame{f.group, f.next + 1, f.need - 1, f.outer}
	passedOver := &frame{f.group, f.next + 1, f.need, f.outer}
	switch {
	case m.group:
		inner := &frame{m.index, 0, s.policy.groups[m.index].min, counted}
		return s.fill(inner) || s.fill(passedOver)
	case s.open[m.index]:
		return s.fill(counted) // anybody fills it: nothing is gained by passing it over
	}
	taken, holder := len(s.taken), slices.Clone(s.holder)
	if s.seat(m.index) {
		if s.fill(counted) {
			return true
		}
		s.taken, s.holder = s.taken[:taken], holder
		if g.flat && f.outer == nil {
			return false // places that can be filled together are never in each other's way
		}
	}
	return s.fill(passedOver)
}

// seat gives the place of a verifier to a signer, moving others where they can be
// moved: an augmenting path of a bipartite matching.
func (s *search) seat(verifier int) bool {
	s.taken = append(s.taken, verifier)
	place := len(s.taken) - 1
	if s.augment(place, make([]bool, len(s.names))) {
		return true
	}
	s.taken = s.taken[:place]
	return false
}

func (s *search) augment(place int, visited []bool) bool {
	for _, signer := range s.signers[s.taken[place]] {
		if visited[signer] {
			continue
		}
		visited[signer] = true
		if s.holder[signer] < 0 || s.augment(s.holder[signer], visited) {
			s.holder[signer] = place
			return true
		}
	}
	return false
}

// places tells who fills what, after meets.
func (s *search) places() []Place {
	var places []Place
	if len(s.policy.groups) == 0 {
		for i, name := range s.policy.verifiers {
			places = append(places, Place{name, s.names[s.signers[i][0]]})
		}
		return places
	}
	places = make([]Place, len(s.taken))
	for signer, place := range s.holder {
		if place >= 0 {
			places[place] = Place{s.policy.verifiers[s.taken[place]], s.names[signer]}
		}
	}
	return places
}
