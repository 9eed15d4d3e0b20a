package executor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/outcome"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
)

func TestAnExecutorServes(t *testing.T) {
	b := newBench(t)
	b.secret(b.namespace, "keys", map[string]string{"a": newKey(t)})
	e := b.executor(byKeys("a.test/*", "keys/a"))
	r := b.start(setup{})
	served := r.serves(client.ObjectKeyFromObject(e), generation(1))
	r.says(e, succeeds)
	if m := r.live.Match(ref(t, "a.test/app:1"), ""); m.State != Matched || m.Enforced[0] != served {
		t.Errorf("%+v", m)
	}
	b.delete(e)
	eventually.Succeeds(t, within, func() error {
		if m := r.live.Match(ref(t, "a.test/app:1"), ""); m.State != Unmatched {
			return fmt.Errorf("still matched by %s", who(m.Enforced))
		}
		return nil
	})
}

// A broken Executor among twenty: the others are compiled once and never again, and what changes is compiled alone.
func TestABrokenExecutorConcernsNobodyElse(t *testing.T) {
	b := newBench(t)
	shared := b.secret(b.namespace, "shared", map[string]string{"a": newKey(t)})
	var all []*v1alpha1.Executor
	for i := range 20 {
		spec := byKeys(fmt.Sprintf("r%d.test/*", i), "shared/a")
		if i >= 2 {
			spec.Verifiers[0].Cosign.Keys[0].PEMSource = v1alpha1.PEMSource{Material: v1alpha1.Material{Inline: newKey(t)}}
		}
		all = append(all, b.executor(spec))
	}
	r := b.start(setup{})
	for _, e := range all {
		r.serves(client.ObjectKeyFromObject(e), generation(1))
	}
	r.quiet()
	if n := r.compiles(); n != 20 {
		t.Fatalf("%v compilations of 20 Executors", n)
	}
	builds := func() map[string]*Compiled {
		found := map[string]*Compiled{}
		for _, e := range all {
			found[e.Name] = r.live.Served(client.ObjectKeyFromObject(e)).Compiled
		}
		return found
	}
	before := builds()

	edit(b, all[19], func(e *v1alpha1.Executor) {
		e.Spec.Verifiers[0].Cosign.Keys[0].Inline = "-----BEGIN PUBLIC KEY-----\nbroken\n-----END PUBLIC KEY-----"
	})
	r.says(all[19], fails(v1alpha1.ReasonInvalidSpec, "verifier builders: key k1", "generation 1 goes on serving"))
	edit(b, all[5], func(e *v1alpha1.Executor) { e.Spec.Scopes = []v1alpha1.Scope{"other.test/*"} })
	r.serves(client.ObjectKeyFromObject(all[5]), generation(2))
	r.quiet()
	if n := r.compiles(); n != 22 {
		t.Errorf("%v compilations after two edits, want 22", n)
	}
	edit(b, shared, func(s *corev1.Secret) { s.Data["a"] = []byte(newKey(t)) })
	eventually.Succeeds(t, within, func() error {
		if n := r.compiles(); n != 24 {
			return fmt.Errorf("%v compilations after a key of two was rotated, want 24", n)
		}
		return nil
	})
	r.quiet()
	for name, compiled := range builds() {
		changed := name == all[0].Name || name == all[1].Name || name == all[5].Name
		if (compiled != before[name]) != changed {
			t.Errorf("%s: rebuilt %t, want %t", name, compiled != before[name], changed)
		}
	}
	if n := r.compiles(); n != 24 {
		t.Errorf("%v compilations, want 24", n)
	}
}

