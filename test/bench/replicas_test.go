package bench

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/benchreport"
	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
)

// BenchmarkReplicas measures what an edit of an Executor costs until its status tells of every replica: one manager
// leads, the others are played. The floor is what nobody can do without: one write for each replica, and one.
func BenchmarkReplicas(b *testing.B) {
	for _, replicas := range []int{3, 10, 50} {
		for _, executors := range []int{10, 200} {
			b.Run(fmt.Sprintf("%dx%d", replicas, executors), func(b *testing.B) {
				measureReplicas(b, &figures, replicas, executors, 40)
			})
		}
	}
}

// Bounds of what replicas may cost: writes by the leader for one edit, and bytes of one status.
const (
	mayAggregate = 2
	mayStatus    = 32 << 10
)

func measureReplicas(tb testing.TB, to *benchreport.Report, replicas, executors, edits int) {
	tb.Helper()
	name := func(what string) string { return fmt.Sprintf("Replicas/%dx%d %s", replicas, executors, what) }
	c := newCrowd(tb, replicas, executors)
	grown := usageOf(tb, c.manager.PID())
	c.memory(tb, fmt.Sprintf("replicas-%dx%d", replicas, executors))

	profiled := c.processor(tb, fmt.Sprintf("replicas-%dx%d", replicas, executors))
	run := c.edit(tb, edits)
	profiled()
	n := float64(edits)
	to.AtMost(name("requests per edit"), float64(run.reported)/n, "requests", float64(replicas+mayAggregate))
	to.Figure(name("most requests of one edit"), float64(run.most), "requests")
	to.AtMost(name("edits that took more than that and one a second"), float64(run.beyond), "edits", 0)
	for _, kind := range kinds(run.sent) {
		to.Figure(name("the leader's: "+kind.name), float64(kind.times)/n, "per edit")
	}
	one := percentile(run.beside, 50)
	to.Against(name("last report to status, p50"), milliseconds(percentile(run.waits, 50)), milliseconds(one), "ms", 0)
	to.Against(name("last report to status, p99"), milliseconds(percentile(run.waits, 99)), milliseconds(percentile(run.beside, 99)), "ms", 0)
	to.Figure(name("cpu of the leader per edit"), milliseconds(run.cpu)/n, "ms")
	to.Figure(name("allocations of the leader per edit"), run.allocations/n, "allocations")
	to.Figure(name("memory of the leader"), mebibytes(grown.rss), "MiB")
	to.Figure(name("memory of the leader, empty"), mebibytes(c.empty.rss), "MiB")

	to.AtMost(name("status, all serve"), float64(c.statusBytes(tb, c.executors[0])), "bytes", mayStatus)
	c.fail(tb, c.executors[0])
	to.AtMost(name("status, all fail with long texts"), float64(c.statusBytes(tb, c.executors[0])), "bytes", mayStatus)

	c.manager.Kill()
	floor, sent := c.floor(tb, edits)
	to.Figure(name("floor: requests per edit"), float64(sent)/n, "requests")
	to.Against(name("edit to status, p50"), milliseconds(percentile(run.took, 50)), milliseconds(percentile(floor, 50)), "ms", 0)
}

// edited is what some edits came to.
type edited struct {
	sent           []cluster.AuditEvent // the manager's writes
	reported, most int                  // writes of reports and statuses, by anybody: of all edits, and of one
	beyond         int                  // edits with more of them than there may be in the time that passed until the next
	took, waits    []time.Duration      // from the edit, and from the last report, to the status
	beside         []time.Duration      // one write
	cpu            time.Duration
	allocations    float64
}

