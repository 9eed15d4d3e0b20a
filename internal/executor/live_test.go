package executor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/image"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newTestLive() (*Live, *clocktesting.FakeClock) {
	c := clocktesting.NewFakeClock(start)
	return NewLive(c), c
}

func named(text string) types.NamespacedName {
	namespace, name, found := strings.Cut(text, "/")
	if !found {
		namespace, name = "", text
	}
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func ref(t testing.TB, text string) image.Reference {
	t.Helper()
	parsed, err := image.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// serve is an Executor with a build, in force.
func serve(t testing.TB, name string, scopes ...v1alpha1.Scope) *Served {
	t.Helper()
	parsed, err := ParseScopes(scopes)
	if err != nil {
		t.Fatal(err)
	}
	return &Served{
		Name: named(name), UID: types.UID(name), Scopes: parsed, Mode: v1alpha1.ModeEnforce, Tenancy: v1alpha1.TenancyAdd,
		Generation: 1, Compiled: &Compiled{inputs: name, key: name},
	}
}

func (s Served) audit() *Served      { s.Mode = v1alpha1.ModeAudit; return &s }
func (s Served) delegating() *Served { s.Tenancy = v1alpha1.TenancyDelegate; return &s }
func (s Served) unbuilt() *Served    { s.Compiled, s.Generation = nil, 0; return &s }

func who(all []*Served) string {
	var names []string
	for _, s := range all {
		names = append(names, strings.TrimPrefix(s.Name.String(), "/"))
	}
	return strings.Join(names, " ")
}

func TestTheMostSpecificScopeWins(t *testing.T) {
	live, _ := newTestLive()
	live.Expect(nil)
	for _, s := range []*Served{
		serve(t, "all", "*"),
		serve(t, "domain", "*.example.com"),
		serve(t, "narrow-domain", "*.eu.example.com"),
		serve(t, "registry", "r.eu.example.com/*"),
		serve(t, "team", "r.eu.example.com/team/*"),
		serve(t, "app", "r.eu.example.com/team/app"),
		serve(t, "port", "r.eu.example.com:5000/*"),
		serve(t, "hub", "docker.io/library/*"),
		serve(t, "several", "several.test/a/*", "*"),
	} {
		live.Put(s)
	}
	for image, want := range map[string]string{
		"r.eu.example.com/team/app:1":      "app",
		"R.eu.example.com:443/team/app:1":  "app",
		"r.eu.example.com/team/app/x:1":    "team",
		"r.eu.example.com/team-b/app:1":    "registry",
		"r.eu.example.com:5000/team/app:1": "port",
		"q.eu.example.com/team/app:1":      "narrow-domain",
		"q.example.com/team/app:1":         "domain",
		"example.com/team/app:1":           "all several",
		"nginx:1":                          "hub",
		"index.docker.io/library/nginx:1":  "hub",
		"bitnami/nginx:1":                  "all several",
		"several.test/a/b:1":               "several",
	} {
		m := live.Match(ref(t, image), "")
		if m.State != Matched || who(m.Enforced) != want || len(m.Audited) != 0 {
			t.Errorf("%s: state %d, %q, audited %q; want %q", image, m.State, who(m.Enforced), who(m.Audited), want)
		}
	}
}

// Nobody is unmatched before every Executor of the initial list has been attempted, whichever comes first, the list or
// the attempts.
func TestNothingIsUnmatchedBeforeTheInitialListIsAttempted(t *testing.T) {
	app := ref(t, "a.test/app:1")
	for _, order := range [][]string{{"list", "a", "b"}, {"a", "list", "b"}, {"a", "b", "list"}} {
		t.Run(strings.Join(order, " "), func(t *testing.T) {
			live, _ := newTestLive()
			for i, step := range order {
				if m := live.Match(app, ""); m.State != NotReady {
					t.Fatalf("before %s: %d, want not ready", step, m.State)
				}
				if ok, _ := live.Ready(); ok {
					t.Fatalf("before %s: ready", step)
				}
				switch step {
				case "list":
					live.Expect([]types.NamespacedName{named("a"), named("b")})
					if _, awaited := live.Ready(); i == 0 && awaited != "not compiled yet: Executor a, Executor b" {
						t.Errorf("awaited: %s", awaited)
					}
				case "a":
					live.Put(serve(t, "a", "b.test/*").unbuilt())
				case "b":
					live.Remove(named("b"))
				}
			}
			if ok, awaited := live.Ready(); !ok {
				t.Fatalf("not ready: %s", awaited)
			}
			if m := live.Match(app, ""); m.State != Unmatched {
				t.Errorf("%d, want unmatched", m.State)
			}
		})
	}
}

// A scope that matches without a build is matched: it cannot be decided, and is not unmatched.
func TestAScopeWithoutABuildIsMatched(t *testing.T) {
	live, _ := newTestLive()
	live.Expect(nil)
	live.Put(serve(t, "broken", "a.test/app").unbuilt())
	live.Put(serve(t, "all", "*"))
	m := live.Match(ref(t, "a.test/app:1"), "")
	if m.State != Matched || who(m.Enforced) != "broken" || m.Enforced[0].Compiled != nil {
		t.Errorf("%d %s", m.State, who(m.Enforced))
	}
}

func TestExecutorsOfAnEqualScopeMustAllPass(t *testing.T) {
	live, _ := newTestLive()
	live.Expect(nil)
	live.Put(serve(t, "b", "A.test:443/app"))
	live.Put(serve(t, "a", "a.test/app"))
	live.Put(serve(t, "wide", "a.test/*"))
	if m := live.Match(ref(t, "a.test/app:1"), ""); who(m.Enforced) != "a b" {
		t.Errorf("%s, want both", who(m.Enforced))
	}
	live.Remove(named("a"))
	live.Remove(named("b"))
	if m := live.Match(ref(t, "a.test/app:1"), ""); who(m.Enforced) != "wide" {
		t.Errorf("%s, want what is left at once", who(m.Enforced))
	}
}

// Audit satisfies nothing, and takes nobody's protection away.
func TestAuditIsMatchedApart(t *testing.T) {
	live, _ := newTestLive()
	live.Expect(nil)
	live.Put(serve(t, "watch", "a.test/app").audit())
	app := ref(t, "a.test/app:1")
	if m := live.Match(app, ""); m.State != Audited || who(m.Audited) != "watch" || len(m.Enforced) != 0 {
		t.Errorf("%d %s %s", m.State, who(m.Enforced), who(m.Audited))
	}
	live.Put(serve(t, "guard", "*"))
	live.Put(serve(t, "watch-all", "*").audit())
	if m := live.Match(app, ""); m.State != Matched || who(m.Enforced) != "guard" || who(m.Audited) != "watch" {
		t.Errorf("%d %s %s", m.State, who(m.Enforced), who(m.Audited))
	}
}

func TestTenancy(t *testing.T) {
	app := ref(t, "a.test/app:1")
	tests := []struct {
		name    string
		served  []*Served
		want    string
		audited string
		state   State
	}{
		{"none", nil, "", "", Unmatched},
		{"the cluster's alone", []*Served{serve(t, "c", "*")}, "c", "", Matched},
		{"the tenant's alone", []*Served{serve(t, "ns/t", "*")}, "ns/t", "", Matched},
		{"another tenant's", []*Served{serve(t, "other/t", "*")}, "", "", Unmatched},
		{"the tenant's adds", []*Served{serve(t, "c", "*"), serve(t, "ns/t", "*")}, "c ns/t", "", Matched},
		{"a less specific one adds, too", []*Served{serve(t, "c", "a.test/app"), serve(t, "ns/t", "*")}, "c ns/t", "", Matched},
		{"the tenant's replaces", []*Served{serve(t, "c", "*").delegating(), serve(t, "ns/t", "*")}, "ns/t", "", Matched},
		{"nobody is there to replace", []*Served{serve(t, "c", "*").delegating(), serve(t, "ns/t", "b.test/*")}, "c", "", Matched},
		{"one of two delegates", []*Served{serve(t, "c", "*"), serve(t, "d", "*").delegating(), serve(t, "ns/t", "*")}, "c ns/t", "", Matched},
		{"an audit replaces nobody", []*Served{serve(t, "c", "*").delegating(), serve(t, "ns/t", "*").audit()}, "c", "ns/t", Matched},
		{"one without a build replaces, and denies", []*Served{serve(t, "c", "*").delegating(), serve(t, "ns/t", "*").unbuilt()}, "ns/t", "", Matched},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			live, _ := newTestLive()
			live.Expect(nil)
			for _, s := range test.served {
				live.Put(s)
			}
			m := live.Match(app, "ns")
			if m.State != test.state || who(m.Enforced) != test.want || who(m.Audited) != test.audited {
				t.Errorf("state %d, %q, audited %q; want %d, %q, %q", m.State, who(m.Enforced), who(m.Audited), test.state, test.want, test.audited)
			}
		})
	}
}

