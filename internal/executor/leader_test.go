package executor

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/inprocess"
)

// Several replicas serve the same, one of them writes, and once all is said nobody does: not at rest, not when replicas
// come and go, not when somebody touches an Executor.
func TestOnlyTheLeaderWritesAndOnlyWhatDiffers(t *testing.T) {
	b := newBench(t)
	b.secret(b.namespace, "keys", map[string]string{"a": newKey(t)})
	good, bad := b.executor(byKeys("a.test/*", "keys/a")), b.executor(byKeys("b.test/*", "nowhere/a"))
	replicas := []*replica{b.start(setup{elect: true}), b.start(setup{elect: true}), b.start(setup{elect: true})}
	for _, r := range replicas {
		r.serves(client.ObjectKeyFromObject(good), generation(1))
		r.serves(client.ObjectKeyFromObject(bad), unbuilt("not found"))
	}
	b.stored(good, 1)
	for _, r := range replicas {
		r.quiet()
	}
	mark := b.mark()
	edit(b, good, func(e *v1alpha1.Executor) {
		e.Annotations = map[string]string{v1alpha1.AnnotationReconcileRequestedAt: "now"}
	})
	fourth := b.start(setup{elect: true})
	fourth.quiet()
	replicas[1].stop()
	for _, r := range []*replica{replicas[0], replicas[2]} {
		r.quiet()
	}
	if writes := b.writes(mark); len(writes) > 0 {
		t.Errorf("they wrote:\n%s", strings.Join(writes, "\n"))
	}
	// An edit costs a spec that is stored, and one that is deleted, however many replicas take it up.
	costs := func(what string, scope v1alpha1.Scope, stored int64) {
		t.Helper()
		mark := b.mark()
		edit(b, good, func(e *v1alpha1.Executor) { e.Spec.Scopes = []v1alpha1.Scope{scope} })
		fourth.says(good, succeeds)
		b.stored(good, stored)
		fourth.quiet()
		if writes := b.writes(mark); len(writes) != 2 {
			t.Errorf("%s cost:\n%s", what, strings.Join(writes, "\n"))
		}
	}
	costs("an edit with three replicas", "c.test/*", 2)
	replicas[0].stop()
	replicas[2].stop()
	costs("an edit with the last replica", "d.test/*", 3)
	if n := fourth.compiles(); n != 4 {
		t.Errorf("%v compilations of two Executors and two edits, want 4", n)
	}
}

// A stored spec of an Executor that went while nobody was there is swept by the next leader.
func TestTheNextLeaderSweepsWhatWasLeftBehind(t *testing.T) {
	b := newBench(t)
	b.secret(b.namespace, "keys", map[string]string{"a": newKey(t)})
	e := b.executor(byKeys("a.test/*", "keys/a"))
	r := b.start(setup{})
	r.says(e, succeeds)
	b.stored(e, 1)
	r.stop()
	b.delete(e)
	again := &v1alpha1.Executor{ObjectMeta: metav1.ObjectMeta{Name: e.Name}, Spec: *e.Spec.DeepCopy()}
	b.create(again)
	b.start(setup{}).says(again, succeeds)
	b.stored(e)
	b.stored(again, 1)
}

// A leader that was paused believes that an Executor is as it was, or gone. It has been created anew, and what another
// leader has stored of that stays.
func TestALeaderOfYesterdayDeletesNothingOfToday(t *testing.T) {
	b := newBench(t)
	b.secret(b.namespace, "keys", map[string]string{"a": newKey(t)})
	yesterday := b.executor(byKeys("a.test/*", "keys/a"))
	if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(yesterday), yesterday); err != nil {
		t.Fatal(err)
	}
	b.delete(yesterday)
	today := &v1alpha1.Executor{ObjectMeta: metav1.ObjectMeta{Name: yesterday.Name}, Spec: *yesterday.Spec.DeepCopy()}
	b.create(today)
	b.start(setup{}).says(today, succeeds)
	b.stored(today, 1)

	options := inprocess.Only(b.namespace, &appsv1.ControllerRevision{})
	options.Scheme = inprocess.Scheme()
	cached, err := cache.New(shared.Config, options)
	if err != nil {
		t.Fatal(err)
	}
	if err := addIndexes(t.Context(), cached); err != nil {
		t.Fatal(err)
	}
	go func() { _ = cached.Start(t.Context()) }()
	if !cached.WaitForCacheSync(t.Context()) {
		t.Fatal("the caches were not filled")
	}
	c, err := client.New(shared.Config, client.Options{Scheme: options.Scheme, Cache: &client.CacheOptions{Reader: cached}})
	if err != nil {
		t.Fatal(err)
	}
	old := &history{client: c, live: b.client, namespace: b.namespace}
	if err := old.keep(t.Context(), fromCluster(yesterday)); err != nil {
		t.Fatal(err)
	}
	b.stored(today, 1)
	if err := old.forget(t.Context(), client.ObjectKeyFromObject(yesterday)); err != nil {
		t.Fatal(err)
	}
	b.stored(today, 1)
	eventually.Succeeds(t, within, func() error {
		if err := old.forget(t.Context(), client.ObjectKeyFromObject(yesterday)); err != nil {
			return err
		}
		var left appsv1.ControllerRevisionList
		if err := b.client.List(t.Context(), &left, client.InNamespace(b.namespace)); err != nil || len(left.Items) != 1 {
			return fmt.Errorf("%d specs are stored, want today's alone: %v", len(left.Items), err)
		}
		return nil
	})
}

func (b *bench) mark() cluster.Mark {
	b.Helper()
	return inprocess.Mark(b, shared)
}

// writes lists what the replicas of the bench wrote, without events and the lease.
func (b *bench) writes(since cluster.Mark) []string {
	b.Helper()
	return inprocess.Lines(inprocess.Writes(b, shared, since, b.agent,
		cluster.Not(cluster.OfResource("events.k8s.io", "events")), cluster.Not(cluster.OfResource("", "events")),
		cluster.Not(cluster.OfResource("coordination.k8s.io", "leases"))))
}
