package podstatus

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/faultproxy"
)

// Who starts, is not scheduled, ends, or is not of the installation moves nothing but a count. Who serves and has not
// reported keeps an Executor from being Ready.
func TestOnlyWhoServesCounts(t *testing.T) {
	i := newInstallation(t)
	e := i.anExecutor()
	l := i.lead(leadership{})
	i.becomes(e, counts("0 0 0 0 0"), isNotReady(v1alpha1.ReasonNoReplica, v1alpha1.ConditionReconciling), pods())
	all := i.three(l, e)

	history := i.watch(e)
	starting, pending := i.replica("starting"), i.replica("pending")
	i.serve(false, starting)
	stranger := i.pod("stranger")
	i.serve(true, stranger)
	i.becomes(e, counts("3 3 3 0 2"), isReady, pods("a+", "b+", "c+"))
	i.serve(false, all[2])
	i.becomes(e, counts("2 2 2 0 3"), isReady, pods("a+", "b+"))
	i.delete(pending, all[2])
	i.becomes(e, counts("2 2 2 0 1"), isReady, pods("a+", "b+"))
	ends := all[1]
	release := i.hold(ends)
	i.delete(ends)
	i.becomes(e, counts("1 1 1 0 2"), isReady, pods("a+"))
	history.alwaysReady(t)

	i.serve(true, starting)
	i.becomes(e, counts("2 1 1 0 1"), isNotReady(v1alpha1.ReasonNotReported, v1alpha1.ConditionReconciling), pods("starting-", "a+"))
	if want := "1/2 replicas unhealthy"; e.Status.BriefError != want || e.Status.Error != "starting: has not reported" || e.Status.Replicas.Summary != "1/2" {
		t.Errorf("%+v", e.Status)
	}
	i.reports(starting, e, serves(1, "x"))
	i.becomes(e, counts("2 2 2 0 1"), isReady, pods("a+", "starting+"))
	release()
}

// An edit: the status follows what the replicas report, generation by generation.
func TestAStatusFollowsTheReports(t *testing.T) {
	i := newInstallation(t)
	e := i.anExecutor()
	l := i.lead(leadership{})
	all := i.three(l, e)

	i.edit(e, "b.test/*")
	i.becomes(e, counts("3 3 0 0 0"), isNotReady(v1alpha1.ReasonNotReported, v1alpha1.ConditionReconciling))
	bad := broke(2, v1alpha1.ReasonMaterialMissing, "verifier builders: key k1: Secret gone not found")
	l.says(e, bad)
	for _, pod := range all {
		i.reports(pod, e, bad)
	}
	i.becomes(e, counts("3 3 0 3 0"), isNotReady(v1alpha1.ReasonMaterialMissing, v1alpha1.ConditionStalled), pods("a-", "b-", "c-"))
	if s := e.Status; s.BriefError != "3/3 replicas unhealthy" || !strings.HasPrefix(s.Error, "a: verifier builders: key k1: Secret gone not found\nb: ") ||
		s.ByPod[0].ObservedGeneration != 2 || s.ByPod[0].ServingGeneration != 1 || s.ByPod[0].BriefError != bad.BriefError {
		t.Errorf("%+v", s)
	}

	i.edit(e, "c.test/*")
	l.says(e, serves(3, "z"))
	for _, pod := range all {
		i.reports(pod, e, serves(3, "z"))
	}
	i.becomes(e, counts("3 3 3 0 0"), isReady)

	// A replica that misses a rotation is the odd one out, by what it trusts.
	l.says(e, serves(3, "rotated"))
	i.reports(all[0], e, serves(3, "rotated"))
	i.reports(all[2], e, serves(3, "rotated"))
	i.becomes(e, counts("3 3 2 0 0"), isNotReady(v1alpha1.ReasonTrustDiffers, v1alpha1.ConditionReconciling), pods("b-", "a+", "c+"))
	if want := "b: trusts other keys or certificates: inputs z, not rotated"; e.Status.Error != want {
		t.Errorf("%q, want %q", e.Status.Error, want)
	}
	i.reports(all[1], e, serves(3, "rotated"))
	i.becomes(e, isReady)
	if ready := meta.FindStatusCondition(e.Status.Conditions, v1alpha1.ConditionReady); ready.Message != "generation 3 serves, inputs rotated" {
		t.Error(ready.Message)
	}
}