// A spec that does not build leaves the last good one serving, also in a replica that starts meanwhile.
func TestTheLastGoodSpecGoesOnServing(t *testing.T) {
	for _, test := range []struct {
		name     string
		reason   string
		breaking func(*v1alpha1.Executor)
	}{
		{"a spec that is malformed", v1alpha1.ReasonInvalidSpec, func(e *v1alpha1.Executor) {
			e.Spec.Verifiers[0].Cosign.Keys[0].PEMSource = v1alpha1.PEMSource{Material: v1alpha1.Material{Inline: "-----BEGIN nothing"}}
		}},
		{"a spec that names what is not there", v1alpha1.ReasonMaterialMissing, func(e *v1alpha1.Executor) { e.Spec.Verifiers[0].Cosign.Keys[0].SecretRef.Name = "nowhere" }},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t)
			keys := b.secret(b.namespace, "keys", map[string]string{"a": newKey(t), "b": newKey(t)})
			e := b.executor(byKeys("a.test/*", "keys/a"))
			first := b.start(setup{})
			first.serves(client.ObjectKeyFromObject(e), generation(1))
			first.says(e, succeeds)
			b.stored(e, 1)

			edit(b, e, func(e *v1alpha1.Executor) {
				test.breaking(e)
				e.Spec.Scopes = append(e.Spec.Scopes, "new.test/*")
			})
			first.says(e, fails(test.reason, "verifier builders: key k1", "generation 1 goes on serving; images that it did not have in scope cannot be decided"))
			if served := first.serves(client.ObjectKeyFromObject(e), generation(1)); served.Attempted != e.Generation {
				t.Errorf("generation %d was last attempted, want %d", served.Attempted, e.Generation)
			}
			// Scopes are those of the spec, whether it is built or not; and what served before was never to judge the new one.
			if m := first.live.Match(ref(t, "new.test/app:1"), ""); m.State != Matched || m.Enforced[0].Compiled != nil ||
				!strings.Contains(m.Enforced[0].Problem, "generation 1, which serves, does not have it in scope, and the present one is not compiled: verifier builders: key k1") {
				t.Errorf("a new scope: state %d, %+v", m.State, m.Enforced[0])
			}
			if m := first.live.Match(ref(t, "a.test/app:1"), ""); m.State != Matched || m.Enforced[0].Compiled == nil {
				t.Errorf("the old scope: state %d, %+v", m.State, m.Enforced[0])
			}
			second := b.start(setup{})
			served := second.serves(client.ObjectKeyFromObject(e), generation(1))
			if a, b := served.Compiled.Inputs(), first.live.Served(client.ObjectKeyFromObject(e)).Compiled.Inputs(); a != b {
				t.Errorf("the new replica serves inputs %s, the old one %s", a, b)
			}
			// What it trusts follows the last good spec meanwhile.
			edit(b, keys, func(s *corev1.Secret) { s.Data["a"] = []byte(newKey(t)) })
			for _, r := range []*replica{first, second} {
				r.serves(client.ObjectKeyFromObject(e), func(s *Served) error {
					if s.Compiled == nil || s.Compiled.Inputs() == served.Compiled.Inputs() {
						return errors.New("the rotated key is not served")
					}
					return generation(1)(s)
				})
			}
			second.stop()

			edit(b, e, func(e *v1alpha1.Executor) {
				e.Spec.Verifiers[0].Cosign.Keys[0].PEMSource = v1alpha1.PEMSource{Material: v1alpha1.Material{SecretRef: &v1alpha1.KeyReference{Name: "keys", Key: "b"}}}
			})
			first.says(e, succeeds)
			first.serves(client.ObjectKeyFromObject(e), generation(3))
			b.stored(e, 3)
			b.delete(e)
			b.stored(e)
		})
	}
}

// gated stands before the Secrets of a replica, and answers nobody who asks while it is shut.
type gated struct {
	client.Reader
	gate *sync.RWMutex
}

func (g gated) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	g.gate.RLock()
	defer g.gate.RUnlock()
	return g.Reader.Get(ctx, key, object, options...)
}

