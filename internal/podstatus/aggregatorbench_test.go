package podstatus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/executor"
	"github.com/gatehouse-dev/gatehouse/internal/outcome"
	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/inprocess"
)

// leader is a process with the aggregator in it. Its board is the test's, and so are all reports.
type leader struct {
	i     *installation
	agent string
	board *executor.Board
	count *prometheus.Registry
	stop  func()
}

// leadership shapes a leader.
type leadership struct {
	config *rest.Config  // how it reaches the API server; default: straight, as an administrator
	resync time.Duration // default: none that a test would see
	alone  bool
	elect  bool // take part in an election
	leads  func(context.Context) (bool, error)
	// syncWithin is how long sources may take to start.
	syncWithin time.Duration
}

func (i *installation) lead(s leadership) *leader {
	i.Helper()
	l := &leader{i: i, agent: "aggregator-under-test-" + rand.String(8), board: executor.NewBoard(), count: prometheus.NewRegistry()}
	mgr := inprocess.Manager(i, cmp.Or(s.config, shared.Config), l.agent, manager.Options{
		Controller:     config.Controller{EnableWarmup: ptr.To(true), CacheSyncTimeout: s.syncWithin},
		LeaderElection: s.elect, LeaderElectionNamespace: i.namespace,
		Cache: inprocess.Only(i.namespace, &corev1.Pod{}),
	})
	i.must(indexScopes(i.Context(), mgr.GetFieldIndexer()))
	i.must(SetupAggregator(i.Context(), mgr, AggregatorDependencies{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("gatehouse"), Clock: clock.RealClock{},
		Board: l.board, Leads: s.leads, Alone: s.alone, Namespace: i.namespace, Resync: cmp.Or(s.resync, time.Hour), Workers: 4,
		Passes: outcome.NewMetrics(l.count),
	}))
	l.stop = inprocess.Run(i, mgr)
	return l
}

// indexScopes is the index of the executor controller that the aggregator uses.
func indexScopes(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, &v1alpha1.Executor{}, "executor:scopes", func(object client.Object) (scopes []string) {
		for _, scope := range object.(*v1alpha1.Executor).Spec.Scopes {
			scopes = append(scopes, string(scope))
		}
		return scopes
	})
}

// passes are how many the leader has ended.
func (l *leader) passes() float64 {
	l.i.Helper()
	n, _ := inprocess.Sum(l.i, l.count, "gatehouse_reconcile_total")
	return n
}

// rest waits until the leader has nothing to do, and returns how many passes it has ended by then.
func (l *leader) rest() (passes float64) {
	l.i.Helper()
	since := time.Now()
	eventually.Succeeds(l.i.T, within, func() error {
		if n := l.passes(); n != passes {
			passes, since = n, time.Now()
		}
		if rested := time.Since(since); rested < 10*quiet {
			return fmt.Errorf("the last pass ended %s ago", rested)
		}
		return nil
	})
	return passes
}

// writes are the leader's since a mark, without events and the lease.
func (l *leader) writes(since cluster.Mark) []string {
	l.i.Helper()
	return inprocess.Lines(inprocess.Writes(l.i, shared, since, l.agent, cluster.OfResource("gatehouse.dev", "executors")))
}

// replica makes a pod of the installation, which is not Ready yet.
func (i *installation) replica(name string) *corev1.Pod {
	i.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: name, Labels: replicaLabels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "gatehouse.test/gatehouse:1"}}},
	}
	i.must(i.client.Create(i.Context(), pod))
	return pod
}

// serve makes pods Ready, or not.
func (i *installation) serve(serves bool, pods ...*corev1.Pod) {
	i.Helper()
	status := corev1.ConditionFalse
	if serves {
		status = corev1.ConditionTrue
	}
	for _, pod := range pods {
		before := pod.DeepCopy()
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
		i.must(i.client.Status().Patch(i.Context(), pod, client.MergeFrom(before)))
	}
}

// delete deletes objects, with nobody to wait for.
func (i *installation) delete(objects ...client.Object) {
	i.Helper()
	for _, object := range objects {
		i.must(client.IgnoreNotFound(i.client.Delete(i.Context(), object, client.GracePeriodSeconds(0))))
	}
}