// What could not be read for maxStale serves no longer, though nobody has told the set.
func TestABuildExpires(t *testing.T) {
	live, clock := newTestLive()
	live.Expect(nil)
	s := serve(t, "a", "*")
	s.Expires = start.Add(time.Hour)
	live.Put(s)
	app := ref(t, "a.test/app:1")
	clock.Step(time.Hour - time.Second)
	before := live.Match(app, "")
	if before.Enforced[0].Compiled == nil {
		t.Error("expired too early")
	}
	clock.Step(time.Second)
	after := live.Match(app, "")
	if after.State != Matched || after.Enforced[0].Compiled != nil || !strings.Contains(after.Enforced[0].Problem, "maxStale") {
		t.Errorf("%+v still serves", after.Enforced[0])
	}
	if before.Key() == after.Key() {
		t.Error("what was said before holds after")
	}
	if s.Compiled == nil {
		t.Error("the shared value was changed")
	}
}

// A verdict may be kept as long as the key of its match is the same.
func TestTheKeyChangesWithWhoJudges(t *testing.T) {
	live, _ := newTestLive()
	live.Expect(nil)
	app := ref(t, "a.test/app:1")
	seen := map[string]string{}
	step := func(name string, change func()) {
		t.Helper()
		change()
		key := live.Match(app, "").Key()
		if earlier, ok := seen[key]; ok {
			t.Errorf("%s has the key of %s", name, earlier)
		}
		seen[key] = name
	}
	step("nobody", func() {})
	step("one", func() { live.Put(serve(t, "a", "*")) })
	step("other trust", func() { s := serve(t, "a", "*"); s.Compiled = &Compiled{inputs: "new", key: "new"}; live.Put(s) })
	step("another generation", func() { s := serve(t, "a", "*"); s.Generation = 2; live.Put(s) })
	step("created anew", func() { s := serve(t, "a", "*"); s.UID = "new"; live.Put(s) })
	step("no build", func() { live.Put(serve(t, "a", "*").unbuilt()) })
	step("in audit", func() { live.Put(serve(t, "a", "*").audit()) })
	step("a narrower one", func() { live.Put(serve(t, "b", "a.test/*")) })
	before := live.Match(app, "").Key()
	live.Put(serve(t, "c", "c.test/*"))
	if after := live.Match(app, "").Key(); after != before {
		t.Error("an Executor that does not concern it changes the key")
	}
}