// A replica that has not seen every spec serves what was good last all the same, and not what it saw last: a key that the
// spec in between took away vouches for nothing there.
func TestTheLastGoodSpecIsServedByThoseWhoHaveNotSeenIt(t *testing.T) {
	b := newBench(t)
	b.secret(b.namespace, "keys", map[string]string{"a": newKey(t), "b": newKey(t)})
	e := b.executor(byKeys("a.test/*", "keys/a"))
	name := client.ObjectKeyFromObject(e)
	leader := b.start(setup{})
	leader.says(e, succeeds)
	gate := &sync.RWMutex{}
	other := b.start(setup{elect: true, reader: func(next client.Reader) client.Reader { return gated{next, gate} }})
	other.serves(name, generation(1))
	other.quiet()

	passed := other.value("gatehouse_reconcile_total")
	gate.Lock()
	edit(b, e, func(e *v1alpha1.Executor) {
		e.Annotations = map[string]string{v1alpha1.AnnotationReconcileRequestedAt: "now"}
	})
	leader.quiet() // by then the other is at the gate
	for _, key := range []string{"b", "nowhere"} {
		edit(b, e, func(e *v1alpha1.Executor) { e.Spec.Verifiers[0].Cosign.Keys[0].SecretRef.Key = key })
		leader.serves(name, func(s *Served) error {
			if s.Attempted != e.Generation {
				return fmt.Errorf("generation %d was attempted last", s.Attempted)
			}
			return generation(2)(s)
		})
	}
	b.stored(e, 2)
	if n := other.value("gatehouse_reconcile_total"); n != passed {
		t.Fatalf("the other has made %v passes meanwhile", n-passed)
	}
	gate.Unlock()
	other.says(e, fails(v1alpha1.ReasonMaterialMissing, "nowhere"))
	other.serves(name, generation(2))
}

// A replica that cannot read what a spec names, which another could, goes on with the spec before.
func TestWhatIsGoodElsewhereReplacesNothingWhileItIsUnread(t *testing.T) {
	b := newBench(t)
	b.secret(b.namespace, "keys", map[string]string{"a": newKey(t)})
	b.secret(b.namespace, "unread", map[string]string{"a": newKey(t)})
	e := b.executor(byKeys("a.test/*", "keys/a"))
	name := client.ObjectKeyFromObject(e)
	leader := b.start(setup{})
	leader.says(e, succeeds)
	away := &atomic.Bool{}
	other := b.start(setup{elect: true, reader: func(next client.Reader) client.Reader { return unreadable{next, away} }})
	other.serves(name, generation(1))
	other.quiet()
	away.Store(true)
	edit(b, e, func(e *v1alpha1.Executor) { e.Spec.Verifiers[0].Cosign.Keys[0].SecretRef.Name = "unread" })
	leader.says(e, succeeds)
	b.stored(e, 2)
	edit(b, e, func(e *v1alpha1.Executor) {
		e.Annotations = map[string]string{v1alpha1.AnnotationReconcileRequestedAt: "now"}
	})
	other.says(e, troubled(v1alpha1.ReasonUnreadable, "generation 1 goes on serving"))
	other.quiet()
	other.serves(name, generation(1))
	away.Store(false)
	other.serves(name, generation(2))
}

// While the present spec does not build, the one before serves no images more loosely than either says.
func TestTheLastGoodSpecLoosensNothing(t *testing.T) {
	const enforce, audit, add, delegate = v1alpha1.ModeEnforce, v1alpha1.ModeAudit, v1alpha1.TenancyAdd, v1alpha1.TenancyDelegate
	for _, test := range []struct {
		name             string
		good, broken     v1alpha1.Mode
		before, now      v1alpha1.Tenancy
		serves           int64
		mode             v1alpha1.Mode
		tenancy          v1alpha1.Tenancy
		state            State
		enforced, builds int
	}{
		{"enforce, then enforce", enforce, enforce, add, add, 1, enforce, add, Matched, 1, 1},
		{"enforce, then audit", enforce, audit, add, add, 1, enforce, add, Matched, 1, 1},
		{"audit, then audit", audit, audit, add, add, 1, audit, add, Audited, 0, 0},
		{"audit, then enforce", audit, enforce, add, add, 0, enforce, add, Matched, 1, 0},
		{"delegate, then add", enforce, enforce, delegate, add, 1, enforce, add, Matched, 1, 1},
		{"add, then delegate", enforce, enforce, add, delegate, 1, enforce, add, Matched, 1, 1},
		{"delegate, then delegate", enforce, enforce, delegate, delegate, 1, enforce, delegate, Matched, 1, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t)
			b.secret(b.namespace, "keys", map[string]string{"a": newKey(t)})
			spec := byKeys("a.test/*", "keys/a")
			spec.Mode = test.good
			e := &v1alpha1.Executor{ObjectMeta: metav1.ObjectMeta{GenerateName: "executor-"}, Spec: v1alpha1.ExecutorSpec{VerificationSpec: spec, Tenancy: test.before}}
			b.create(e)
			r := b.start(setup{})
			r.serves(client.ObjectKeyFromObject(e), generation(1))
			edit(b, e, func(e *v1alpha1.Executor) {
				e.Spec.Mode, e.Spec.Tenancy = test.broken, test.now
				e.Spec.Verifiers[0].Cosign.Keys[0].SecretRef.Name = "nowhere"
			})
			r.says(e, fails(v1alpha1.ReasonMaterialMissing, "nowhere"))
			served := r.serves(client.ObjectKeyFromObject(e), func(s *Served) error {
				if s.Attempted != e.Generation {
					return fmt.Errorf("generation %d was attempted last", s.Attempted)
				}
				return nil
			})
			if served.Generation != test.serves || served.Mode != test.mode || served.Tenancy != test.tenancy {
				t.Errorf("it serves generation %d, %s, %s", served.Generation, served.Mode, served.Tenancy)
			}
			m := r.live.Match(ref(t, "a.test/app:1"), "")
			builds := 0
			for _, s := range m.Enforced {
				if s.Compiled != nil {
					builds++
				}
			}
			if m.State != test.state || len(m.Enforced) != test.enforced || builds != test.builds {
				t.Errorf("state %d, %d enforce, %d by a build", m.State, len(m.Enforced), builds)
			}
		})
	}
}