// executor makes an Executor of the cluster that goes when the test ends.
func (i *installation) executor(name string, scope v1alpha1.Scope) *v1alpha1.Executor {
	i.Helper()
	e := &v1alpha1.Executor{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ExecutorSpec{VerificationSpec: v1alpha1.VerificationSpec{
		Scopes: []v1alpha1.Scope{scope},
		Verifiers: []v1alpha1.Verifier{{Name: "builders", Cosign: &v1alpha1.CosignVerifier{
			TransparencyLog: v1alpha1.Ignored,
			Keys: []v1alpha1.CosignKey{{Name: "k1", PEMSource: v1alpha1.PEMSource{Material: v1alpha1.Material{
				SecretRef: &v1alpha1.KeyReference{Name: "keys", Key: "a"},
			}}}},
		}}},
	}}}
	inprocess.Create(i, i.client, e)
	return e
}

func (i *installation) anExecutor() *v1alpha1.Executor {
	i.Helper()
	return i.executor("executor-"+rand.String(8), "a.test/*")
}

// edit makes another generation of an Executor.
func (i *installation) edit(e *v1alpha1.Executor, scope v1alpha1.Scope) {
	i.Helper()
	eventually.Succeeds(i.T, within, func() error {
		i.must(i.client.Get(i.Context(), client.ObjectKeyFromObject(e), e))
		e.Spec.Scopes = []v1alpha1.Scope{scope}
		return i.client.Update(i.Context(), e)
	})
}

// reports stores what a pod says of an Executor, as its replica would.
func (i *installation) reports(pod *corev1.Pod, e *v1alpha1.Executor, says *report) *v1alpha1.ExecutorPodStatus {
	i.Helper()
	return i.reportsAs(PackName(pod.Name, identityOf(client.ObjectKeyFromObject(e), e.UID)), pod, e, says)
}

// reportsAs is reports under another name.
func (i *installation) reportsAs(name string, pod *corev1.Pod, e *v1alpha1.Executor, says *report) *v1alpha1.ExecutorPodStatus {
	i.Helper()
	identity := identityOf(client.ObjectKeyFromObject(e), e.UID)
	r := &v1alpha1.ExecutorPodStatus{}
	err := i.client.Get(i.Context(), client.ObjectKey{Namespace: i.namespace, Name: name}, r)
	if err == nil && r.Spec.Pod.UID != pod.UID { // of one that had the name before, and is not swept yet
		i.delete(r)
	}
	if err != nil || r.Spec.Pod.UID != pod.UID {
		i.must(client.IgnoreNotFound(err))
		*r = v1alpha1.ExecutorPodStatus{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: i.namespace, Name: name,
				Labels: map[string]string{v1alpha1.LabelExecutorUID: string(e.UID), v1alpha1.LabelPodUID: string(pod.UID)},
			},
			Spec: v1alpha1.ExecutorPodStatusSpec{Executor: identity, Pod: v1alpha1.PodIdentity{Name: pod.Name, UID: pod.UID}},
		}
		i.must(i.client.Create(i.Context(), r))
	}
	r.Status = *says
	i.must(i.client.Status().Update(i.Context(), r))
	return r
}

// says puts on the leader's board what the leader itself serves.
func (l *leader) says(e *v1alpha1.Executor, says *report) {
	l.board.Put(executor.Report{
		Name: client.ObjectKeyFromObject(e), UID: e.UID, Attempted: says.ObservedGeneration, Serving: says.ServingGeneration,
		Inputs: says.Inputs, Succeeded: says.Succeeded, Reason: says.Reason, Error: says.Error, Brief: says.BriefError,
	})
}

// becomes waits for a status.
func (i *installation) becomes(e *v1alpha1.Executor, checks ...func(*v1alpha1.ExecutorStatus) error) {
	i.Helper()
	eventually.Succeeds(i.T, within, func() error {
		i.must(i.client.Get(i.Context(), client.ObjectKeyFromObject(e), e))
		if e.Status.ObservedGeneration != e.Generation {
			return fmt.Errorf("the status is of generation %d: %+v", e.Status.ObservedGeneration, e.Status)
		}
		for _, check := range checks {
			if err := check(&e.Status); err != nil {
				return fmt.Errorf("%w: %+v", err, e.Status)
			}
		}
		return nil
	})
}

