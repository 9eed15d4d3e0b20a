package podstatus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/executor"
	"github.com/gatehouse-dev/gatehouse/internal/outcome"
	"github.com/gatehouse-dev/gatehouse/test/inprocess"
)

// What one status costs does not depend on how many other Executors there are: neither what is read of the caches, nor
// what is allocated.
func TestOneAggregateCostsTheSameBesideAnyNumberOfExecutors(t *testing.T) {
	const replicas = 10
	few, many := stock(t, replicas, 10), stock(t, replicas, 200)
	t.Logf("beside 10: %d objects, %.0f allocations; beside 200: %d and %.0f", few.read(t), few.allocations(t), many.read(t), many.allocations(t))
	// The Executor, the one that shares its scopes (itself), each pod, and each report on it.
	if want := 2 + 2*replicas; few.read(t) != want || many.read(t) != want {
		t.Errorf("one aggregate looks at %d objects beside 10 Executors and at %d beside 200, want %d", few.read(t), many.read(t), want)
	}
	if a, b := few.allocations(t), many.allocations(t); b > 1.2*a {
		t.Errorf("one aggregate allocates %.0f times beside 10 Executors and %.0f times beside 200", a, b)
	}
}

// That all replicas but the leader have yet to hear of a rotation is certain once it is certain of one of them.
func TestThatAStatusCeasesToBeTrueCostsTheSameForAnyNumberOfReplicas(t *testing.T) {
	s := stock(t, 50, 1)
	found, err := find(t.Context(), s.client, types.NamespacedName{Name: stockName(0)})
	if err != nil {
		t.Fatal(err)
	}
	replicas, err := s.crowd.replicas(t.Context(), found)
	if err != nil {
		t.Fatal(err)
	}
	s.looked.objects = 0
	if err := s.crowd.lookAgain(t.Context(), found, "rotated", replicas); err != nil {
		t.Fatal(err)
	}
	if s.looked.objects != 2 { // what one reports, and its pod
		t.Errorf("the API server is asked for %d objects, want 2", s.looked.objects)
	}
	if v := fold(1, "rotated", replicas); v.counts.Expected != 50 || v.counts.Ready != 0 {
		t.Errorf("%+v", v.counts)
	}
}

// BenchmarkAggregate makes the status of one Executor anew, of reports and Executors in memory, without storing it.
func BenchmarkAggregate(b *testing.B) {
	for _, replicas := range []int{3, 10, 50} {
		for _, executors := range []int{10, 200} {
			b.Run(fmt.Sprintf("%dx%d", replicas, executors), func(b *testing.B) {
				s := stock(b, replicas, executors)
				b.ReportAllocs()
				for b.Loop() {
					s.aggregate(b)
				}
			})
		}
	}
}

// stocked is an aggregator with filled caches.
type stocked struct {
	aggregator
	looked *counting
}

// aggregate is what a pass does, but for what it waits for and writes.
func (s *stocked) aggregate(tb testing.TB) {
	tb.Helper()
	ctx := tb.Context()
	found, err := find(ctx, s.client, types.NamespacedName{Name: stockName(0)})
	if err != nil || found == nil {
		tb.Fatal(found, err)
	}
	v, err := s.verdict(ctx, found)
	if err != nil || v == nil || !v.succeeded {
		tb.Fatalf("%+v %v", v, err)
	}
	pass := s.finisher.Begin(found.object)
	_ = v.say(pass, found)
	if err := relate(ctx, s.client, pass, found); err != nil {
		tb.Fatal(err)
	}
}

// read is how many objects one aggregate is handed.
func (s *stocked) read(tb testing.TB) int {
	tb.Helper()
	s.looked.objects = 0
	s.aggregate(tb)
	return s.looked.objects
}

func (s *stocked) allocations(tb testing.TB) float64 {
	tb.Helper()
	return testing.AllocsPerRun(20, func() { s.aggregate(tb) })
}

// counting counts what a cache hands out.
type counting struct{ objects int }

type counted struct {
	client.Client
	reader client.Reader
	*counting
}

func (c counted) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	c.objects++
	return c.reader.Get(ctx, key, object, options...)
}

func (c counted) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := c.reader.List(ctx, list, options...)
	c.objects += meta.LenList(list)
	return err
}

const stockNamespace = "gatehouse-system"

func stockName(n int) string { return fmt.Sprintf("executor-%03d", n) }