// edit edits one Executor after the other. Each time the others report what the leader reports, once it does.
func (c *crowd) edit(tb testing.TB, edits int) edited {
	tb.Helper()
	reports := watchFromNow(tb, c.kubernetes, &v1alpha1.ExecutorPodStatusList{}, client.MatchingLabels{v1alpha1.LabelPodUID: string(c.leader.UID)})
	statuses := watchFromNow(tb, c.kubernetes, &v1alpha1.ExecutorList{})
	beside := c.strayReport(tb)
	var out edited
	var began []time.Time
	before, allocated := usageOf(tb, c.manager.PID()), c.allocated(tb)
	for n := range edits {
		e := c.executors[n%len(c.executors)]
		e.Spec.Scopes = []v1alpha1.Scope{scopeOf(e.Name, n+1)}
		started := time.Now()
		began = append(began, started)
		c.update(tb, e)
		said := c.leaderSays(tb, reports, e)
		c.reportAll(tb, e, func(*corev1.Pod) v1alpha1.ExecutorPodStatusStatus { return said })
		reported := time.Now()
		await(tb, statuses, func(seen *v1alpha1.Executor) error {
			if seen.Name != e.Name || seen.Generation != e.Generation {
				return fmt.Errorf("%s, generation %d", seen.Name, seen.Generation)
			}
			return c.allServe(seen)
		})
		out.took, out.waits = append(out.took, time.Since(started)), append(out.waits, time.Since(reported))
		out.beside = append(out.beside, beside(n))
	}
	c.manager.Rest(tb, patience)
	began = append(began, time.Now())
	out.cpu, out.allocations = usageOf(tb, c.manager.PID()).cpu-before.cpu, c.allocated(tb)-allocated

	since := func(e cluster.AuditEvent) bool { return !e.Time.Before(began[0]) }
	var err error
	if out.sent, err = c.Sent(tb.Context(), 0, since); err != nil {
		tb.Fatal(err)
	}
	// What an edit costs besides is not about replicas: the leader stores the spec, and sends events.
	all, err := c.Writes(tb.Context(), 0, since, func(e cluster.AuditEvent) bool {
		return e.Resource == "executorpodstatuses" && e.Namespace == fleet.Namespace || e.Resource == "executors" && e.Subresource == "status"
	})
	if err != nil {
		tb.Fatal(err)
	}
	out.reported = len(all)
	for n, end := range began[1:] {
		count := 0
		for _, e := range all {
			if !e.Time.Before(began[n]) && e.Time.Before(end) {
				count++
			}
		}
		out.most = max(out.most, count)
		if count > len(c.others)+1+mayAggregate+int(end.Sub(began[n]).Seconds()) {
			out.beyond++
		}
	}
	return out
}

// update stores an edit. Status is not part of it, so there is nobody to conflict with.
func (c *crowd) update(tb testing.TB, e *v1alpha1.Executor) {
	tb.Helper()
	patch := client.RawPatch(types.MergePatchType, asJSON(tb, map[string]any{"spec": map[string]any{"scopes": e.Spec.Scopes, "verifiers": e.Spec.Verifiers}}))
	if err := c.Client.Patch(tb.Context(), e, patch); err != nil {
		tb.Fatal(err)
	}
}

// leaderSays waits for the leader's own report on the present generation.
func (c *crowd) leaderSays(tb testing.TB, reports <-chan watch.Event, e *v1alpha1.Executor) v1alpha1.ExecutorPodStatusStatus {
	tb.Helper()
	return await(tb, reports, func(seen *v1alpha1.ExecutorPodStatus) error {
		if seen.Spec.Executor.UID != e.UID || seen.Status.ObservedGeneration != e.Generation {
			return fmt.Errorf("of %s, generation %d", seen.Spec.Executor.Name, seen.Status.ObservedGeneration)
		}
		return nil
	}).Status
}

// allocated is how often the manager has allocated memory so far.
func (c *crowd) allocated(tb testing.TB) float64 {
	tb.Helper()
	metrics, err := c.manager.Metrics(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return metrics.Sum("go_memstats_mallocs_total", nil)
}

// strayReport makes a report in a namespace where nobody looks for any. What it returns writes its status once, and says
// how long that took.
func (c *crowd) strayReport(tb testing.TB) func(int) time.Duration {
	tb.Helper()
	const namespace = "default"
	stray := &v1alpha1.ExecutorPodStatus{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "stray"},
		Spec: v1alpha1.ExecutorPodStatusSpec{
			Executor: v1alpha1.ExecutorIdentity{Kind: v1alpha1.KindExecutor, Name: "stray", UID: "stray"},
			Pod:      v1alpha1.PodIdentity{Name: "stray", UID: "stray"},
		},
	}
	if err := c.Client.Create(tb.Context(), stray); err != nil {
		tb.Fatal(err)
	}
	return func(n int) time.Duration {
		started := time.Now()
		if err := c.bare.send(tb.Context(), write{
			"PATCH", "/apis/gatehouse.dev/v1alpha1/namespaces/" + namespace + "/executorpodstatuses/stray/status", v1alpha1.FieldOwnerReplica,
			types.MergePatchType, fmt.Appendf(nil, `{"status":{"inputs":"%d"}}`, n),
		}); err != nil {
			tb.Fatal(err)
		}
		return time.Since(started)
	}
}

