package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gatehouse-dev/gatehouse/internal/verify/policy"
)

func group(name string, min int, of ...string) policy.Group {
	return policy.Group{Name: name, Min: min, Of: of}
}

func compile(t interface {
	Helper()
	Fatal(...any)
}, verifiers string, groups ...policy.Group) *policy.Policy {
	t.Helper()
	p, err := policy.Compile(strings.Fields(verifiers), groups)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// shows reads evidence as a person writes it: "a:ann,bob b:? c:ann,?", where ?
// is that more may come.
func shows(text string) map[string]policy.Evidence {
	evidence := map[string]policy.Evidence{}
	for _, of := range strings.Fields(text) {
		name, signers, _ := strings.Cut(of, ":")
		var e policy.Evidence
		for signer := range strings.SplitSeq(signers, ",") {
			if signer == "?" {
				e.Open = true
			} else {
				e.Signers = append(e.Signers, signer)
			}
		}
		evidence[name] = e
	}
	return evidence
}

func TestDecisions(t *testing.T) {
	for name, row := range map[string]struct {
		verifiers string
		groups    []policy.Group
		evidence  string
		want      policy.Verdict
	}{
		"no groups: all must":                         {"a b", nil, "a:ann b:bob", policy.Satisfied},
		"no groups: one is missing":                   {"a b", nil, "a:ann", policy.Unsatisfiable},
		"no groups: one may come":                     {"a b", nil, "a:ann b:?", policy.Open},
		"no groups: one signer for each verifier":     {"a b", nil, "a:ann b:ann", policy.Satisfied},
		"no groups: one is missing, another may come": {"a b", nil, "a:?", policy.Unsatisfiable},
		"one of two": {"a b", []policy.Group{group("g", 1, "a", "b")}, "b:bob", policy.Satisfied},
		"one of two, whatever comes of the other":        {"a b", []policy.Group{group("g", 1, "a", "b")}, "a:? b:bob", policy.Satisfied},
		"two of three by different signers":              {"a b c", []policy.Group{group("g", 2, "a", "b", "c")}, "a:ann c:cid", policy.Satisfied},
		"two of three by one signer":                     {"a b c", []policy.Group{group("g", 2, "a", "b", "c")}, "a:ann b:ann c:ann", policy.Unsatisfiable},
		"two of three, one of whom may come":             {"a b c", []policy.Group{group("g", 2, "a", "b", "c")}, "a:ann b:ann,?", policy.Open},
		"a signer is moved to make room":                 {"a b", []policy.Group{group("g", 2, "a", "b")}, "a:ann,bob b:ann", policy.Satisfied},
		"a chain of moves":                               {"a b c", []policy.Group{group("g", 3, "a", "b", "c")}, "a:ann,bob b:bob,cid c:ann", policy.Satisfied},
		"three places and two signers":                   {"a b c", []policy.Group{group("g", 3, "a", "b", "c")}, "a:ann,bob b:ann,bob c:ann,bob", policy.Unsatisfiable},
		"a group as a member":                            {"a b c", []policy.Group{group("any", 1, "b", "c"), group("all", 2, "a", "any")}, "a:ann c:cid", policy.Satisfied},
		"one signer in a group and beside it":            {"a b c", []policy.Group{group("any", 1, "b", "c"), group("all", 2, "a", "any")}, "a:ann b:ann", policy.Unsatisfiable},
		"another way through the group":                  {"a b c", []policy.Group{group("any", 1, "b", "c"), group("all", 2, "a", "any")}, "a:ann b:ann c:cid", policy.Satisfied},
		"the other member of the group leaves room":      {"a b c", []policy.Group{group("any", 1, "a", "b"), group("all", 2, "any", "c")}, "a:ann b:bob c:ann", policy.Satisfied},
		"a group that is met is passed over for another": {"a b c", []policy.Group{group("x", 2, "a", "b"), group("y", 1, "c"), group("last", 1, "x", "y")}, "a:ann b:ann c:ann", policy.Satisfied},
		"two groups share a verifier with one signer":    {"a b c", []policy.Group{group("x", 1, "a", "b"), group("y", 1, "a", "c"), group("last", 2, "x", "y")}, "a:ann", policy.Unsatisfiable},
		"two groups share a verifier with two signers":   {"a b c", []policy.Group{group("x", 1, "a", "b"), group("y", 1, "a", "c"), group("last", 2, "x", "y")}, "a:ann,bob", policy.Satisfied},
		"what comes may be of many":                      {"a b c", []policy.Group{group("x", 1, "a", "b"), group("y", 1, "a", "c"), group("last", 2, "x", "y")}, "a:?", policy.Open},
	} {
		t.Run(name, func(t *testing.T) {
			got := compile(t, row.verifiers, row.groups...).Decide(shows(row.evidence))
			if got.Verdict != row.want {
				t.Errorf("got %v, want %v", got.Verdict, row.want)
			}
		})
	}
}

func TestADecisionNamesWhoFillsWhatPlace(t *testing.T) {
	p := compile(t, "a b c", group("any", 1, "b", "c"), group("all", 2, "a", "any"))
	got := p.Decide(shows("a:bob,ann b:ann c:?"))
	if want := "[{a bob} {b ann}]"; fmt.Sprint(got.Places) != want {
		t.Errorf("got %v, want %s", got.Places, want)
	}
	if got := p.Decide(shows("a:ann b:ann")); !got.SharedSigner {
		t.Error("it does not say that a signer is what is missing")
	}
	if got := p.Decide(shows("a:ann")); got.SharedSigner {
		t.Error("it says that a signer is missing where a verifier has accepted nobody")
	}
}

func TestAPolicyThatDecidesNothingIsRefused(t *testing.T) {
	for name, row := range map[string]struct {
		verifiers string
		groups    []policy.Group
		want      string
	}{
		"no verifier":               {"", nil, "no verifier is given; a policy decides by what verifiers say"},
		"a verifier twice":          {"a a", nil, `verifier "a": the name is empty or given twice; name each verifier once`},
		"a group with a taken name": {"a b", []policy.Group{group("a", 1, "b")}, `group "a": the name is empty or taken; groups and verifiers have names of their own`},
		"an unknown member":         {"a", []policy.Group{group("g", 1, "a", "z")}, `group g: "z" is neither a verifier nor an earlier group`},
		"a later group":             {"a", []policy.Group{group("g", 1, "h"), group("h", 1, "a")}, `group g: "h" is neither a verifier nor an earlier group`},
		"itself":                    {"a", []policy.Group{group("g", 1, "a", "g")}, `group g: "g" is neither a verifier nor an earlier group`},
		"a member twice":            {"a", []policy.Group{group("g", 1, "a", "a")}, `group g: "a" is a member twice`},
		"out of reach":              {"a b", []policy.Group{group("g", 3, "a", "b")}, "group g: min is 3; write a number from 1 to its 2 members"},
		"a threshold of none":       {"a", []policy.Group{group("g", 0, "a")}, "group g: min is 0; write a number from 1 to its 1 members"},
		"a verifier in no group":    {"a b", []policy.Group{group("g", 1, "a")}, "verifier b is in no group and would decide nothing; add it to a group, or remove it"},
		"a group in no group":       {"a b", []policy.Group{group("g", 1, "a"), group("h", 1, "b")}, "group g is a member of no later group and would decide nothing; the last group, h, decides"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := policy.Compile(strings.Fields(row.verifiers), row.groups)
			if err == nil || err.Error() != row.want {
				t.Errorf("got %v\nwant %s", err, row.want)
			}
		})
	}
}