// Pods and reports come by two watches. A pod that is seen Ready before its report is, and a report that is seen to go
// before its pod is, flap nothing.
func TestOneWatchMayBeAheadOfTheOther(t *testing.T) {
	i := newInstallation(t)
	e := i.anExecutor()
	proxy, config := i.throughProxy()
	l := i.lead(leadership{config: config})
	all := i.three(l, e)
	history := i.watch(e)

	release := proxy.Hold(ofReports)
	late := i.replica("late")
	i.reports(late, e, serves(1, "x"))
	i.serve(true, late)
	i.becomes(e, counts("4 4 4 0 0"), isReady)
	release()

	release = proxy.Hold(faultproxy.Of("", "pods"))
	gone := i.reports(all[0], e, serves(1, "x"))
	i.delete(all[0], gone)
	i.becomes(e, counts("3 3 3 0 1"), isReady, pods("b+", "c+", "late+"))
	release()
	i.becomes(e, counts("3 3 3 0 0"), isReady)
	history.alwaysReady(t)
}

// That one watch may be ahead is a reason to look again, and none to go on saying what is not so: whoever cannot be asked
// about is taken for what was heard.
func TestWhoCannotBeLookedUpIsNotReady(t *testing.T) {
	for name, fault := range map[string]faultproxy.Fault{
		"forbidden": faultproxy.Fail(http.StatusForbidden), "hangs": faultproxy.Hang(), "fails": faultproxy.Fail(http.StatusInternalServerError),
		"throttled": faultproxy.Throttle("1"),
	} {
		t.Run(name, func(t *testing.T) {
			i := newInstallation(t)
			e := i.anExecutor()
			proxy, config := i.throughProxy()
			l := i.lead(leadership{config: config})
			all := i.three(l, e)
			proxy.Script(faultproxy.Rule{When: func(r faultproxy.Request) bool { return r.Verb == "get" && r.Namespace == i.namespace }, Fault: fault})
			rotated := time.Now()
			l.says(e, serves(1, "rotated"))
			i.becomes(e, counts("3 3 0 0 0"), isNotReady(v1alpha1.ReasonTrustDiffers, v1alpha1.ConditionReconciling))
			if took := time.Since(rotated); took > 5*time.Second {
				t.Errorf("it said for %s that all is well", took)
			}
			for _, pod := range all {
				i.reports(pod, e, serves(1, "rotated"))
			}
			i.becomes(e, isReady)
		})
	}
}

// Nor does one that cannot be asked about keep the others waiting.
func TestManyWhoCannotBeLookedUpAreNotReadyInTime(t *testing.T) {
	for name, fault := range map[string]faultproxy.Fault{"hangs": faultproxy.Hang(), "fails": faultproxy.Fail(http.StatusInternalServerError)} {
		t.Run(name, func(t *testing.T) {
			i := newInstallation(t)
			proxy, config := i.throughProxy()
			l := i.lead(leadership{config: config})
			pod := i.replica("a")
			i.serve(true, pod)
			many := make([]*v1alpha1.Executor, 16)
			for n := range many {
				many[n] = i.executor("executor-"+rand.String(8), v1alpha1.Scope(fmt.Sprintf("%d.test/*", n)))
				l.says(many[n], serves(1, "x"))
				i.reports(pod, many[n], serves(1, "x"))
			}
			for _, e := range many {
				i.becomes(e, isReady)
			}
			proxy.Script(faultproxy.Rule{When: func(r faultproxy.Request) bool { return r.Verb == "get" && r.Namespace == i.namespace }, Fault: fault})
			rotated := time.Now()
			for _, e := range many {
				l.says(e, serves(1, "rotated"))
			}
			for _, e := range many {
				i.becomes(e, isNotReady(v1alpha1.ReasonTrustDiffers, v1alpha1.ConditionReconciling))
			}
			if took := time.Since(rotated); took > 5*time.Second {
				t.Errorf("it said for %s that all is well", took)
			}
		})
	}
}

