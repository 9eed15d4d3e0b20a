package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/kubelet"
	"github.com/gatehouse-dev/gatehouse/internal/podstatus"
	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
	"github.com/gatehouse-dev/gatehouse/test/manager"
	"github.com/gatehouse-dev/gatehouse/test/signatures/cosign"
)

// crowd is an API server of its own with one manager, which leads, and the pods of other replicas. What those report is
// written by a bare client, as their processes would.
type crowd struct {
	*fleet.Installation
	kubernetes client.WithWatch
	bare       bare
	manager    *manager.Manager
	profiler
	leader    *corev1.Pod
	others    []*corev1.Pod
	executors []*v1alpha1.Executor
	// empty is what the manager had used before there was anything but pods.
	empty usage
}

// newCrowd sets up replicas and Executors, and waits until every status says that all replicas serve.
func newCrowd(tb testing.TB, replicas, executors int) *crowd {
	tb.Helper()
	on, err := cluster.Start(tb.Context(), cluster.Options{Audit: true, APIServerOnly: true})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := on.Stop(); err != nil {
			tb.Error(err)
		}
	})
	c := &crowd{bare: newBare(tb, on.Kubeconfig), profiler: newProfiler(tb)}
	if c.Installation, err = fleet.Install(tb.Context(), on); err != nil {
		tb.Fatal(err)
	}
	if c.kubernetes, err = fleet.NewClient(on.Config); err != nil {
		tb.Fatal(err)
	}
	c.leader = c.pod(tb, "gatehouse-7d9c5b8f6d-00000")
	for n := 1; n < replicas; n++ {
		c.others = append(c.others, c.pod(tb, fmt.Sprintf("gatehouse-7d9c5b8f6d-%05d", n)))
	}
	o := c.Manager(c.leader.Name, c.arguments()...)
	if o.Kubeconfig, err = c.TokenOf(tb.Context(), c.leader); err != nil {
		tb.Fatal(err)
	}
	o.Environment = []string{"POD_NAME=" + c.leader.Name, "POD_UID=" + string(c.leader.UID)}
	c.manager = manager.Start(tb, o)
	c.manager.Ready(tb)
	c.manager.Rest(tb, patience)
	c.empty = usageOf(tb, c.manager.PID())

	key, err := cosign.NewKey(cosign.ECDSAP256)
	if err != nil {
		tb.Fatal(err)
	}
	for n := range executors {
		c.executors = append(c.executors, executorOf(fmt.Sprintf("executor-%03d", n), string(key.PublicPEM())))
	}
	each(tb, c.executors, func(ctx context.Context, e *v1alpha1.Executor) error { return c.Client.Create(ctx, e) })
	for _, e := range c.executors {
		c.report(tb, e)
	}
	c.serve(tb, c.leader)
	each(tb, c.others, func(_ context.Context, pod *corev1.Pod) error {
		c.serve(tb, pod)
		return nil
	})
	for _, e := range c.executors {
		eventually.Succeeds(tb, patience, func() error {
			if err := c.Client.Get(tb.Context(), client.ObjectKeyFromObject(e), e); err != nil {
				return err
			}
			return c.allServe(e)
		})
	}
	c.manager.Rest(tb, patience)
	return c
}

// allServe says what a status lacks until every replica serves the present generation.
func (c *crowd) allServe(e *v1alpha1.Executor) error {
	s := e.Status
	if s.ObservedGeneration != e.Generation || !s.Succeeded || int(s.Replicas.Ready) != len(c.others)+1 {
		return fmt.Errorf("%s, generation %d: the status is of %d, ready %s: %s", e.Name, e.Generation, s.ObservedGeneration, s.Replicas.Summary, s.Error)
	}
	return nil
}

// pod makes a pod of the installation, which does not serve.
func (c *crowd) pod(tb testing.TB, name string) *corev1.Pod {
	tb.Helper()
	pod := kubelet.Pod(fleet.Namespace, name, fleet.ServiceAccount)
	if err := c.Client.Create(tb.Context(), pod); err != nil {
		tb.Fatal(err)
	}
	return pod
}

// serve makes a pod Ready.
func (c *crowd) serve(tb testing.TB, pod *corev1.Pod) {
	before := pod.DeepCopy()
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if err := c.Client.Status().Patch(tb.Context(), pod, client.MergeFrom(before)); err != nil {
		tb.Errorf("make pod %s Ready: %v", pod.Name, err)
	}
}

