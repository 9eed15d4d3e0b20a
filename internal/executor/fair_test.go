package executor

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/outcome"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
)

func request(name string) reconcile.Request { return reconcile.Request{NamespacedName: named(name)} }

// A namespace has its share of the workers and no more, whatever waits; nothing that waits is lost or done twice, and what
// is urgent comes first.
func TestANamespaceHasItsShareOfWorkers(t *testing.T) {
	queue, ok := newFairQueue(2)("test", outcome.NewRateLimiter[reconcile.Request]()).(*fairQueue)
	if !ok {
		t.Fatal("it is no fair queue")
	}
	defer queue.ShutDown()
	low := priorityqueue.AddOpts{Priority: ptr.To(-100)}
	for i := range 6 {
		queue.AddWithOpts(low, request(fmt.Sprintf("a/%d", i)))
	}
	queue.AddWithOpts(low, request("b/0"))
	next := func(want string) {
		t.Helper()
		if got, _ := queue.Get(); got != request(want) {
			t.Fatalf("the next is %s, want %s", got, want)
		}
	}
	next("a/0")
	next("a/1")
	next("b/0") // the other four of a wait by now
	queue.Add(request("a/4"))
	queue.AddWithOpts(low, request("a/3")) // what waits already does not wait twice
	queue.AddWithOpts(low, request("c/0"))
	next("c/0")
	queue.Done(request("b/0"))
	queue.Done(request("a/1"))
	next("a/4")
	queue.Done(request("c/0"))
	for _, done := range [][2]string{{"a/0", "a/2"}, {"a/4", "a/3"}, {"a/2", "a/5"}} {
		queue.Done(request(done[0]))
		next(done[1])
	}
	queue.Add(request("a/6"))
	queue.Add(request("d/0"))
	next("d/0") // a/6 waits
	queue.Done(request("d/0"))
	queue.Add(request("a/6"))
	queue.Done(request("a/3"))
	queue.Done(request("a/5"))
	next("a/6") // once, though it waited and was asked for again
	queue.Done(request("a/6"))
	if queue.Len() > 0 || len(queue.namespaces) > 0 {
		t.Errorf("%d are queued and %d namespaces remembered, of none that has anything to do", queue.Len(), len(queue.namespaces))
	}
}

// What a tenant has read comes off the tenant's own share, not off others'; and the cluster's waits for nobody.
func TestATenantHasItsShareOfReads(t *testing.T) {
	may := func(s *shares, namespace string) bool {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		return s.wait(ctx, namespace) == nil
	}
	s := newShares(1)
	s.all = rate.NewLimiter(rate.Inf, 1)
	read := 0
	for may(s, "greedy") {
		if read++; read > 2*readsAtFirst {
			t.Fatalf("one tenant has had %d reads", read)
		}
	}
	if read < readsAtFirst {
		t.Errorf("a tenant had %d reads at first, want %d", read, readsAtFirst)
	}
	if !may(s, "other") || !may(s, "") {
		t.Error("the others wait for the greedy one")
	}
	s = newShares(1)
	if !may(s, "one") || may(s, "other") {
		t.Error("all tenants together read without a bound")
	}
	if !may(s, "") {
		t.Error("the cluster's wait for tenants")
	}
	for i := range 10 * fewShares {
		s.limiter(fmt.Sprint(i))
	}
	if len(s.of) > 2*fewShares {
		t.Errorf("%d tenants are remembered of which nothing was read", len(s.of))
	}
}

// stalled stands before the Secrets of a replica: in one namespace it answers for none until the test ends.
type stalled struct {
	client.Reader
	namespace string
	end       <-chan struct{}
}

func (s stalled) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if key.Namespace == s.namespace {
		<-s.end
		return errors.New("no answer")
	}
	return s.Reader.Get(ctx, key, object, options...)
}

// A tenant with many Executors, of which each takes as long as it can, delays neither the cluster's nor other tenants':
// not their first attempt, not a key that is taken away, not the replica.
func TestATenantDelaysNobodyElse(t *testing.T) {
	b := newBench(t)
	other := shared.Namespace(t, "other")
	namespaced := func(namespace string, spec v1alpha1.VerificationSpec) *v1alpha1.NamespacedExecutor {
		e := &v1alpha1.NamespacedExecutor{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "executor-" + rand.String(8)},
			Spec:       v1alpha1.NamespacedExecutorSpec{VerificationSpec: spec},
		}
		b.create(e)
		return e
	}
	for range 12 { // of 4 workers
		namespaced(b.tenant, byKeys("a.test/*", "none/a", "nowhere/a"))
	}
	keys := b.secret(b.namespace, "keys", map[string]string{"a": newKey(t)})
	b.secret(other, "keys", map[string]string{"a": newKey(t)})
	theirs, cluster := namespaced(other, byKeys("a.test/*", "keys/a")), b.executor(byKeys("a.test/*", "keys/a"))

	end := make(chan struct{})
	r := b.start(setup{reader: func(next client.Reader) client.Reader { return stalled{next, b.tenant, end} }})
	t.Cleanup(func() { close(end) })
	r.serves(client.ObjectKeyFromObject(cluster), generation(1))
	r.serves(client.ObjectKeyFromObject(theirs), generation(1))
	app := ref(t, "a.test/app:1")
	eventually.Succeeds(t, within, func() error {
		if ok, awaited := r.live.Attempted(other); !ok {
			return errors.New(awaited)
		}
		return nil
	})
	if m := r.live.Match(app, other); m.State != Matched || len(m.Enforced) != 2 {
		t.Errorf("the other tenant: state %d, %s", m.State, who(m.Enforced))
	}
	if m := r.live.Match(app, b.tenant); m.State != NotReady {
		t.Errorf("the tenant itself: state %d, want not ready", m.State)
	}
	edit(b, keys, func(s *corev1.Secret) { s.Data = nil })
	r.serves(client.ObjectKeyFromObject(cluster), func(s *Served) error {
		if s.Compiled == nil || len(s.Compiled.Problems()) == 0 {
			return errors.New("a key that was taken away is trusted still")
		}
		return nil
	})
	late := namespaced(other, byKeys("b.test/*", "keys/a"))
	r.serves(client.ObjectKeyFromObject(late), generation(1))
	eventually.Succeeds(t, within, func() error {
		if ok, awaited := r.live.Ready(); !ok {
			return errors.New(awaited)
		}
		return nil
	})
	if m := r.live.MatchOwn(app, b.tenant); m.State != NotReady {
		t.Errorf("the tenant itself, of a ready replica: state %d, want not ready", m.State)
	}
}