// The entry of a pod that is gone leaves at once, without anybody who collects its reports; they are swept.
func TestEntriesOfPodsThatAreGoneLeaveWithoutAGarbageCollector(t *testing.T) {
	i := newInstallation(t)
	e := i.anExecutor()
	l := i.lead(leadership{})
	all := i.three(l, e)
	release := i.hold(i.reports(all[1], e, serves(1, "x")))
	i.delete(all[1])
	gone := time.Now()
	i.becomes(e, counts("2 2 2 0 0"), isReady, pods("a+", "c+"))
	if took := time.Since(gone); took > 5*time.Second {
		t.Errorf("the entry went after %s", took)
	}
	i.hasReportsOf("a", "b", "c")
	release()
	i.hasReportsOf("a", "c")
}

// hold keeps an object there, whoever deletes it, until it is released.
func (i *installation) hold(object client.Object) (release func()) {
	i.Helper()
	set := func(finalizers string) {
		i.Helper()
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":`+finalizers+`}}`))
		i.must(i.client.Patch(i.Context(), object, patch))
	}
	set(`["gatehouse.test/hold"]`)
	return func() { i.Helper(); set("[]") }
}

// A pod that comes back under a name, and an Executor that is created anew, inherit nothing: neither entries nor reports.
func TestWhatIsMadeAnewIsSaidNothingOf(t *testing.T) {
	i := newInstallation(t)
	e := i.anExecutor()
	l := i.lead(leadership{})
	all := i.three(l, e)
	release := i.hold(i.reports(all[1], e, serves(1, "x")))
	i.delete(all[1])
	again := i.replica("b")
	i.serve(true, again)
	i.becomes(e, counts("3 2 2 0 0"), isNotReady(v1alpha1.ReasonNotReported, v1alpha1.ConditionReconciling), pods("b-", "a+", "c+"))
	// Nor is it helped by a report under a name that is not its own.
	i.reportsAs("made-up", again, e, serves(1, "x"))
	i.serve(false, all[2])
	i.becomes(e, counts("2 1 1 0 1"), isNotReady(v1alpha1.ReasonNotReported, v1alpha1.ConditionReconciling), pods("b-", "a+"))
	i.serve(true, all[2])
	release()
	i.reports(again, e, serves(1, "x"))
	i.becomes(e, counts("3 3 3 0 0"), isReady)

	// And so does an Executor that is created anew: the same name, and the same generation.
	name := e.Name
	i.must(i.client.Delete(t.Context(), e))
	e = i.executor(name, "a.test/*")
	i.becomes(e, counts("3 0 0 0 0"), isNotReady(v1alpha1.ReasonNotReported, v1alpha1.ConditionReconciling), pods("a-", "b-", "c-"))
}

// A report under the UID of another's pod says nothing of that pod, and hides nothing that it says itself.
func TestAReportOfAnothersUIDHidesNothing(t *testing.T) {
	i := newInstallation(t)
	e := i.anExecutor()
	l := i.lead(leadership{})
	all := i.three(l, e)
	for n := range 20 { // whichever of them is looked at last
		pretender := all[1].DeepCopy()
		pretender.Name = fmt.Sprintf("pretender-%d", n)
		i.reports(pretender, e, broke(1, v1alpha1.ReasonInvalidSpec, "forged"))
	}
	i.serve(false, all[2])
	i.becomes(e, counts("2 2 2 0 1"), isReady, pods("a+", "b+"))
	i.reports(all[1], e, serves(1, "odd"))
	i.becomes(e, counts("2 2 1 0 1"), isNotReady(v1alpha1.ReasonTrustDiffers, v1alpha1.ConditionReconciling), pods("b-", "a+"))
	i.serve(true, all[2]) // while it is not Ready, nobody looks again
	i.becomes(e, counts("3 3 2 0 0"), isNotReady(v1alpha1.ReasonTrustDiffers, v1alpha1.ConditionReconciling), pods("b-", "a+", "c+"))
}