// Whoever depends on a scope is woken by what happens in it, before and after, and by nothing else.
func TestChangesWakeWhoIsConcerned(t *testing.T) {
	live, _ := newTestLive()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	interests := map[string]image.Reference{"a": ref(t, "a.test/app:1"), "b": ref(t, "b.test/app:1")}
	source := live.Changes(func(_ context.Context, change Change) []reconcile.Request {
		var woken []reconcile.Request
		for name, ref := range interests {
			if change.Concerns(ref) {
				woken = append(woken, reconcile.Request{NamespacedName: named(name)})
			}
		}
		return woken
	})
	if err := source.Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	expect := func(what, want string, change func()) {
		t.Helper()
		change()
		var woken []string
		for queue.Len() > 0 {
			request, _ := queue.Get()
			queue.Done(request)
			woken = append(woken, request.Name)
		}
		slices.Sort(woken)
		if got := strings.Join(woken, " "); got != want {
			t.Errorf("%s wakes %q, want %q", what, got, want)
		}
	}
	expect("being ready", "a b", func() { live.Expect(nil) })
	expect("a new one", "a", func() { live.Put(serve(t, "x", "a.test/*")) })
	again := serve(t, "x", "a.test/*")
	again.Compiled = live.Served(named("x")).Compiled
	expect("the same again", "", func() { live.Put(again) })
	expect("a new build", "a", func() { live.Put(serve(t, "x", "a.test/*")) })
	expect("a scope that moves", "a b", func() { live.Put(serve(t, "x", "b.test/*")) })
	expect("a scope of nobody", "", func() { live.Put(serve(t, "y", "c.test/*")) })
	expect("a removal", "b", func() { live.Remove(named("x")) })
	expect("removing nothing", "", func() { live.Remove(named("x")) })
}