// fail makes an Executor one that no replica can build, each for a reason that takes as much room as there is.
func (c *crowd) fail(tb testing.TB, e *v1alpha1.Executor) {
	tb.Helper()
	reports := watchFromNow(tb, c.kubernetes, &v1alpha1.ExecutorPodStatusList{}, client.MatchingLabels{v1alpha1.LabelPodUID: string(c.leader.UID)})
	statuses := watchFromNow(tb, c.kubernetes, &v1alpha1.ExecutorList{})
	e.Spec.Verifiers[0].Cosign.Keys[0].PEMSource = v1alpha1.PEMSource{Material: v1alpha1.Material{
		SecretRef: &v1alpha1.KeyReference{Name: strings.Repeat("n", 253), Key: strings.Repeat("k", 253)},
	}}
	c.update(tb, e)
	said := c.leaderSays(tb, reports, e)
	c.reportAll(tb, e, func(pod *corev1.Pod) v1alpha1.ExecutorPodStatusStatus {
		longest := said
		longest.Error = fmt.Sprintf("%.4096s", pod.Name+strings.Repeat(` cannot be read: "<&>"`, 400))
		longest.BriefError = longest.Error[:256]
		return longest
	})
	await(tb, statuses, func(seen *v1alpha1.Executor) error {
		if counts := seen.Status.Replicas; seen.Name != e.Name || int(counts.Failed) != len(c.others)+1 {
			return fmt.Errorf("%s: %+v", seen.Name, counts)
		}
		return nil
	})
}

// statusBytes is how long a status is, as the API server sends it.
func (c *crowd) statusBytes(tb testing.TB, e *v1alpha1.Executor) int {
	tb.Helper()
	text, err := c.bare.rest.Get().AbsPath("/apis/gatehouse.dev/v1alpha1/executors/" + e.Name).DoRaw(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	var object struct {
		Status json.RawMessage `json:"status"`
	}
	if err := json.Unmarshal(text, &object); err != nil {
		tb.Fatal(err)
	}
	return len(object.Status)
}

// floor sends, for each edit, one write for each replica and then that of the status. Nothing is decided or waited for.
// No manager may run.
func (c *crowd) floor(tb testing.TB, edits int) (took []time.Duration, requests int) {
	tb.Helper()
	began := time.Now()
	for n := range edits {
		e := c.executors[n%len(c.executors)]
		says := v1alpha1.ExecutorPodStatusStatus{
			ObservedGeneration: e.Generation, ServingGeneration: e.Generation, Inputs: fmt.Sprintf("%064d", n), Succeeded: true,
		}
		all := append([]*corev1.Pod{c.leader}, c.others...)
		writes := make([]write, 0, len(all))
		for _, pod := range all {
			writes = append(writes, c.reportWrite(tb, pod, e, says))
		}
		said := &v1alpha1.Executor{}
		if err := c.Client.Get(tb.Context(), client.ObjectKeyFromObject(e), said); err != nil {
			tb.Fatal(err)
		}
		for i := range said.Status.ByPod {
			said.Status.ByPod[i].Inputs = says.Inputs
		}
		last := write{
			"PATCH", "/apis/gatehouse.dev/v1alpha1/executors/" + e.Name + "/status", v1alpha1.FieldOwnerExecutor,
			types.MergePatchType, asJSON(tb, map[string]any{"status": said.Status}),
		}
		started := time.Now()
		each(tb, writes, c.bare.send)
		if err := c.bare.send(tb.Context(), last); err != nil {
			tb.Fatal(err)
		}
		took = append(took, time.Since(started))
	}
	sent, err := c.Writes(tb.Context(), 0, cluster.ByUserAgent(floorAgent), func(e cluster.AuditEvent) bool { return !e.Time.Before(began) })
	if err != nil {
		tb.Fatal(err)
	}
	return took, len(sent)
}