// A status is stored whatever a report says: what would not fit it is no report.
func TestNoReportKeepsAStatusFromBeingStored(t *testing.T) {
	i := newInstallation(t)
	e := i.anExecutor()
	l := i.lead(leadership{})
	all := i.three(l, e)
	for _, reason := range []string{"in words", "9", "trailing:", "é", "\u0000"} {
		before := i.reports(all[1], e, serves(1, "x"))
		says := before.DeepCopy()
		says.Status.Succeeded, says.Status.Reason = false, reason
		if err := i.client.Status().Update(t.Context(), says); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "write reason as one word") {
			t.Errorf("reason %q: %v", reason, err)
		}
	}
	// Whatever is as long as it may be, in the widest of characters.
	wide := func(n int) string { return strings.Repeat("\U0001F512", n) }
	i.reports(all[1], e, &report{ObservedGeneration: 1, Process: wide(63), Inputs: wide(64), Reason: strings.Repeat("x", 64), Error: wide(4096), BriefError: wide(256)})
	i.becomes(e, counts("3 3 2 1 0"), isNotReady(strings.Repeat("x", 64), v1alpha1.ConditionReconciling), pods("b-", "a+", "c+"))
}

// hasReportsOf waits until exactly these pods have reports.
func (i *installation) hasReportsOf(names ...string) {
	i.Helper()
	eventually.Succeeds(i.T, within, func() error {
		list := &v1alpha1.ExecutorPodStatusList{}
		i.must(i.client.List(i.Context(), list, client.InNamespace(i.namespace)))
		var have []string
		for _, r := range list.Items {
			have = append(have, r.Spec.Pod.Name)
		}
		if fmt.Sprint(have) != fmt.Sprint(names) {
			return fmt.Errorf("%d reports, of %.10v, want %v", len(have), have, names)
		}
		return nil
	})
}

// Reports that nobody has a pod for are swept, a thousand of them as one. Those of a pod that is no longer called a
// replica stay.
func TestAThousandOrphansAreSwept(t *testing.T) {
	i := newInstallation(t)
	e := i.anExecutor()
	l := i.lead(leadership{})
	l.says(e, serves(1, "x"))
	renamed := i.replica("a")
	i.reports(renamed, e, serves(1, "x"))
	i.serve(true, renamed)
	i.becomes(e, counts("1 1 1 0 0"), isReady)
	before := renamed.DeepCopy()
	renamed.Labels = nil
	i.must(i.client.Patch(t.Context(), renamed, client.MergeFrom(before)))
	i.becomes(e, counts("0 0 0 0 0"), isNotReady(v1alpha1.ReasonNoReplica, v1alpha1.ConditionReconciling))
	i.orphans(1000)
	i.hasReportsOf("a")
}

// orphans makes reports of pods that there are not.
func (i *installation) orphans(count int) {
	i.Helper()
	const workers = 8
	failed := make(chan error, workers)
	for worker := range workers {
		go func() {
			for n := worker; n < count; n += workers {
				if err := i.client.Create(i.Context(), &v1alpha1.ExecutorPodStatus{
					ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: fmt.Sprintf("orphan-%d", n)},
					Spec: v1alpha1.ExecutorPodStatusSpec{
						Executor: v1alpha1.ExecutorIdentity{Kind: v1alpha1.KindExecutor, Name: "gone-" + rand.String(8), UID: uuid.NewUUID()},
						Pod:      v1alpha1.PodIdentity{Name: "gone-" + rand.String(8), UID: uuid.NewUUID()},
					},
				}); err != nil {
					failed <- err
					return
				}
			}
			failed <- nil
		}()
	}
	for range workers {
		i.must(<-failed)
	}
}

