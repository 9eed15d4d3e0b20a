package executor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/inprocess"
)

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
	r.says(e, succeeds)
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
		{"malformed", func() { edit(b, first, func(s *corev1.Secret) { s.Data["a"] = []byte("garbage") }) }, `key k1: Secret ` + b.namespace + `/first, key "a": it is not PEM`},
		{"emptied", func() { edit(b, first, func(s *corev1.Secret) { s.Data = map[string][]byte{} }) }, `has nothing under the key "a"`},
		{"deleted", func() { b.delete(first) }, "Secret " + b.namespace + "/first not found"},
	} {
		step.do()
		served := r.serves(name, partial(step.says))
		if served.Generation != 1 || served.Compiled.Inputs() == whole.Inputs() {
			t.Errorf("%s: generation %d, inputs %s", step.what, served.Generation, served.Compiled.Inputs())
		}
		r.says(e, fails(v1alpha1.ReasonMaterialMissing, step.says, "nobody is trusted by that"))
	}
	b.start(setup{}).serves(name, partial("Secret "+b.namespace+"/first not found"))
	b.secret(b.namespace, "first", map[string]string{"a": newKey(t)})
	r.serves(name, func(s *Served) error {
		if s.Compiled == nil || len(s.Compiled.Problems()) > 0 {
			return fmt.Errorf("not whole again: %s", s.Problem)
		}
		return nil
	})
	r.says(e, succeeds)
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
	r.says(e, succeeds)

	away.Store(true)
	edit(b, keys, func(s *corev1.Secret) { s.Labels = map[string]string{"a": "b"}; s.Data["other"] = []byte("x") })
	r.serves(name, func(s *Served) error {
		if s.Compiled != build || s.Expires.IsZero() {
			return fmt.Errorf("kept %t, until %s", s.Compiled == build, s.Expires)
		}
		return nil
	})
	r.says(e, troubled(v1alpha1.ReasonUnreadable, "what was read last goes on serving"), func(said Report) error {
		if !said.Succeeded {
			return errors.New("what is kept does not count as serving")
		}
		return nil
	})
	r.says(e, fails(v1alpha1.ReasonUnreadable, "cannot be read from the API server", "nothing serves"))
	r.serves(name, unbuilt("cannot be read"))
	late := b.executor(byKeys("b.test/*", "keys/a"))
	r.serves(client.ObjectKeyFromObject(late), unbuilt("cannot be read"))
	for _, e := range []*v1alpha1.Executor{e, late} {
		if !r.live.Served(client.ObjectKeyFromObject(e)).Away {
			t.Errorf("%s is taken to be at fault", e.Name)
		}
	}

	away.Store(false)
	for _, e := range []*v1alpha1.Executor{e, late} {
		r.serves(client.ObjectKeyFromObject(e), generation(1))
		r.says(e, succeeds)
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
	restricted := inprocess.Client(t, shared.User("system:serviceaccount:gatehouse-system:gatehouse"))
	r := b.start(setup{reader: func(client.Reader) client.Reader { return restricted }})
	name := client.ObjectKeyFromObject(e)
	r.serves(name, unbuilt("Secret "+b.tenant+"/keys may not be read; let Gatehouse's ServiceAccount get it there"))
	r.says(e, fails(v1alpha1.ReasonUnreadable, "may not be read"))
	if r.live.Served(name).Away {
		t.Error("the API server is said to be away")
	}
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
rules:
- {apiGroups: [""], resources: [secrets], resourceNames: [keys], verbs: [get]}
- {apiGroups: [gatehouse.dev], resources: [namespacedexecutors], verbs: [get]} # which it has everywhere
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
	r.says(e, succeeds)
	b.stored(e, 1)
	b.delete(e)
	b.stored(e) // it has no owner that would take it along
}