// stored waits until exactly these generations of an Executor are stored.
func (b *bench) stored(e client.Object, generations ...int64) {
	b.Helper()
	eventually.Succeeds(b.T, within, func() error {
		found := &appsv1.ControllerRevisionList{}
		if err := b.client.List(b.Context(), found, client.InNamespace(b.namespace), client.MatchingLabels{v1alpha1.LabelExecutorUID: string(e.GetUID())}); err != nil {
			return err
		}
		var have []int64
		for _, r := range found.Items {
			have = append(have, r.Revision)
		}
		if fmt.Sprint(have) != fmt.Sprint(generations) {
			return fmt.Errorf("stored generations %v, want %v", have, generations)
		}
		return nil
	})
}

// Without a spec that ever built, images in scope cannot be decided; they are not unmatched.
func TestAnExecutorThatNeverBuiltDecidesNothing(t *testing.T) {
	b := newBench(t)
	e := b.executor(byKeys("a.test/*", "nowhere/a"))
	r := b.start(setup{})
	r.serves(client.ObjectKeyFromObject(e), unbuilt("Secret "+b.namespace+"/nowhere not found"))
	r.says(e, fails(v1alpha1.ReasonMaterialMissing, "nothing serves: images in scope cannot be decided"))
	if ok, awaited := r.live.Ready(); !ok {
		t.Errorf("not ready: %s", awaited)
	}
	if m := r.live.Match(ref(t, "a.test/app:1"), ""); m.State != Matched {
		t.Errorf("state %d, want matched", m.State)
	}
	b.secret(b.namespace, "nowhere", map[string]string{"a": newKey(t)})
	r.serves(client.ObjectKeyFromObject(e), generation(1))
	r.says(e, succeeds)
}

// Both of two Executors with an equal scope share it, and no longer when one of them gives it up.
func TestExecutorsShareAScope(t *testing.T) {
	b := newBench(t)
	b.secret(b.namespace, "keys", map[string]string{"a": newKey(t)})
	one, other := b.executor(byKeys("shared.test/app", "keys/a")), b.executor(byKeys("SHARED.test:443/app", "keys/a"))
	r := b.start(setup{})
	sharing := func(e, rival *v1alpha1.Executor) {
		t.Helper()
		eventually.Succeeds(t, within, func() error {
			message, err := Sharing(b.Context(), r.cached, e)
			if err != nil {
				return err
			}
			names, err := Sharers(b.Context(), r.cached, e)
			if err != nil {
				return err
			}
			if rival == nil && (message != "" || len(names) != 0) {
				return fmt.Errorf("shared with %v: %q", names, message)
			}
			if rival != nil && (len(names) != 1 || names[0].Name != rival.Name || !strings.Contains(message, "shared.test/app is a scope of "+rival.Name+" too; an image must pass all Executors")) {
				return fmt.Errorf("shared with %v: %q, want %s", names, message, rival.Name)
			}
			return nil
		})
	}
	sharing(one, other)
	sharing(other, one)
	r.serves(client.ObjectKeyFromObject(one), generation(1))
	r.serves(client.ObjectKeyFromObject(other), generation(1))
	if m := r.live.Match(ref(t, "shared.test/app:1"), ""); len(m.Enforced) != 2 {
		t.Errorf("%s must pass, want both", who(m.Enforced))
	}
	edit(b, one, func(e *v1alpha1.Executor) { e.Spec.Scopes = []v1alpha1.Scope{"alone.test/app"} })
	sharing(one, nil)
	sharing(other, nil)
}