// That the cache has no pod to a report is a hint: the API server may have it.
func TestAStalePodCacheSweepsNobodyAlive(t *testing.T) {
	i := newInstallation(t)
	e := i.anExecutor()
	proxy, config := i.throughProxy()
	l := i.lead(leadership{config: config})
	i.three(l, e)
	defer proxy.Hold(faultproxy.Of("", "pods"))()
	unseen := i.replica("d")
	alive := i.reports(unseen, e, serves(1, "x"))
	i.orphans(1) // when it is swept, so would be the other
	i.hasReportsOf("a", "b", "c", "d")
	i.isStill(alive)
}

// isStill demands that a report is there, and not another under its name.
func (i *installation) isStill(report *v1alpha1.ExecutorPodStatus) {
	i.Helper()
	now := &v1alpha1.ExecutorPodStatus{}
	if err := i.client.Get(i.Context(), client.ObjectKeyFromObject(report), now); err != nil || now.UID != report.UID {
		i.Errorf("the report of %s was deleted: UID %s, was %s (%v)", report.Spec.Pod.Name, now.UID, report.UID, err)
	}
}

// A report that was made again, by a pod that came back under the name, is another than the one that is to be swept.
func TestASweepSparesWhatWasMadeAgain(t *testing.T) {
	i := newInstallation(t)
	e := i.anExecutor()
	gone, lost := i.replica("a"), i.replica("b")
	seen := staleReports{reports: []v1alpha1.ExecutorPodStatus{*i.reports(gone, e, serves(1, "x")), *i.reports(lost, e, serves(1, "x"))}}
	i.delete(gone, lost)
	alive := i.reports(i.replica("a"), e, serves(1, "y"))
	s := newSweeper(AggregatorDependencies{Client: i.client, Reader: i.client, Clock: clock.RealClock{}, Namespace: i.namespace, Resync: time.Hour}, seen, logr.Discard())
	i.must(s.sweep(t.Context()))
	i.hasReportsOf("a")
	i.isStill(alive)
}

// A report that cannot be deleted keeps no other one.
func TestASweepGoesOnAfterWhatCannotBeDeleted(t *testing.T) {
	i := newInstallation(t)
	e := i.anExecutor()
	kept, others := i.replica("a"), []*corev1.Pod{i.replica("b"), i.replica("c")}
	seen := staleReports{reports: []v1alpha1.ExecutorPodStatus{*i.reports(kept, e, serves(1, "x"))}}
	i.delete(kept)
	for _, pod := range others {
		seen.reports = append(seen.reports, *i.reports(pod, e, serves(1, "x")))
		i.delete(pod)
	}
	refusing := interceptor.NewClient(i.client, interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
		if o.GetName() == seen.reports[0].Name {
			return errors.New("a webhook says no")
		}
		return c.Delete(ctx, o, options...)
	}})
	s := newSweeper(AggregatorDependencies{Client: refusing, Reader: i.client, Clock: clock.RealClock{}, Namespace: i.namespace, Resync: time.Hour}, seen, logr.Discard())
	err := s.sweep(t.Context())
	if want := "1 of 3 reports are left; the first: delete ExecutorPodStatus " + i.namespace + "/" + seen.reports[0].Name + ": a webhook says no"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	i.hasReportsOf("a")
}

// staleReports is a cache of reports as they were.
type staleReports struct {
	cache.Cache
	reports []v1alpha1.ExecutorPodStatus
}

func (s staleReports) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*v1alpha1.ExecutorPodStatusList).Items = s.reports
	return nil
}