// world is a generated policy and evidence.
type world struct {
	verifiers []string
	groups    []policy.Group
	evidence  map[string]policy.Evidence
}

func (w world) compile(t *rapid.T) *policy.Policy {
	return compile(t, strings.Join(w.verifiers, " "), w.groups...)
}

func generate(t *rapid.T) world {
	w := world{evidence: map[string]policy.Evidence{}}
	for i := range rapid.IntRange(1, 4).Draw(t, "verifiers") {
		w.verifiers = append(w.verifiers, fmt.Sprintf("v%d", i))
	}
	signers := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"ann", "bob", "cid", "dan"}), 0, 3, rapid.ID[string])
	for _, v := range w.verifiers {
		w.evidence[v] = policy.Evidence{Signers: signers.Draw(t, v), Open: rapid.Bool().Draw(t, v+" open")}
	}
	// Every name is used at some time: the last group has all that no other has.
	unused := append([]string{}, w.verifiers...)
	known := append([]string{}, w.verifiers...)
	for i := range rapid.IntRange(0, 3).Draw(t, "groups") {
		name := fmt.Sprintf("g%d", i)
		of := rapid.SliceOfNDistinct(rapid.SampledFrom(known), 1, min(3, len(known)), rapid.ID[string]).Draw(t, name)
		w.groups = append(w.groups, group(name, rapid.IntRange(1, len(of)).Draw(t, name+" min"), of...))
		unused = append(without(unused, of), name)
		known = append(known, name)
	}
	if len(w.groups) > 0 {
		w.groups = append(w.groups, group("last", rapid.IntRange(1, len(unused)).Draw(t, "last min"), unused...))
	}
	return w
}

func without(all, some []string) []string {
	var left []string
	for _, s := range all {
		if !strings.Contains(" "+strings.Join(some, " ")+" ", " "+s+" ") {
			left = append(left, s)
		}
	}
	return left
}