// Lookups and changes run side by side; a lookup sees one set or the other.
func TestLookupsRunBesideChanges(t *testing.T) {
	live, _ := newTestLive()
	live.Put(serve(t, "all", "*"))
	live.Expect(nil)
	app := ref(t, "a.test/app:1")
	var group sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if m := live.Match(app, "ns"); m.State != Matched || len(m.Enforced) == 0 {
					t.Errorf("state %d, %s", m.State, who(m.Enforced))
					return
				}
			}
		})
	}
	for i := range 200 {
		name := fmt.Sprintf("e%d", i%10)
		live.Put(serve(t, name, "a.test/*", "b.test/*"))
		if i%3 == 0 {
			live.Remove(named(name))
		}
	}
	close(stop)
	group.Wait()
}

func BenchmarkMatch(b *testing.B) {
	live, _ := newTestLive()
	for i := range 200 {
		live.Put(serve(b, fmt.Sprintf("e%d", i), v1alpha1.Scope(fmt.Sprintf("r%d.example.com/team/*", i)), v1alpha1.Scope(fmt.Sprintf("*.d%d.example.com", i))))
	}
	live.Expect(nil)
	app := ref(b, "r77.example.com/team/a/b/c:1")
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			live.Match(app, "ns")
		}
	})
}

// A namespace's own judge apart from the cluster's, whatever those delegate.
func TestANamespacesOwn(t *testing.T) {
	app := ref(t, "a.test/app:1")
	live, _ := newTestLive()
	if state := live.HasOwn("ns"); state != NotReady {
		t.Errorf("before the initial list is attempted: %d, want not ready", state)
	}
	if m := live.MatchOwn(app, "ns"); m.State != NotReady {
		t.Errorf("before the initial list is attempted: %d, want not ready", m.State)
	}
	live.Expect(nil)
	live.Put(serve(t, "c", "*"))
	live.Put(serve(t, "d", "a.test/app").delegating())
	if state := live.HasOwn("ns"); state != Unmatched || live.MatchOwn(app, "ns").State != Unmatched {
		t.Errorf("without any: %d", state)
	}
	live.Put(serve(t, "ns/other", "b.test/*"))
	if state := live.HasOwn("ns"); state != Matched || live.MatchOwn(app, "ns").State != Unmatched {
		t.Errorf("with one of another scope: %d", state)
	}
	live.Put(serve(t, "ns/watch", "a.test/*").audit())
	if m := live.MatchOwn(app, "ns"); m.State != Audited {
		t.Errorf("with one that audits: %d", m.State)
	}
	live.Put(serve(t, "ns/own", "a.test/*"))
	m := live.MatchOwn(app, "ns")
	if m.State != Matched || who(m.Enforced) != "ns/own" || who(m.Audited) != "ns/watch" {
		t.Errorf("%d %s %s", m.State, who(m.Enforced), who(m.Audited))
	}
}