// stuck stands before the Secrets of a replica, and never answers for those of a name.
type stuck struct {
	client.Reader
	name string
}

func (s stuck) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if key.Name == s.name {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.Reader.Get(ctx, key, object, options...)
}

// Executors whose Secret is never answered for keep nobody waiting, and the replica becomes ready without them.
func TestAnExecutorThatCannotBeReadDelaysNobody(t *testing.T) {
	b := newBench(t)
	for range 3 { // of 4 workers
		b.executor(byKeys("stuck.test/*", "stuck/a"))
	}
	r := b.start(setup{reader: func(next client.Reader) client.Reader { return stuck{next, "stuck"} }})
	began := time.Now()
	for i := range 10 {
		spec := byKeys(fmt.Sprintf("r%d.test/*", i), "none/a")
		spec.Verifiers[0].Cosign.Keys[0].Material = v1alpha1.Material{Inline: newKey(t)}
		r.serves(client.ObjectKeyFromObject(b.executor(spec)), generation(1))
	}
	if took := time.Since(began); took >= readDeadline {
		t.Errorf("the others took %s, as long as the stuck ones", took)
	}
	eventually.Succeeds(t, within, func() error {
		if ok, awaited := r.live.Ready(); !ok {
			return errors.New(awaited)
		}
		return nil
	})
	if m := r.live.Match(ref(t, "stuck.test/app:1"), ""); m.State != Matched || m.Enforced[0].Compiled != nil {
		t.Errorf("state %d, %+v", m.State, m.Enforced)
	}
}

// A compilation that does not end holds a pass for its deadline, and no longer; it is not begun a second time, and what
// comes of it in the end is used.
func TestACompilationThatDoesNotEnd(t *testing.T) {
	clock := clocktesting.NewFakeClock(start)
	r := &reconciler{clock: clock, metrics: newMetrics(prometheus.NewRegistry()), reader: &reader{clock: clock}, tools: tools()}
	spec := &v1alpha1.ExecutorSpec{VerificationSpec: byKeys("a.test/*", "none/a")}
	spec.Verifiers[0].Cosign.Keys[0].Material = v1alpha1.Material{Inline: newKey(t)}
	e := &executor{NamespacedName: named("e"), Spec: *spec, Generation: 1}
	endless := &compilation{done: make(chan struct{})}
	key := fingerprint(spec, Material{})
	one := &build{compilations: map[string]*compilation{key: endless}}

	for range 2 {
		used := map[string]*compilation{}
		came := make(chan built)
		go func() { came <- r.build(t.Context(), e, one, spec, used) }()
		eventually.Succeeds(t, within, func() error {
			if !clock.HasWaiters() {
				return errors.New("nobody waits")
			}
			return nil
		})
		clock.Step(compileDeadline)
		b := <-came
		if trouble := outcome.As(b.fault); b.compiled != nil || trouble == nil || trouble.Terminal || trouble.Reason != v1alpha1.ReasonNotCompiled {
			t.Fatalf("%+v", b)
		}
		if used[key] != endless {
			t.Fatal("it was begun anew, or is forgotten")
		}
		one.compilations = used
	}
	endless.compiled = &Compiled{inputs: "late"}
	close(endless.done)
	if b := r.build(t.Context(), e, one, spec, map[string]*compilation{}); b.compiled != endless.compiled || !b.whole {
		t.Errorf("what came of it in the end: %+v", b)
	}
}
