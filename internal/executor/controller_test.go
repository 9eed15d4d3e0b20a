package executor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
)

const ready = v1alpha1.ConditionReady

func TestAnExecutorServes(t *testing.T) {
	b := newBench(t)
	b.secret(b.namespace, "keys", map[string]string{"a": newKey(t)})
	e := b.executor(byKeys("a.test/*", "keys/a"))
	r := b.start(setup{})
	served := r.serves(client.ObjectKeyFromObject(e), generation(1))
	reaches(b, e, succeeds(e), condition(e, ready, metav1.ConditionTrue, v1alpha1.ReasonServing),
		condition(e, v1alpha1.ConditionReconciling, "", ""), condition(e, v1alpha1.ConditionStalled, "", ""))
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
	reaches(b, all[19], fails(all[19], "verifier builders: key k1", "generation 1 goes on serving"))
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
			reaches(b, e, succeeds(e))
			b.stored(e, 1)

			edit(b, e, func(e *v1alpha1.Executor) {
				test.breaking(e)
				e.Spec.Scopes = append(e.Spec.Scopes, "new.test/*")
			})
			reaches(b, e, fails(e, "verifier builders: key k1", "generation 1 goes on serving"), condition(e, ready, metav1.ConditionFalse, test.reason))
			first.serves(client.ObjectKeyFromObject(e), generation(1))
			// Scopes are those of the spec, whether it is built or not.
			if m := first.live.Match(ref(t, "new.test/app:1"), ""); m.State != Matched {
				t.Errorf("a new scope: state %d", m.State)
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
			reaches(b, e, succeeds(e))
			first.serves(client.ObjectKeyFromObject(e), generation(3))
			b.stored(e, 3)
			b.delete(e)
			b.stored(e)
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
	reaches(b, e, fails(e, "nothing serves: images in scope cannot be decided"), condition(e, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonMaterialMissing))
	if ok, awaited := r.live.Ready(); !ok {
		t.Errorf("not ready: %s", awaited)
	}
	if m := r.live.Match(ref(t, "a.test/app:1"), ""); m.State != Matched {
		t.Errorf("state %d, want matched", m.State)
	}
	b.secret(b.namespace, "nowhere", map[string]string{"a": newKey(t)})
	r.serves(client.ObjectKeyFromObject(e), generation(1))
	reaches(b, e, succeeds(e), condition(e, v1alpha1.ConditionStalled, "", ""))
}

// A key that is taken away is trusted no longer, at once; the other one still is. A replica that starts then does the
// same.
func TestTrustIsWithdrawnAtOnce(t *testing.T) {
	b := newBench(t)
	first := b.secret(b.namespace, "first", map[string]string{"a": newKey(t)})
	b.secret(b.namespace, "second", map[string]string{"a": newKey(t)})
	e := b.executor(byKeys("a.test/*", "first/a", "second/a"))
	name := client.ObjectKeyFromObject(e)
	r := b.start(setup{})
	whole := r.serves(name, generation(1)).Compiled
	reaches(b, e, succeeds(e))
	b.stored(e, 1)
	partial := func(text string) func(*Served) error {
		return func(s *Served) error {
			if s.Compiled == nil || len(s.Compiled.Problems()) != 1 || !strings.Contains(s.Compiled.Problems()[0].Error(), text) {
				return fmt.Errorf("want one problem %q: %+v", text, s)
			}
			return nil
		}
	}
	for _, step := range []struct {
		what string
		do   func()
		says string
	}{
		{"malformed", func() { edit(b, first, func(s *corev1.Secret) { s.Data["a"] = []byte("garbage") }) }, `key k1: Secret ` + b.namespace + `/first, key "a" is not PEM`},
		{"emptied", func() { edit(b, first, func(s *corev1.Secret) { s.Data = map[string][]byte{} }) }, `has nothing under the key "a"`},
		{"deleted", func() { b.delete(first) }, "Secret " + b.namespace + "/first not found"},
	} {
		step.do()
		served := r.serves(name, partial(step.says))
		if served.Generation != 1 || served.Compiled.Inputs() == whole.Inputs() {
			t.Errorf("%s: generation %d, inputs %s", step.what, served.Generation, served.Compiled.Inputs())
		}
		reaches(b, e, fails(e, step.says, "nobody is trusted by that"))
	}
	b.start(setup{}).serves(name, partial("Secret "+b.namespace+"/first not found"))
	b.secret(b.namespace, "first", map[string]string{"a": newKey(t)})
	r.serves(name, func(s *Served) error {
		if s.Compiled == nil || len(s.Compiled.Problems()) > 0 {
			return fmt.Errorf("not whole again: %s", s.Problem)
		}
		return nil
	})
	reaches(b, e, succeeds(e))
}

// unreadable stands before the Secrets of a replica.
type unreadable struct {
	client.Reader
	away *atomic.Bool
}

func (u unreadable) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if _, isSecret := object.(*corev1.Secret); isSecret && u.away.Load() {
		return errors.New("dial tcp: connection refused")
	}
	return u.Reader.Get(ctx, key, object, options...)
}

