package executor

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"context"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/inprocess"
)

// testimony is a witness of a set with one Executor of the cluster and one of a tenant, before an API server whose objects a
// test changes.
type testimony struct {
	*bench
	*Witness
	now    *clocktesting.FakeClock
	names  *strings.Replacer // of what the API server calls otherwise each time
	all    *v1alpha1.Executor
	reads  atomic.Int64
	broken error
}

func newTestimony(t *testing.T) *testimony {
	t.Helper()
	live, now := newTestLive()
	live.Expect(nil)
	w := &testimony{bench: newBench(t), now: now}
	w.Witness = NewWitness(live, interceptor.NewClient(inprocess.Client(t, shared.Config), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if w.reads.Add(1); w.broken != nil {
				return w.broken
			}
			return c.Get(ctx, key, object, options...)
		},
	}), w.bench.namespace, 1000, now)
	spec := byKeys("a.test/*", "keys/a", "missing/a")
	w.all = w.executor(spec)
	own := &v1alpha1.NamespacedExecutor{ObjectMeta: metav1.ObjectMeta{Namespace: w.tenant, Name: "own"}, Spec: v1alpha1.NamespacedExecutorSpec{VerificationSpec: spec}}
	w.create(own)
	w.names = strings.NewReplacer("{all}", w.all.Name, "{gatehouse}", w.bench.namespace, "{tenant}", w.tenant)
	for _, e := range []client.Object{w.all, own} {
		namespace := e.GetNamespace()
		if namespace == "" {
			namespace = w.bench.namespace
		}
		key := newKey(t)
		w.secret(namespace, "keys", map[string]string{"a": key, "other": "x"})
		built := common(e).Spec
		material := Material{{Secret, "keys"}: {Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"a": []byte(key)}}}
		compiled, err := Compile(e.GetName(), &built, material, "", tools())
		if err != nil {
			t.Fatal(err)
		}
		scopes, err := ParseScopes(built.Scopes)
		if err != nil {
			t.Fatal(err)
		}
		live.Put(&Served{Name: client.ObjectKeyFromObject(e), UID: e.GetUID(), Scopes: scopes, Mode: v1alpha1.ModeEnforce, Generation: 1, Attempted: e.GetGeneration(), Compiled: compiled})
	}
	return w
}

func (w *testimony) match(namespace string) Match {
	return w.live.Match(ref(w, "a.test/app:1"), namespace)
}

// says demands why nothing may move by a match; nothing if it may.
func (w *testimony) says(want string, within time.Duration, by Match) {
	w.Helper()
	want = w.names.Replace(want)
	why, err := w.Confirm(w.Context(), within, by)
	if err != nil || (why == "") != (want == "") || !strings.Contains(why, want) {
		w.Errorf("it says %q (%v), want %q", why, err, want)
	}
}

// Whatever a verdict rests on is asked for: who judges, in which generation, and with what.
func TestAVerdictRestsOnWhatThereIs(t *testing.T) {
	secret := func(namespace string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "keys"}}
	}
	another := func(namespace string) *v1alpha1.NamespacedExecutor {
		return &v1alpha1.NamespacedExecutor{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "new"}, Spec: v1alpha1.NamespacedExecutorSpec{VerificationSpec: byKeys("b.test/*", "keys/a")}}
	}
	for _, test := range []struct {
		name    string
		change  func(w *testimony)
		cluster string // why nothing may move by the cluster's Executors
		tenant  string // and by those of the tenant's namespace
	}{
		{"nothing", func(*testimony) {}, "", ""},
		{"a key that is replaced", func(w *testimony) {
			edit(w.bench, secret(w.bench.namespace), func(s *corev1.Secret) { s.Data["a"] = []byte(newKey(w)) })
		}, "Executor {all}: Secret {gatehouse}/keys has changed", ""},
		{"a Secret that is deleted", func(w *testimony) {
			w.delete(secret(w.bench.namespace))
		}, "Executor {all}: Secret {gatehouse}/keys has changed", ""},
		{"a Secret that was missing", func(w *testimony) {
			w.secret(w.bench.namespace, "missing", nil)
		}, "Executor {all}: Secret {gatehouse}/missing has changed", ""},
		{"what no Executor names", func(w *testimony) {
			edit(w.bench, secret(w.bench.namespace), func(s *corev1.Secret) { s.Data["other"], s.Labels = []byte("y"), map[string]string{"a": "b"} })
		}, "", ""},
		{"a key of the tenant's", func(w *testimony) {
			edit(w.bench, secret(w.tenant), func(s *corev1.Secret) { s.Data["a"] = []byte(newKey(w)) })
		}, "", "NamespacedExecutor {tenant}/own: Secret {tenant}/keys has changed"},
		{"an Executor that is not seen yet", func(w *testimony) { w.executor(byKeys("b.test/*", "keys/a")) }, " is not compiled yet", ""},
		{"one of the tenant's", func(w *testimony) { w.create(another(w.tenant)) }, "", "NamespacedExecutor {tenant}/new is not compiled yet"},
		{"one of somebody else's", func(w *testimony) { w.create(another(w.bench.namespace)) }, "", ""},
		{"an edit that is not seen yet", func(w *testimony) {
			edit(w.bench, w.all, func(e *v1alpha1.Executor) { e.Spec.Scopes = []v1alpha1.Scope{"a.test/app"} })
		}, "Executor {all} is not compiled yet", ""},
		{"an Executor that is gone", func(w *testimony) { w.delete(w.all) }, "Executor {all} is gone", ""},
		{"an Executor that is made anew", func(w *testimony) {
			w.delete(w.all)
			w.create(&v1alpha1.Executor{ObjectMeta: metav1.ObjectMeta{Name: w.all.Name}, Spec: w.all.Spec})
		}, "Executor {all} is not compiled yet", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newTestimony(t)
			own := w.live.MatchOwn(ref(t, "a.test/app:1"), w.tenant)
			w.says("", 0, w.match(w.tenant))
			test.change(w)
			w.says(test.cluster, 0, w.match(""))
			w.says(test.tenant, 0, own)
			if test.cluster == "" {
				w.says(test.tenant, 0, w.match(w.tenant))
			}
		})
	}
}