// executorOf is an Executor with a scope of its own and one key.
func executorOf(name, pem string) *v1alpha1.Executor {
	return &v1alpha1.Executor{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.ExecutorSpec{VerificationSpec: v1alpha1.VerificationSpec{
			Scopes: []v1alpha1.Scope{scopeOf(name, 0)},
			Verifiers: []v1alpha1.Verifier{{Name: "builders", Cosign: &v1alpha1.CosignVerifier{
				TransparencyLog: v1alpha1.Ignored,
				Keys:            []v1alpha1.CosignKey{{Name: "k1", PEMSource: v1alpha1.PEMSource{Material: v1alpha1.Material{Inline: pem}}}},
			}}},
		}},
	}
}

func scopeOf(name string, edit int) v1alpha1.Scope {
	return v1alpha1.Scope(fmt.Sprintf("bench.test/%s/%d", name, edit))
}

// report waits until the manager has reported on an Executor, and makes the other replicas report the same for the first
// time.
func (c *crowd) report(tb testing.TB, e *v1alpha1.Executor) {
	tb.Helper()
	said := &v1alpha1.ExecutorPodStatus{}
	eventually.Succeeds(tb, patience, func() error {
		if err := c.Client.Get(tb.Context(), client.ObjectKey{Namespace: fleet.Namespace, Name: c.nameOf(c.leader, e)}, said); err != nil {
			return err
		}
		if said.Status.ObservedGeneration != e.Generation || !said.Status.Succeeded {
			return fmt.Errorf("the leader says of %s: %+v", e.Name, said.Status)
		}
		return nil
	})
	each(tb, c.others, func(ctx context.Context, pod *corev1.Pod) error {
		report := &v1alpha1.ExecutorPodStatus{
			TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ExecutorPodStatus"},
			ObjectMeta: metav1.ObjectMeta{
				Namespace: fleet.Namespace, Name: c.nameOf(pod, e),
				Labels:          map[string]string{v1alpha1.LabelExecutorUID: string(e.UID), v1alpha1.LabelPodUID: string(pod.UID)},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
			},
			Spec: v1alpha1.ExecutorPodStatusSpec{Executor: said.Spec.Executor, Pod: v1alpha1.PodIdentity{Name: pod.Name, UID: pod.UID}},
		}
		if err := c.bare.send(ctx, write{verb: http.MethodPost, path: reportsPath, body: asJSON(tb, report)}); err != nil {
			return err
		}
		return c.bare.send(ctx, c.reportWrite(tb, pod, e, said.Status))
	})
}

const reportsPath = "/apis/gatehouse.dev/v1alpha1/namespaces/" + fleet.Namespace + "/executorpodstatuses"

func (c *crowd) nameOf(pod *corev1.Pod, e *v1alpha1.Executor) string {
	return podstatus.PackName(pod.Name, v1alpha1.ExecutorIdentity{Kind: v1alpha1.KindExecutor, Name: e.Name})
}

// reportWrite is the one write by which a replica reports something else.
func (c *crowd) reportWrite(tb testing.TB, pod *corev1.Pod, e *v1alpha1.Executor, says v1alpha1.ExecutorPodStatusStatus) write {
	tb.Helper()
	says.Process = "process-of-" + pod.Name
	now := metav1.Now()
	says.LastTransitionTime = &now
	body := map[string]any{"reason": nil, "error": nil, "briefError": nil} // what it said before goes
	if err := json.Unmarshal(asJSON(tb, says), &body); err != nil {
		tb.Fatal(err)
	}
	return write{"PATCH", reportsPath + "/" + c.nameOf(pod, e) + "/status", v1alpha1.FieldOwnerReplica, types.MergePatchType, asJSON(tb, map[string]any{"status": body})}
}

// reportAll writes what the other replicas say, as many at once as the floor, and returns when all is stored.
func (c *crowd) reportAll(tb testing.TB, e *v1alpha1.Executor, says func(*corev1.Pod) v1alpha1.ExecutorPodStatusStatus) {
	tb.Helper()
	writes := make([]write, 0, len(c.others))
	for _, pod := range c.others {
		writes = append(writes, c.reportWrite(tb, pod, e, says(pod)))
	}
	each(tb, writes, c.bare.send)
}

// await reads events until one is of an object that is right.
func await[T client.Object](tb testing.TB, events <-chan watch.Event, right func(T) error) T {
	tb.Helper()
	last := errors.New("nothing was seen")
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		select {
		case event, open := <-events:
			object, is := event.Object.(T)
			if !open || !is {
				tb.Fatalf("the watch ended: %v", event.Object)
			}
			if last = right(object); last == nil {
				return object
			}
		case <-deadline.C:
			tb.Fatalf("not within %s: %v", patience, last)
		}
	}
}
