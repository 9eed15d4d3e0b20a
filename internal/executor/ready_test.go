package executor

import (
	"context"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Who is judged by the cluster's Executors alone waits for no tenant's, and no tenant for another's; of the one that is
// awaited nothing is concluded.
func TestNoNamespaceWaitsForAnother(t *testing.T) {
	live, clock := newTestLive()
	app := ref(t, "a.test/app:1")
	states := func(when string, cluster, slow, quick, none State) {
		t.Helper()
		for name, c := range map[string]struct{ got, want State }{
			"the cluster":             {live.Match(app, "").State, cluster},
			"slow":                    {live.Match(app, "slow").State, slow},
			"slow's own":              {live.MatchOwn(app, "slow").State, slow},
			"whether slow has any":    {min(live.HasOwn("slow"), Unmatched), min(slow, Unmatched)},
			"quick":                   {live.Match(app, "quick").State, max(quick, cluster)},
			"quick's own":             {live.MatchOwn(app, "quick").State, quick},
			"who has none":            {live.Match(app, "none").State, max(none, cluster)},
			"whether none has any":    {live.HasOwn("none"), none},
			"who has none, by itself": {live.MatchOwn(app, "none").State, none},
		} {
			if c.got != c.want {
				t.Errorf("%s: %s is in state %d, want %d", when, name, c.got, c.want)
			}
		}
	}
	states("before the list", NotReady, NotReady, NotReady, NotReady)
	live.Expect([]types.NamespacedName{named("a"), named("b"), named("slow/s"), named("slow/t"), named("quick/q")})
	live.Put(serve(t, "quick/q", "a.test/*"))
	live.Put(serve(t, "a", "b.test/*"))
	if m := live.Match(app, "quick"); m.State != NotReady {
		t.Errorf("a namespace is judged before the cluster's Executors are known: %d", m.State)
	}
	if ok, awaited := live.Attempted("quick"); ok || awaited != "not compiled yet: Executor b" {
		t.Errorf("awaited for quick: %t %q", ok, awaited)
	}
	live.Put(serve(t, "b", "b.test/*"))
	live.Put(serve(t, "slow/s", "b.test/*"))
	states("with the cluster's and quick's", Unmatched, NotReady, Matched, Unmatched)
	if ok, _ := live.Attempted(""); !ok {
		t.Error("the cluster's are not said to have been attempted")
	}
	const awaited = "not compiled yet: NamespacedExecutor slow/t"
	if ok, why := live.Attempted("slow"); ok || why != awaited {
		t.Errorf("awaited for slow: %t %q", ok, why)
	}
	// The replica is not called ready at once, nor kept from it by one tenant for long.
	if ok, why := live.Ready(); ok || why != awaited {
		t.Errorf("ready at once: %t %q", ok, why)
	}
	clock.Step(tenantPatience)
	if ok, why := live.Ready(); !ok {
		t.Errorf("not ready after %s: %s", tenantPatience, why)
	}
	states("after a while", Unmatched, NotReady, Matched, Unmatched)
	live.Remove(named("slow/t"))
	states("with all", Unmatched, Unmatched, Matched, Unmatched)
}

// Without the cluster's own a replica is not ready, however long that takes.
func TestAReplicaWaitsForTheClustersExecutors(t *testing.T) {
	live, clock := newTestLive()
	live.Expect([]types.NamespacedName{named("a"), named("ns/b")})
	live.Put(serve(t, "ns/b", "*"))
	clock.Step(10 * tenantPatience)
	if ok, why := live.Ready(); ok || why != "not compiled yet: Executor a" {
		t.Errorf("%t %q", ok, why)
	}
	live.Put(serve(t, "a", "*").unbuilt())
	if ok, why := live.Ready(); !ok {
		t.Errorf("not ready: %s", why)
	}
}

// Everybody who was told that nobody can tell is woken when somebody can: those of a namespace, or of the cluster.
func TestTheLastAttemptWakesThoseWhoWait(t *testing.T) {
	live, _ := newTestLive()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	var told []string
	if err := live.Changes(func(_ context.Context, c Change) []reconcile.Request {
		if c.Name.Name == "" && c.Concerns(ref(t, "any.test/app:1")) {
			told = append(told, c.Name.Namespace+"/")
		}
		return nil
	}).Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	expect := func(what, want string, do func()) {
		t.Helper()
		told = nil
		do()
		if got := strings.Join(slices.Sorted(slices.Values(told)), " "); got != want {
			t.Errorf("%s tells %q, want %q", what, got, want)
		}
	}
	expect("the list", "", func() {
		live.Expect([]types.NamespacedName{named("a"), named("x/a"), named("x/b"), named("y/a")})
	})
	expect("one of two", "", func() { live.Put(serve(t, "x/a", "*")) })
	expect("the last of a namespace", "x/", func() { live.Remove(named("x/b")) })
	expect("the last of the cluster", "/", func() { live.Put(serve(t, "a", "*")) })
	expect("the same again", "", func() { live.Put(serve(t, "a", "*")) })
	expect("the last of all", "y/", func() { live.Put(serve(t, "y/a", "*")) })
	expect("a new one", "", func() { live.Put(serve(t, "z/a", "*")) })
}