// met decides as the definition reads: try every choice of members, and every
// choice of signers who differ. anybody lists verifiers whose places anybody
// fills.
func (w world) met(anybody map[string]bool) bool {
	shown := func(v string) bool { return anybody[v] || len(w.evidence[v].Signers) > 0 }
	if len(w.groups) == 0 {
		for _, v := range w.verifiers {
			if !shown(v) {
				return false
			}
		}
		return true
	}
	byName := map[string]policy.Group{}
	for _, g := range w.groups {
		byName[g.Name] = g
	}
	// places lists every set of places that meets a member.
	var places func(name string) [][]string
	places = func(name string) [][]string {
		g, isGroup := byName[name]
		if !isGroup {
			return [][]string{{name}}
		}
		var ways [][]string
		for choice := range 1 << len(g.Of) {
			sets, n := [][]string{nil}, 0
			for i, m := range g.Of {
				if choice&(1<<i) == 0 {
					continue
				}
				n++
				var longer [][]string
				for _, set := range sets {
					for _, more := range places(m) {
						longer = append(longer, append(append([]string{}, set...), more...))
					}
				}
				sets = longer
			}
			if n == g.Min {
				ways = append(ways, sets...)
			}
		}
		return ways
	}
	var fill func(places []string, taken map[string]bool) bool
	fill = func(places []string, taken map[string]bool) bool {
		if len(places) == 0 {
			return true
		}
		if anybody[places[0]] {
			return fill(places[1:], taken)
		}
		for _, signer := range w.evidence[places[0]].Signers {
			if !taken[signer] {
				taken[signer] = true
				if fill(places[1:], taken) {
					return true
				}
				delete(taken, signer)
			}
		}
		return false
	}
	for _, way := range places(w.groups[len(w.groups)-1].Name) {
		if fill(way, map[string]bool{}) {
			return true
		}
	}
	return false
}

// A decision is what trying everything comes to: satisfied by those who signed, or
// out of reach even if every open verifier accepted whomever one likes.
func TestDecisionsAreThoseOfTryingEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := generate(t)
		open := map[string]bool{}
		for v, e := range w.evidence {
			open[v] = e.Open
		}
		want := policy.Open
		switch {
		case w.met(nil):
			want = policy.Satisfied
		case !w.met(open):
			want = policy.Unsatisfiable
		}
		if got := w.compile(t).Decide(w.evidence); got.Verdict != want {
			t.Fatalf("got %v, want %v: %+v", got.Verdict, want, w)
		}
	})
}

// Once certain, a decision stays whatever comes of what was open.
func TestACertainDecisionStays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := generate(t)
		p := w.compile(t)
		before := p.Decide(w.evidence)
		for _, v := range w.verifiers {
			e := w.evidence[v]
			if !e.Open {
				continue
			}
			more := rapid.SliceOfN(rapid.SampledFrom([]string{"ann", "bob", "eve", "fay"}), 0, 2).Draw(t, "more of "+v)
			w.evidence[v] = policy.Evidence{Signers: append(append([]string{}, e.Signers...), more...), Open: rapid.Bool().Draw(t, v+" still open")}
		}
		after := p.Decide(w.evidence)
		if before.Verdict != policy.Open && after.Verdict != before.Verdict {
			t.Fatalf("%v became %v: %+v", before.Verdict, after.Verdict, w)
		}
	})
}

// Who satisfied a policy are signers who differ, each accepted by the verifier
// whose place he fills.
func TestPlacesAreFilledByAcceptedSigners(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := generate(t)
		d := w.compile(t).Decide(w.evidence)
		seen := map[string]bool{}
		for _, place := range d.Places {
			if !strings.Contains(" "+strings.Join(w.evidence[place.Verifier].Signers, " ")+" ", " "+place.Signer+" ") {
				t.Fatalf("%s never accepted %s: %+v", place.Verifier, place.Signer, w)
			}
			if len(w.groups) > 0 && seen[place.Signer] {
				t.Fatalf("%s counts twice: %+v", place.Signer, w)
			}
			seen[place.Signer] = true
		}
		if (d.Verdict == policy.Satisfied) != (len(d.Places) > 0) {
			t.Fatalf("verdict %v with places %v", d.Verdict, d.Places)
		}
	})
}

// No policy keeps a verification busy: one that has too many ways stays open.
func TestTheSearchIsBounded(t *testing.T) {
	var verifiers []string
	var groups []policy.Group
	evidence := map[string]policy.Evidence{}
	for i := range policy.MaxVerifiers {
		name := fmt.Sprintf("v%d", i)
		verifiers = append(verifiers, name)
		evidence[name] = policy.Evidence{Signers: []string{fmt.Sprintf("s%d", i%11), fmt.Sprintf("s%d", i%7)}}
	}
	var tops []string
	for i := range policy.MaxGroups - 1 {
		name := fmt.Sprintf("g%d", i)
		groups = append(groups, group(name, 4, verifiers[i%9:i%9+24]...))
		tops = append(tops, name)
	}
	groups = append(groups, group("last", 20, tops...))
	p, err := policy.Compile(verifiers, append(groups[:0:0], groups...))
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Decide(evidence); got.Verdict != policy.Open {
		t.Errorf("got %v for what was not searched to its end, want Open", got.Verdict)
	}
}