// A verdict by a build that has been replaced meanwhile is none.
func TestAVerdictOfAWhileAgoIsNotConfirmed(t *testing.T) {
	w := newTestimony(t)
	before := w.match("")
	e := w.executor(byKeys("a.test/app", "keys/a"))
	narrower := serve(t, e.Name, "a.test/app")
	narrower.UID, narrower.Attempted = e.UID, e.Generation
	w.live.Put(narrower)
	w.says("have changed meanwhile", 0, before)
}

// A build that stands in for a spec that does not compile is of the spec that was good last, whoever has built that; and the
// present one does not compile still.
func TestAVerdictRestsOnTheSpecThatWasGoodLast(t *testing.T) {
	w := newTestimony(t)
	if err := w.bench.client.Get(t.Context(), client.ObjectKeyFromObject(w.all), w.all); err != nil {
		t.Fatal(err)
	}
	served := *w.live.Served(client.ObjectKeyFromObject(w.all))
	of := fromCluster(w.all)
	h := &history{namespace: w.bench.namespace}
	for generation := range int64(3) {
		of.Generation = generation + 1
		w.create(h.revision(of))
	}
	present := byKeys("a.test/*", "later/a")
	stands := served
	stands.Generation, stands.Attempted = 2, 4
	stands.instead = &v1alpha1.ExecutorSpec{VerificationSpec: present}
	stands.insteadKey = fingerprint(stands.instead, Material{})
	w.live.Put(&stands)
	w.says("Executor {all}: generation 3, which was good last, is not compiled yet", 0, w.match(""))
	stands.Generation = 3
	w.live.Put(&stands)
	w.says("", 0, w.match(""))
	w.secret(w.bench.namespace, "later", map[string]string{"a": newKey(t)})
	w.says("Executor {all}: what generation 4 names has changed since it did not compile", 0, w.match(""))
}

// What was confirmed is believed for as long as the caller says, and what was not is asked for again.
func TestWhatWasConfirmedLatelyIsBelieved(t *testing.T) {
	w := newTestimony(t)
	by := w.match("")
	w.says("", 0, by)
	asked := w.reads.Load()
	w.now.Step(Lately - time.Second)
	w.says("", Lately, by)
	if now := w.reads.Load(); now != asked {
		t.Errorf("%d reads more within %s", now-asked, Lately)
	}
	w.broken = errors.New("no answer")
	w.says("cannot be read", 0, by)
	w.now.Step(time.Second)
	w.says("cannot be read", Lately, by)
	// What is known not to be readable is as it was, for as long as the build may serve.
	kept := *w.live.Served(client.ObjectKeyFromObject(w.all))
	kept.Expires = w.now.Now().Add(time.Hour)
	w.live.Put(&kept)
	w.says("", Lately, w.match(""))
}

// A tenant who has used up its share keeps no gateway's pass waiting for it.
func TestATenantWithoutAShareIsNotAskedFor(t *testing.T) {
	w := newTestimony(t)
	w.reader.shares = newShares(0.01)
	w.reader.shares.limiter(w.tenant).AllowN(time.Now(), readsAtFirst)
	w.says("more than its share is read for namespace {tenant}", Lately, w.match(w.tenant))
	w.says("", Lately, w.match(""))
}