// An orphan that somebody's finalizer keeps is deleted once, and not with every sweep.
func TestAnOrphanThatAFinalizerKeepsIsDeletedOnce(t *testing.T) {
	i := newInstallation(t)
	orphan := &v1alpha1.ExecutorPodStatus{
		ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: "orphan", Finalizers: []string{"gatehouse.test/hold"}},
		Spec: v1alpha1.ExecutorPodStatusSpec{
			Executor: v1alpha1.ExecutorIdentity{Kind: v1alpha1.KindExecutor, Name: "gone", UID: uuid.NewUUID()},
			Pod:      v1alpha1.PodIdentity{Name: "gone", UID: uuid.NewUUID()},
		},
	}
	i.must(i.client.Create(t.Context(), orphan))
	since := i.mark()
	l := i.lead(leadership{resync: time.Second})
	deletions := func() int {
		events, err := shared.Writes(t.Context(), since, cluster.ByUserAgent(l.agent), cluster.OfResource("gatehouse.dev", "executorpodstatuses"))
		i.must(err)
		return len(events)
	}
	eventually.Succeeds(t, within, func() error {
		if deletions() == 0 {
			return errors.New("the orphan is not deleted")
		}
		return nil
	})
	eventually.Holds(t, 4*time.Second, func() error { return nil }) // three resyncs
	if n := deletions(); n != 1 {
		t.Errorf("it is deleted %d times", n)
	}
	i.must(i.client.Get(t.Context(), client.ObjectKeyFromObject(orphan), orphan))
	orphan.Finalizers = nil
	i.must(i.client.Update(t.Context(), orphan))
	i.hasReportsOf()
}

// However reports come in, a status is written twice at once and then once in a second; and at rest it is not written.
func TestWritesAreFew(t *testing.T) {
	i := newInstallation(t)
	e := i.anExecutor()
	l := i.lead(leadership{resync: time.Second})
	all := i.three(l, e)
	eventually.Holds(t, 2500*time.Millisecond, func() error { return nil }) // the allowance is whole again

	mark, began := i.mark(), time.Now()
	i.edit(e, "b.test/*")
	l.says(e, serves(2, "y"))
	for _, pod := range all {
		i.reports(pod, e, serves(2, "y"))
	}
	i.becomes(e, isReady)
	if writes := l.writes(mark); len(writes) > 2+int(time.Since(began)/time.Second) {
		t.Errorf("an edit cost %d writes:\n%s", len(writes), strings.Join(writes, "\n"))
	}

	mark, began = i.mark(), time.Now()
	for n := range 25 { // as slowly as is worst: each after the last was taken in
		i.reports(all[n%3], e, serves(2, fmt.Sprintf("x%d", n)))
		eventually.Holds(t, 2*quiet, func() error { return nil })
	}
	l.says(e, serves(2, "z"))
	for _, pod := range all {
		i.reports(pod, e, serves(2, "z"))
	}
	i.becomes(e, isReady, func(s *v1alpha1.ExecutorStatus) error {
		if s.ByPod[0].Inputs != "z" {
			return errors.New("not the last report")
		}
		return nil
	})
	if writes := l.writes(mark); len(writes) > 3+int(time.Since(began)/time.Second) {
		t.Errorf("reports that came in for %s cost %d writes:\n%s", time.Since(began), len(writes), strings.Join(writes, "\n"))
	}

	bad := broke(2, v1alpha1.ReasonUnreadable, "cannot be read")
	i.reports(all[0], e, bad)
	i.becomes(e, isNotReady(v1alpha1.ReasonUnreadable, v1alpha1.ConditionReconciling))
	mark = i.mark()
	eventually.Holds(t, 3*time.Second, func() error { return nil }) // three resyncs
	if writes := l.writes(mark); len(writes) > 0 {
		t.Errorf("at rest:\n%s", strings.Join(writes, "\n"))
	}
}