// What cannot be read is kept for maxStale, and the status says so; then images in scope cannot be decided. What never
// could be read builds nothing.
func TestUnreadableTrustIsKeptForMaxStale(t *testing.T) {
	b := newBench(t)
	keys := b.secret(b.namespace, "keys", map[string]string{"a": newKey(t)})
	spec := byKeys("a.test/*", "keys/a")
	spec.MaxStale = &metav1.Duration{Duration: 4 * time.Second}
	e := b.executor(spec)
	name := client.ObjectKeyFromObject(e)
	away := &atomic.Bool{}
	r := b.start(setup{reader: func(next client.Reader) client.Reader { return unreadable{next, away} }})
	build := r.serves(name, generation(1)).Compiled
	reaches(b, e, succeeds(e))

	away.Store(true)
	edit(b, keys, func(s *corev1.Secret) { s.Labels = map[string]string{"a": "b"}; s.Data["other"] = []byte("x") })
	r.serves(name, func(s *Served) error {
		if s.Compiled != build || s.Expires.IsZero() {
			return fmt.Errorf("kept %t, until %s", s.Compiled == build, s.Expires)
		}
		return nil
	})
	reaches(b, e, condition(e, v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonUnreadable), condition(e, ready, metav1.ConditionTrue, v1alpha1.ReasonServing))
	reaches(b, e, fails(e, "cannot be read from the API server", "nothing serves"), condition(e, ready, metav1.ConditionFalse, v1alpha1.ReasonUnreadable))
	r.serves(name, unbuilt("cannot be read"))
	late := b.executor(byKeys("b.test/*", "keys/a"))
	r.serves(client.ObjectKeyFromObject(late), unbuilt("cannot be read"))

	away.Store(false)
	for _, e := range []*v1alpha1.Executor{e, late} {
		r.serves(client.ObjectKeyFromObject(e), generation(1))
		reaches(b, e, succeeds(e), condition(e, v1alpha1.ConditionReconciling, "", ""))
	}
}

// A tenant's Secret is read by a right that the tenant gives, and by no other.
func TestATenantLetsGatehouseReadASecret(t *testing.T) {
	b := newBench(t)
	b.secret(b.tenant, "keys", map[string]string{"a": newKey(t)})
	e := &v1alpha1.NamespacedExecutor{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.tenant, Name: "own"},
		Spec:       v1alpha1.NamespacedExecutorSpec{VerificationSpec: byKeys("a.test/*", "keys/a")},
	}
	b.create(e)
	restricted, err := client.New(shared.User("system:serviceaccount:gatehouse-system:gatehouse"), client.Options{Scheme: scheme()})
	if err != nil {
		t.Fatal(err)
	}
	r := b.start(setup{reader: func(client.Reader) client.Reader { return restricted }})
	name := client.ObjectKeyFromObject(e)
	r.serves(name, unbuilt("Secret "+b.tenant+"/keys may not be read; let Gatehouse's ServiceAccount get it there"))
	reaches(b, e, fails(e, "may not be read"))
	if m := r.live.Match(ref(t, "a.test/app:1"), b.tenant); m.State != Matched {
		t.Errorf("state %d, want matched", m.State)
	}
	if m := r.live.Match(ref(t, "a.test/app:1"), b.namespace); m.State != Unmatched {
		t.Errorf("in another namespace: state %d, want unmatched", m.State)
	}
	if err := shared.ApplyText(t.Context(), fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: gatehouse-reads-keys, namespace: %[1]s}