// stock fills real caches from what answers like an API server in which nothing ever changes.
func stock(tb testing.TB, replicas, executors int) *stocked {
	tb.Helper()
	server := httptest.NewServer(unchanging(tb, replicas, executors))
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	mapper.Add(v1alpha1.GroupVersion.WithKind("Executor"), meta.RESTScopeRoot)
	mapper.Add(v1alpha1.GroupVersion.WithKind("ExecutorPodStatus"), meta.RESTScopeNamespace)
	config := &rest.Config{Host: server.URL}
	made, err := cache.New(config, cache.Options{Scheme: inprocess.Scheme(), Mapper: mapper, HTTPClient: server.Client()})
	if err != nil {
		tb.Fatal(err)
	}
	if err := errors.Join(indexScopes(ctx, made), indexReports(ctx, made)); err != nil {
		tb.Fatal(err)
	}
	for _, kind := range []client.Object{&corev1.Pod{}, &v1alpha1.Executor{}, &v1alpha1.ExecutorPodStatus{}} {
		if _, err := made.GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			tb.Fatal(err)
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- made.Start(ctx) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			tb.Error(err)
		}
		server.CloseClientConnections()
		server.Close()
	})
	if !made.WaitForCacheSync(ctx) {
		tb.Fatal("the caches were not filled")
	}
	looked := &counting{}
	read := counted{reader: made, counting: looked}
	return &stocked{looked: looked, aggregator: aggregator{
		client:   read,
		board:    executor.NewBoard(),
		crowd:    &crowd{pods: read, reports: read, live: read, namespace: stockNamespace},
		finisher: &outcome.Finisher{Clock: clock.RealClock{}},
		pace:     newPace(clock.RealClock{}),
	}}
}

// unchanging answers lists, and watches with nothing.
func unchanging(tb testing.TB, replicas, executors int) http.Handler {
	tb.Helper()
	since := metav1.NewTime(time.Now())
	pods, all, reports := &corev1.PodList{}, &v1alpha1.ExecutorList{}, &v1alpha1.ExecutorPodStatusList{}
	for p := range replicas {
		name := fmt.Sprintf("gatehouse-7d9c5b8f6d-%05d", p)
		pods.Items = append(pods.Items, corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: stockNamespace, Name: name, UID: types.UID("uid-of-" + name), ResourceVersion: "1", Labels: replicaLabels},
			Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
		})
	}
	for n := range executors {
		name := stockName(n)
		e := v1alpha1.Executor{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name), ResourceVersion: "1", Generation: 1}}
		e.Spec.Scopes = []v1alpha1.Scope{v1alpha1.Scope("stock.test/" + name)}
		all.Items = append(all.Items, e)
		identity := identityOf(types.NamespacedName{Name: name}, e.UID)
		for _, pod := range pods.Items {
			reports.Items = append(reports.Items, v1alpha1.ExecutorPodStatus{
				ObjectMeta: metav1.ObjectMeta{Namespace: stockNamespace, Name: PackName(pod.Name, identity), UID: types.UID("uid-of-" + name + pod.Name), ResourceVersion: "1"},
				Spec:       v1alpha1.ExecutorPodStatusSpec{Executor: identity, Pod: v1alpha1.PodIdentity{Name: pod.Name, UID: pod.UID}},
				Status: v1alpha1.ExecutorPodStatusStatus{
					Process: "p", ObservedGeneration: 1, ServingGeneration: 1, Inputs: strings.Repeat("0", 64), Succeeded: true, LastTransitionTime: &since,
				},
			})
		}
	}
	answers := map[string][]byte{}
	for suffix, list := range map[string]client.ObjectList{"/pods": pods, "/executors": all, "/executorpodstatuses": reports} {
		list.SetResourceVersion("1")
		text, err := json.Marshal(list)
		if err != nil {
			tb.Fatal(err)
		}
		answers[suffix] = text
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := answers[r.URL.Path[strings.LastIndex(r.URL.Path, "/"):]]
		w.Header().Set("Content-Type", "application/json")
		switch {
		case answer == nil:
			w.WriteHeader(http.StatusNotFound)
		case r.URL.Query().Has("sendInitialEvents"): // who asks so lists, then
			w.WriteHeader(http.StatusBadRequest)
		case r.URL.Query().Has("watch"):
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			_, _ = w.Write(answer) // who has gone away needs none
		}
	})
}