// counts demands counts: expected, reported, ready, failed, not serving.
func counts(want string) func(*v1alpha1.ExecutorStatus) error {
	return func(s *v1alpha1.ExecutorStatus) error {
		c := s.Replicas
		if got := fmt.Sprintf("%d %d %d %d %d", c.Expected, c.Reported, c.Ready, c.Failed, c.NotServing); got != want {
			return fmt.Errorf("counts %s, want %s", got, want)
		}
		return nil
	}
}

// isReady demands that a status says so in every way it can.
func isReady(s *v1alpha1.ExecutorStatus) error {
	if !s.Succeeded || s.Error != "" || s.BriefError != "" || len(s.Conditions) != 1 || !meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionReady) {
		return errors.New("not ready")
	}
	return nil
}

// isNotReady demands a reason of Ready being False, and what stands beside it: Reconciling or Stalled.
func isNotReady(reason, beside string) func(*v1alpha1.ExecutorStatus) error {
	return func(s *v1alpha1.ExecutorStatus) error {
		ready := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady)
		if s.Succeeded || s.Error == "" || s.BriefError == "" || ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != reason {
			return fmt.Errorf("not un-ready for %s", reason)
		}
		for _, kind := range []string{v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled} {
			if meta.IsStatusConditionTrue(s.Conditions, kind) != (kind == beside) {
				return fmt.Errorf("%s is not as it should be", kind)
			}
		}
		return nil
	}
}

// pods demands the entries, in order; + succeeded, - not.
func pods(want ...string) func(*v1alpha1.ExecutorStatus) error {
	return func(s *v1alpha1.ExecutorStatus) error {
		var got []string
		for _, p := range s.ByPod {
			got = append(got, p.ID+map[bool]string{true: "+", false: "-"}[p.Succeeded])
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("entries %v, want %v", got, want)
		}
		return nil
	}
}

// seen is every status that an Executor has had since it was watched.
type seen struct {
	mu       sync.Mutex
	statuses []v1alpha1.ExecutorStatus
}

func (i *installation) watch(e *v1alpha1.Executor) *seen {
	i.Helper()
	w, err := i.client.Watch(i.Context(), &v1alpha1.ExecutorList{}, client.MatchingFields{"metadata.name": e.Name})
	i.must(err)
	s := &seen{}
	go func() {
		for event := range w.ResultChan() {
			if e, is := event.Object.(*v1alpha1.Executor); is {
				s.mu.Lock()
				s.statuses = append(s.statuses, e.Status)
				s.mu.Unlock()
			}
		}
	}()
	i.Cleanup(w.Stop)
	return s
}

// alwaysReady demands that no status since then was anything else.
func (s *seen) alwaysReady(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.statuses) == 0 {
		t.Error("the watch has seen nothing")
	}
	for _, status := range s.statuses {
		if err := isReady(&status); err != nil {
			t.Errorf("it was not Ready all the time: %+v", status)
		}
	}
}

// three makes three replicas that serve and report on an Executor alike, and waits until the status says so.
func (i *installation) three(l *leader, e *v1alpha1.Executor) []*corev1.Pod {
	i.Helper()
	var all []*corev1.Pod
	l.says(e, serves(e.Generation, "x"))
	for _, name := range []string{"a", "b", "c"} {
		pod := i.replica(name)
		i.reports(pod, e, serves(e.Generation, "x"))
		i.serve(true, pod)
		all = append(all, pod)
	}
	i.becomes(e, counts("3 3 3 0 0"), isReady, pods("a+", "b+", "c+"))
	return all
}

// watched counts what a process asks the API server for.
type watched struct{ pods, executors, reports atomic.Int32 }

func (w *watched) config() *rest.Config {
	config := rest.CopyConfig(shared.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			for kind, count := range map[string]*atomic.Int32{"/pods": &w.pods, "/executors": &w.executors, "/executorpodstatuses": &w.reports} {
				if strings.HasSuffix(r.URL.Path, kind) {
					count.Add(1)
				}
			}
			return next.RoundTrip(r)
		})
	})
	return config
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