rules: [{apiGroups: [""], resources: [secrets], resourceNames: [keys], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: gatehouse-reads-keys, namespace: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: gatehouse-reads-keys}
subjects: [{kind: ServiceAccount, name: gatehouse, namespace: gatehouse-system}]
`, b.tenant)); err != nil {
		t.Fatal(err)
	}
	r.serves(name, generation(1))
	reaches(b, e, succeeds(e))
	b.stored(e, 1)
	b.delete(e)
	b.stored(e) // it has no owner that would take it along
}

// Both of two Executors with an equal scope say so, and no longer when one of them gives it up.
func TestExecutorsSayThatTheyShareAScope(t *testing.T) {
	b := newBench(t)
	b.secret(b.namespace, "keys", map[string]string{"a": newKey(t)})
	one, other := b.executor(byKeys("shared.test/app", "keys/a")), b.executor(byKeys("SHARED.test:443/app", "keys/a"))
	r := b.start(setup{})
	for e, rival := range map[*v1alpha1.Executor]*v1alpha1.Executor{one: other, other: one} {
		reaches(b, e, succeeds(e), condition(e, v1alpha1.ConditionSharedScope, metav1.ConditionTrue, v1alpha1.ReasonEqualScope), func() error {
			for _, c := range e.Status.Conditions {
				if c.Type == v1alpha1.ConditionSharedScope && !strings.Contains(c.Message, "shared.test/app is a scope of "+rival.Name+" too; an image must pass all Executors") {
					return errors.New(c.Message)
				}
			}
			return nil
		})
	}
	if m := r.live.Match(ref(t, "shared.test/app:1"), ""); len(m.Enforced) != 2 {
		t.Errorf("%s must pass, want both", who(m.Enforced))
	}
	edit(b, one, func(e *v1alpha1.Executor) { e.Spec.Scopes = []v1alpha1.Scope{"alone.test/app"} })
	for _, e := range []*v1alpha1.Executor{one, other} {
		reaches(b, e, succeeds(e), condition(e, v1alpha1.ConditionSharedScope, "", ""))
	}
}

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
	reaches(b, good, succeeds(good))
	reaches(b, bad, fails(bad, "not found"))
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
	// The next leader knows what the last one did.
	replicas[0].stop()
	replicas[2].stop()
	edit(b, good, func(e *v1alpha1.Executor) { e.Spec.Scopes = []v1alpha1.Scope{"c.test/*"} })
	reaches(b, good, succeeds(good))
	b.stored(good, 2)
	writes := b.writes(mark)
	if len(writes) != 3 { // a status, a spec that is stored, and one that is deleted
		t.Errorf("an edit cost:\n%s", strings.Join(writes, "\n"))
	}
	if n := fourth.compiles(); n != 3 {
		t.Errorf("%v compilations of two Executors and one edit, want 3", n)
	}
}

// A stored spec of an Executor that went while nobody was there is swept by the next leader.
func TestTheNextLeaderSweepsWhatWasLeftBehind(t *testing.T) {
	b := newBench(t)
	b.secret(b.namespace, "keys", map[string]string{"a": newKey(t)})
	e := b.executor(byKeys("a.test/*", "keys/a"))
	r := b.start(setup{})
	reaches(b, e, succeeds(e))
	b.stored(e, 1)
	r.stop()
	b.delete(e)
	again := &v1alpha1.Executor{ObjectMeta: metav1.ObjectMeta{Name: e.Name}, Spec: *e.Spec.DeepCopy()}
	b.create(again)
	b.start(setup{})
	reaches(b, again, succeeds(again))
	b.stored(e)
	b.stored(again, 1)
}

func (b *bench) mark() cluster.Mark {
	b.Helper()
	mark, err := shared.Mark(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return mark
}

// writes lists what the replicas of the bench wrote, without events and the lease.
func (b *bench) writes(since cluster.Mark) []string {
	b.Helper()
	events, err := shared.Writes(b.Context(), since, cluster.ByUserAgent(b.agent),
		cluster.Not(cluster.OfResource("events.k8s.io", "events")), cluster.Not(cluster.OfResource("", "events")),
		cluster.Not(cluster.OfResource("coordination.k8s.io", "leases")))
	if err != nil {
		b.Fatal(err)
	}
	var lines []string
	for _, e := range events {
		lines = append(lines, fmt.Sprintf("%+v", e))
	}
	return lines
}

// The page's example is accepted as it is printed, every field of it is kept, and it says what it misses.
func TestTheExampleOfThePageApplies(t *testing.T) {
	b := newBench(t)
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "executor.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, example, found := strings.Cut(string(page), "```yaml\n")
	example, _, closed := strings.Cut(example, "```")
	if !found || !closed {
		t.Fatal("the page has no example")
	}
	written := &v1alpha1.Executor{}
	if err := yaml.UnmarshalStrict([]byte(example), written); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.delete(written) })
	if err := shared.ApplyText(t.Context(), example); err != nil {
		t.Fatal(err)
	}
	stored := &v1alpha1.Executor{}
	if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(written), stored); err != nil {
		t.Fatal(err)
	}
	kept := stored.DeepCopy()
	kept.Spec.Mode, kept.Spec.Tenancy, kept.Spec.RefreshInterval, kept.Spec.MaxStale = "", "", nil, nil
	kept.Spec.Verifiers[0].Notation.Level, kept.Spec.Verifiers[0].Notation.Revocation, kept.Spec.Verifiers[1].Cosign.Timestamps = "", "", ""
	if !equality.Semantic.DeepEqual(kept.Spec, written.Spec) {
		t.Errorf("stored as %+v, written as %+v", kept.Spec, written.Spec)
	}
	b.start(setup{})
	reaches(b, stored, fails(stored,
		"store registry: credentials: Secret "+b.namespace+"/pull not found; create it with the type kubernetes.io/dockerconfigjson",
		"verifier release-signers: trustStores[corp].certificates[0]: Secret "+b.namespace+"/signing-ca not found"))
}