// Whoever leads next knows all that happened while nobody did. Who does not lead looks at no report of others.
func TestTheNextLeaderIsRight(t *testing.T) {
	i := newInstallation(t)
	e := i.anExecutor()
	first := i.lead(leadership{elect: true})
	candidate := i.lead(leadership{elect: true, syncWithin: time.Second})
	all := i.three(first, e)
	watched := &watched{}
	second := i.lead(leadership{elect: true, config: watched.config()})
	second.says(e, serves(2, "y"))
	eventually.Succeeds(t, within, func() error {
		if watched.pods.Load() == 0 || watched.executors.Load() == 0 {
			return errors.New("the second is not warm yet")
		}
		return nil
	})
	if n := watched.reports.Load(); n > 0 {
		t.Errorf("a process that does not lead asked %d times for reports", n)
	}

	// One that never leads waits for nothing that only the leader has.
	eventually.Holds(t, 2*time.Second, func() error { return nil })
	candidate.stop()

	i.edit(e, "b.test/*")
	for _, pod := range all[:2] {
		i.reports(pod, e, serves(2, "y"))
	}
	first.stop()
	i.delete(all[2])
	led := time.Now()
	i.becomes(e, counts("2 2 2 0 0"), isReady, pods("a+", "b+"))
	if took := time.Since(led); took > 10*time.Second {
		t.Errorf("it was right after %s", took)
	}
	if watched.reports.Load() == 0 {
		t.Error("the leader does not watch the reports, or this does not see it")
	}
	i.hasReportsOf("a", "b")
}

// Out of a cluster the status is this process's own words.
func TestAlone(t *testing.T) {
	i := newInstallation(t)
	e := i.anExecutor()
	pod := i.replica("a") // is nobody's business
	i.serve(true, pod)
	l := i.lead(leadership{alone: true})
	l.says(e, serves(1, "x"))
	i.becomes(e, counts("1 1 1 0 0"), isReady, pods())

	trouble := kept(1, "x")
	l.says(e, trouble)
	i.becomes(e, counts("1 1 1 0 0"), pods(), func(s *v1alpha1.ExecutorStatus) error {
		reconciling := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReconciling)
		if !s.Succeeded || s.Error != trouble.Error || s.BriefError != trouble.BriefError || !meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionReady) ||
			reconciling == nil || reconciling.Reason != v1alpha1.ReasonUnreadable {
			return errors.New("trouble in spite of which it serves")
		}
		return nil
	})
	i.edit(e, "b.test/*")
	bad := broke(2, v1alpha1.ReasonInvalidSpec, "verifier builders: no PEM")
	l.says(e, bad)
	i.becomes(e, counts("1 1 0 1 0"), isNotReady(v1alpha1.ReasonInvalidSpec, v1alpha1.ConditionStalled), pods(), func(s *v1alpha1.ExecutorStatus) error {
		if s.Error != bad.Error || s.BriefError != bad.BriefError {
			return errors.New("other words")
		}
		return nil
	})
	l.says(e, serves(2, "y"))
	i.becomes(e, isReady)
}

// Both of two Executors with an equal scope say so, and no longer when one of them gives it up.
func TestSharedScopesAreSaid(t *testing.T) {
	i := newInstallation(t)
	one, other := i.executor("one-"+rand.String(8), "shared.test/app"), i.executor("other-"+rand.String(8), "shared.test/app")
	l := i.lead(leadership{alone: true})
	shared := func(e, rival *v1alpha1.Executor) {
		t.Helper()
		l.says(e, serves(e.Generation, "x"))
		i.becomes(e, func(s *v1alpha1.ExecutorStatus) error {
			condition := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionSharedScope)
			if rival == nil && condition != nil || rival != nil && (condition == nil || !strings.Contains(condition.Message, rival.Name)) {
				return errors.New("SharedScope is not as it should be")
			}
			return nil
		})
	}
	shared(one, other)
	shared(other, one)
	i.edit(one, "alone.test/app")
	shared(one, nil)
	shared(other, nil)
}
