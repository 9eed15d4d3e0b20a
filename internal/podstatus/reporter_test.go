package podstatus

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/executor"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/faultproxy"
)

// A new Executor costs each replica two writes, an edit one, the same said again none; at rest, and with resyncs, nobody
// writes, and none of it is ever refused.
func TestWhatAReportCosts(t *testing.T) {
	i := newInstallation(t)
	began := i.mark()
	var processes []*process
	for n := range 3 {
		p := i.start(i.pod(fmt.Sprintf("gatehouse-%d", n)), starting{resync: 300 * time.Millisecond})
		p.attempted()
		p.isPublished()
		processes = append(processes, p)
	}
	tenants := reportOn("own", 1)
	tenants.Name.Namespace = "team"
	for _, p := range processes {
		p.board.Put(reportOn("production", 1))
		p.board.Put(tenants)
	}
	for _, p := range processes {
		p.stores(tenants)
		p.stores(reportOn("production", 1))
		p.wrote(began, 4)
		p.remembers(2)
	}
	since := i.mark()
	failed := reportOn("production", 2)
	failed.Serving, failed.Succeeded, failed.Reason, failed.Error, failed.Brief = 1, false, "MaterialMissing", "key k1: not found\ngeneration 1 goes on serving", "key k1: not found"
	for _, p := range processes {
		p.board.Put(failed)
	}
	for _, p := range processes {
		p.stores(failed)
		p.board.Put(failed)
	}
	eventually.Holds(t, 2*time.Second, func() error {
		for _, p := range processes {
			if events := p.writes(since); len(events) != 1 {
				return fmt.Errorf("%d writes of one edit: %v", len(events), events)
			}
		}
		return nil
	})
	// Passes that follow close upon another do not write from what the one before has replaced.
	since = i.mark()
	for generation := range int64(30) {
		for _, p := range processes {
			p.board.Put(reportOn("production", 3+generation))
		}
	}
	for _, p := range processes {
		p.stores(reportOn("production", 32))
		for _, e := range p.writes(since) {
			if e.Code >= 400 {
				t.Errorf("a write was refused: %v", e)
			}
		}
	}
	since = i.mark()
	for _, p := range processes {
		p.board.Remove(tenants.Name)
	}
	for _, p := range processes {
		p.lacks(tenants.Name)
		p.wrote(since, 1)
	}
}

// Whatever somebody does to a report, its replica sets it back.
func TestAReportIsHealed(t *testing.T) {
	i := newInstallation(t)
	p := i.start(i.pod("gatehouse-0"), starting{})
	p.attempted()
	said := reportOn("production", 3)
	p.board.Put(said)
	p.stores(said)
	for _, test := range []struct {
		name string
		do   func(*v1alpha1.ExecutorPodStatus)
	}{
		{"the status says something else", func(r *v1alpha1.ExecutorPodStatus) { r.Status.Succeeded, r.Status.Inputs = false, "forged" }},
		{"the status says too much", func(r *v1alpha1.ExecutorPodStatus) { r.Status.Error = "forged" }},
		{"the status is of another process", func(r *v1alpha1.ExecutorPodStatus) { r.Status.Process = "another" }},
		{"the Executor's label is another", func(r *v1alpha1.ExecutorPodStatus) { r.Labels[v1alpha1.LabelExecutorUID] = "another" }},
		{"the pod's label is another, so that the replica does not see it any more", func(r *v1alpha1.ExecutorPodStatus) { r.Labels[v1alpha1.LabelPodUID] = "another" }},
		{"there are no labels", func(r *v1alpha1.ExecutorPodStatus) { r.Labels = nil }},
		{"it has no owner", func(r *v1alpha1.ExecutorPodStatus) { r.OwnerReferences = nil }},
		{"it has one owner more", func(r *v1alpha1.ExecutorPodStatus) {
			r.OwnerReferences = append(r.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "c", UID: "1"})
		}},
		{"everything at once", func(r *v1alpha1.ExecutorPodStatus) {
			r.Labels, r.OwnerReferences, r.Status = nil, nil, v1alpha1.ExecutorPodStatusStatus{}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p.edit(said.Name, test.do)
			p.stores(said)
		})
	}
	t.Run("it is deleted", func(t *testing.T) {
		report := p.stores(said)
		i.must(i.client.Delete(t.Context(), report))
		eventually.Succeeds(t, within, func() error {
			if now, err := p.read(said.Name); err != nil || now.UID == report.UID {
				return fmt.Errorf("it is still away: %v", err)
			}
			return nil
		})
		p.stores(said)
	})
	t.Run("there is another under a name that is not its own", func(t *testing.T) {
		report := p.stores(said)
		double := &v1alpha1.ExecutorPodStatus{ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: "double", Labels: report.Labels}, Spec: report.Spec}
		i.must(i.client.Create(t.Context(), double))
		eventually.Succeeds(t, within, func() error {
			if err := i.client.Get(t.Context(), client.ObjectKeyFromObject(double), double); client.IgnoreNotFound(err) != nil || err == nil {
				return fmt.Errorf("the double is there: %v", err)
			}
			return nil
		})
	})
	t.Run("a label of somebody's own is nobody's business", func(t *testing.T) {
		p.edit(said.Name, func(r *v1alpha1.ExecutorPodStatus) { r.Labels["team"] = "platform" })
		since := i.mark()
		p.board.Put(reportOn("production", 4))
		if report := p.stores(reportOn("production", 4)); report.Labels["team"] != "platform" {
			t.Errorf("it has gone: %v", report.Labels)
		}
		p.wrote(since, 1)
	})
}

// An Executor, or a pod, that is made anew under the same name gets a report of its own, and nothing of the old one.
func TestWhoIsMadeAnewInheritsNothing(t *testing.T) {
	i := newInstallation(t)
	pod := i.pod("gatehouse-0")
	old := i.start(pod, starting{})
	old.attempted()
	said := reportOn("production", 7)
	said.Succeeded, said.Error = false, "of the old one"
	old.board.Put(said)
	before := old.stores(said)

	t.Run("an Executor", func(t *testing.T) {
		anew := reportOn("production", 1)
		anew.UID = "another"
		old.board.Put(anew)
		if report := old.stores(anew); report.UID == before.UID {
			t.Error("it is the same object")
		}
		old.board.Put(said)
		before = old.stores(said)
	})
	t.Run("a pod", func(t *testing.T) {
		i.must(i.client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
		young := i.start(i.pod("gatehouse-0"), starting{})
		young.attempted()
		eventually.Succeeds(t, within, func() error {
			if ok, why := young.reporter.Published(); !ok {
				return errors.New(why)
			}
			return nil
		})
		young.board.Put(said)
		report := young.stores(said)
		if report.UID == before.UID {
			t.Error("it is the same object")
		}
		// The process of the old pod is still there: it finds out that its name is another's, and leaves that one's report alone.
		since := i.mark()
		old.board.Put(reportOn("production", 8))
		eventually.Succeeds(t, within, func() error {
			old.reporter.published.mu.Lock()
			defer old.reporter.published.mu.Unlock()
			if err := old.reporter.published.trouble[said.Name]; err == nil || !strings.Contains(err.Error(), "another pod has its name by now") {
				return fmt.Errorf("the old process has no trouble: %v", err)
			}
			return nil
		})
		young.stores(said)
		for _, e := range old.writes(since) {
			if e.Code < 400 {
				t.Errorf("the old process wrote %v", e)
			}
		}
	})
}

// A process whose container was restarted says everything anew, once, and is not Ready before it has. What its Executors
// are it knows only when all have been attempted; until then it deletes nothing.
func TestTheReportOfAProcessBeforeDoesNotCount(t *testing.T) {
	i := newInstallation(t)
	pod := i.pod("gatehouse-0")
	before := i.start(pod, starting{})
	before.attempted()
	kept, gone := reportOn("kept", 4), reportOn("gone", 2)
	before.board.Put(kept)
	before.board.Put(gone)
	before.stores(kept)
	before.stores(gone)
	before.isPublished()
	before.stop()

	since := i.mark()
	after := i.start(pod, starting{})
	after.live.Expect([]types.NamespacedName{kept.Name})
	eventually.Succeeds(t, within, func() error {
		if ok, why := after.reporter.Published(); ok || !strings.Contains(why, "not compiled yet: Executor kept") {
			return fmt.Errorf("published %t: %s", ok, why)
		}
		return nil
	})
	eventually.Holds(t, time.Second, func() error {
		if events := after.writes(since); len(events) > 0 {
			return fmt.Errorf("it has written what it does not know: %v", events)
		}
		return nil
	})
	after.board.Put(kept)
	after.live.Put(&executor.Served{Name: kept.Name, UID: kept.UID})
	after.isPublished()
	after.stores(kept)
	after.lacks(gone.Name)
	after.wrote(since, 2)
}

// A process that goes on with another manager, as after it has lost the lease, says nothing anew: what is stored is its own.
func TestAnotherManagerOfTheSameProcessWritesNothing(t *testing.T) {
	i := newInstallation(t)
	pod := i.pod("gatehouse-0")
	before := i.start(pod, starting{})
	before.attempted()
	said := reportOn("production", 4)
	before.board.Put(said)
	before.stores(said)
	before.stop()

	since := i.mark()
	after := i.start(pod, starting{name: before.name})
	after.live.Expect([]types.NamespacedName{said.Name})
	eventually.Holds(t, 2*time.Second, func() error { // with nothing on its board yet
		if ok, _ := after.reporter.Published(); ok {
			return errors.New("it is ready")
		}
		if events := after.writes(since); len(events) > 0 {
			return fmt.Errorf("it has written %v", events)
		}
		return nil
	})
	after.board.Put(said)
	after.live.Put(&executor.Served{Name: said.Name, UID: said.UID})
	after.isPublished()
	after.stores(said)
	after.wrote(since, 0)
}

// A replica becomes ready while a tenant's Executors are not attempted yet. What a process before it has said of them is
// gone by then: it would count as this one's.
func TestAReplicaThatIsReadyWithoutATenantSaysNothingOfIt(t *testing.T) {
	i := newInstallation(t)
	pod := i.pod("gatehouse-0")
	before := i.start(pod, starting{})
	before.attempted()
	clusters, tenants := reportOn("production", 4), reportOn("own", 2)
	tenants.Name.Namespace = "team"
	before.board.Put(clusters)
	before.board.Put(tenants)
	before.stores(clusters)
	before.stores(tenants)
	before.stop()

	fake := clocktesting.NewFakePassiveClock(time.Now())
	after := i.start(pod, starting{clock: fake})
	after.live.Expect([]types.NamespacedName{clusters.Name, tenants.Name})
	after.board.Put(clusters)
	after.live.Put(&executor.Served{Name: clusters.Name, UID: clusters.UID})
	after.stores(clusters)
	if ok, why := after.reporter.Published(); ok || !strings.Contains(why, "NamespacedExecutor team/own") {
		t.Errorf("published %t: %s", ok, why)
	}
	if _, err := after.read(tenants.Name); err != nil {
		t.Errorf("it is gone before there is need: %v", err)
	}
	fake.SetTime(fake.Now().Add(time.Minute))
	eventually.Succeeds(t, within, func() error {
		ok, why := after.reporter.Published()
		if report, err := after.read(tenants.Name); ok && err == nil {
			t.Fatalf("it is ready, and there is %+v of a process before it", report.Status)
		}
		if !ok {
			return errors.New(why)
		}
		return nil
	})
	after.board.Put(tenants)
	after.stores(tenants)
}

// Writes that fail because the cache is behind, or because an answer was lost, are made good; nothing is lost, and nothing
// is there twice.
func TestACacheThatIsBehindLosesNothing(t *testing.T) {
	i := newInstallation(t)
	proxy, config := i.throughProxy()
	p := i.start(i.pod("gatehouse-0"), starting{config: config})
	p.attempted()
	p.isPublished()
	release := proxy.Hold(ofReports)
	defer release()

	t.Run("what it wrote itself it knows", func(t *testing.T) {
		since := i.mark()
		p.board.Put(reportOn("a", 1))
		p.stores(reportOn("a", 1))
		p.board.Put(reportOn("a", 2))
		p.stores(reportOn("a", 2))
		p.wrote(since, 3)
		p.board.Remove(reportOn("a", 2).Name)
		p.lacks(reportOn("a", 2).Name)
		p.wrote(since, 4)
		p.board.Put(reportOn("a", 3))
		p.stores(reportOn("a", 3))
		p.wrote(since, 6)
	})
	t.Run("somebody has edited it", func(t *testing.T) {
		p.edit(reportOn("a", 3).Name, func(r *v1alpha1.ExecutorPodStatus) { r.Status.Error = "forged" })
		p.board.Put(reportOn("a", 4))
		p.stores(reportOn("a", 4))
	})
	t.Run("somebody has deleted it", func(t *testing.T) {
		i.must(i.client.Delete(t.Context(), p.stores(reportOn("a", 4))))
		p.board.Put(reportOn("a", 5))
		p.stores(reportOn("a", 5))
	})
	t.Run("there is one that it has not seen", func(t *testing.T) {
		other := written(Replica{Namespace: i.namespace}, v1alpha1.PodIdentity{Name: p.pod.Name, UID: p.pod.UID}, reportOn("b", 1))
		i.must(i.client.Create(t.Context(), other))
		p.board.Put(reportOn("b", 2))
		p.stores(reportOn("b", 2))
	})
	t.Run("there is one of another Executor that it has not seen", func(t *testing.T) {
		other := reportOn("c", 1)
		other.UID = "another"
		i.must(i.client.Create(t.Context(), written(Replica{Namespace: i.namespace}, v1alpha1.PodIdentity{Name: p.pod.Name, UID: p.pod.UID}, other)))
		p.board.Put(reportOn("c", 2))
		p.stores(reportOn("c", 2))
	})
	t.Run("answers are lost", func(t *testing.T) {
		proxy.Script(
			faultproxy.Rule{When: faultproxy.Every(ofReports, faultproxy.Verb("create")), Times: 1, Fault: faultproxy.Lost(faultproxy.Cut())},
			faultproxy.Rule{When: faultproxy.Every(ofReports, faultproxy.Verb("patch")), Times: 1, Fault: faultproxy.Lost(faultproxy.Cut())},
		)
		p.board.Put(reportOn("d", 1))
		p.stores(reportOn("d", 1))
		p.knows(reportOn("d", 1)) // it sends once more what it was not told has arrived
	})
	since, released := i.mark(), time.Now()
	release()
	for _, said := range []executor.Report{reportOn("a", 5), reportOn("b", 2), reportOn("c", 2), reportOn("d", 1)} {
		p.stores(said)
	}
	list := &v1alpha1.ExecutorPodStatusList{}
	eventually.Holds(t, time.Second, func() error {
		if err := i.client.List(t.Context(), list, client.InNamespace(i.namespace)); err != nil || len(list.Items) != 4 {
			return fmt.Errorf("%d reports, want 4: %v", len(list.Items), err)
		}
		for _, write := range p.writes(since) {
			if !write.Time.Before(released) { // one that came before is answered, and in the log, after its effect is seen
				return fmt.Errorf("what it sees at last it writes again: %v", write)
			}
		}
		return nil
	})
}

// What came and went while nothing was heard of it is announced by no event: a report that only its writer remembers is
// looked for after a while.
func TestAReportThatNoEventTellsOfIsLookedFor(t *testing.T) {
	i := newInstallation(t)
	proxy, config := i.throughProxy()
	fake := clocktesting.NewFakePassiveClock(time.Now())
	p := i.start(i.pod("gatehouse-0"), starting{config: config, clock: fake})
	p.attempted()
	p.isPublished()
	defer proxy.Hold(ofReports)()
	said := reportOn("production", 1)
	p.board.Put(said)
	report := p.stores(said)
	p.knows(said) // or the first pass would still be on its way
	i.must(i.client.Delete(t.Context(), report))
	pass := func() time.Duration {
		t.Helper()
		result, err := p.reporter.Reconcile(t.Context(), reconcile.Request{NamespacedName: said.Name})
		i.must(err)
		return result.RequeueAfter
	}
	if wait := pass(); wait <= 0 || wait > patience {
		t.Errorf("it is looked for in %s, want within %s", wait, patience)
	}
	p.lacks(said.Name)
	fake.SetTime(fake.Now().Add(patience))
	pass()
	p.stores(said)
}

// What somebody made in a pod's name holds up nothing that the pod has to say.
func TestAStrayThatCannotBeDeletedHoldsNothingUp(t *testing.T) {
	i := newInstallation(t)
	proxy, config := i.throughProxy()
	proxy.Script(faultproxy.Rule{When: faultproxy.Every(ofReports, faultproxy.Verb("delete")), Fault: faultproxy.Fail(http.StatusForbidden)})
	pod, said := i.pod("gatehouse-0"), reportOn("production", 1)
	stray := written(Replica{}, v1alpha1.PodIdentity{Name: pod.Name, UID: pod.UID}, said)
	stray.Namespace, stray.Name = i.namespace, "made-up"
	i.must(i.client.Create(t.Context(), stray))
	p := i.start(pod, starting{config: config})
	p.board.Put(said)
	p.attempted()
	p.isPublished()
	p.stores(said)
	proxy.Script()
	eventually.Succeeds(t, within, func() error {
		if err := i.client.Get(t.Context(), client.ObjectKeyFromObject(stray), stray); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the stray is there: %v", err)
		}
		return nil
	})
}

// A conflict is retried, and so is what the API server refuses; who asks whether the replica is ready is told why not.
func TestWhyAReplicaIsNotReady(t *testing.T) {
	for _, test := range []struct {
		name string
		rule faultproxy.Rule
		want []string
	}{
		{"its pod may not be read", faultproxy.Rule{When: faultproxy.Of("", "pods"), Fault: faultproxy.Fail(403)}, []string{"look up Pod", "gatehouse-0"}},
		{"reports may not be listed", faultproxy.Rule{When: faultproxy.Every(ofReports, faultproxy.Verb("list", "watch")), Fault: faultproxy.Fail(403)}, []string{"list and watch the ExecutorPodStatuses of pod gatehouse-0"}},
		{"reports may not be created", faultproxy.Rule{When: faultproxy.Every(ofReports, faultproxy.Verb("create")), Fault: faultproxy.Fail(403)}, []string{"not stored yet: Executor production", "create this replica's report on Executor production"}},
		{"their status may not be written", faultproxy.Rule{When: faultproxy.StatusOf("gatehouse.dev", "executorpodstatuses"), Fault: faultproxy.Fail(403)}, []string{"not stored yet: Executor production", "write this replica's report on Executor production"}},
		{"every write meets a conflict", faultproxy.Rule{When: faultproxy.StatusOf("gatehouse.dev", "executorpodstatuses"), Fault: faultproxy.Fail(409)}, []string{"not stored yet: Executor production", "write this replica's report"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			i := newInstallation(t)
			proxy, config := i.throughProxy()
			proxy.Script(test.rule)
			p := i.start(i.pod("gatehouse-0"), starting{config: config})
			p.board.Put(reportOn("production", 1))
			p.attempted()
			eventually.Succeeds(t, within, func() error {
				ok, why := p.reporter.Published()
				for _, text := range test.want {
					if ok || !strings.Contains(why, text) {
						return fmt.Errorf("published %t, says %q, want %q", ok, why, text)
					}
				}
				return nil
			})
			proxy.Script()
			p.isPublished()
			p.stores(reportOn("production", 1))
		})
	}
	t.Run("it is told to be another pod", func(t *testing.T) {
		i := newInstallation(t)
		pod := i.pod("gatehouse-0")
		pod.UID = "another"
		p := i.start(pod, starting{})
		p.attempted()
		eventually.Succeeds(t, within, func() error {
			if ok, why := p.reporter.Published(); ok || !strings.Contains(why, "and this process runs in the one with the UID another") {
				return fmt.Errorf("published %t: %s", ok, why)
			}
			return nil
		})
	})
}

// Once a replica is Ready, an API server that refuses its reports does not make it less so: it goes on serving.
func TestAReplicaThatServesGoesOnWithoutTheAPIServer(t *testing.T) {
	i := newInstallation(t)
	proxy, config := i.throughProxy()
	p := i.start(i.pod("gatehouse-0"), starting{config: config})
	p.attempted()
	p.board.Put(reportOn("production", 1))
	p.isPublished()
	proxy.Script(faultproxy.Rule{When: ofReports, Fault: faultproxy.Fail(500)})
	p.board.Put(reportOn("production", 2))
	p.board.Put(reportOn("another", 1))
	eventually.Succeeds(t, within, func() error {
		if proxy.Sent(faultproxy.Every(ofReports, faultproxy.Verb("patch"))) < 3 {
			return errors.New("it has not met the refusal yet")
		}
		return nil
	})
	if ok, why := p.reporter.Published(); !ok {
		t.Errorf("it is not ready any more: %s", why)
	}
	proxy.Script()
	p.stores(reportOn("production", 2))
}

// A replica that ends takes its own reports away, and no others.
func TestAReplicaThatEndsTakesItsReportsAway(t *testing.T) {
	i := newInstallation(t)
	ending, staying := i.start(i.pod("gatehouse-0"), starting{}), i.start(i.pod("gatehouse-1"), starting{})
	for _, p := range []*process{ending, staying} {
		p.attempted()
		for n := range 20 {
			p.board.Put(reportOn(fmt.Sprintf("e%d", n), 1))
		}
		p.isPublished()
	}
	staying.stores(reportOn("e0", 1))
	// Somebody has put the label of the one that ends on a report of the other.
	staying.stop()
	staying.edit(reportOn("e0", 1).Name, func(r *v1alpha1.ExecutorPodStatus) { r.Labels[v1alpha1.LabelPodUID] = string(ending.pod.UID) })
	ending.stop()
	since := i.mark()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	if deleted, err := ending.reporter.Withdraw(ctx); err != nil || deleted != 20 {
		t.Errorf("%d were deleted, want 20: %v", deleted, err)
	}
	ending.wrote(since, 20)
	list := &v1alpha1.ExecutorPodStatusList{}
	i.must(i.client.List(t.Context(), list, client.InNamespace(i.namespace)))
	for _, report := range list.Items {
		if report.Spec.Pod.Name != staying.pod.Name {
			t.Errorf("%+v is left", report.Spec)
		}
	}
	if len(list.Items) != 20 {
		t.Errorf("%d reports are left, want the 20 of the other", len(list.Items))
	}
	if deleted, err := ending.reporter.Withdraw(ctx); err != nil || deleted != 0 {
		t.Errorf("the second time: %d, %v", deleted, err)
	}
}

// A process that ends while its pod goes on, and is Ready for a moment yet, leaves what it has reported to the next one
// in the pod: nothing is missed meanwhile. Once the pod ends or is not Ready, there is nothing to miss.
func TestAProcessThatEndsInAPodThatGoesOnLeavesItsReports(t *testing.T) {
	i := newInstallation(t)
	e := i.anExecutor()
	l := i.lead(leadership{})
	l.says(e, serves(1, "x"))
	says := executor.Report{Name: client.ObjectKeyFromObject(e), UID: e.UID, Attempted: 1, Serving: 1, Inputs: "x", Succeeded: true}
	run := func(name string) *process {
		p := i.start(i.replica(name), starting{})
		p.attempted()
		p.board.Put(says)
		p.isPublished()
		p.stores(says)
		i.serve(true, p.pod)
		return p
	}
	restarted, deleted := run("restarted"), run("deleted")
	i.becomes(e, counts("2 2 2 0 0"), isReady)
	history := i.watch(e)
	withdraws := func(p *process, want int) {
		t.Helper()
		p.stop()
		if n, err := p.reporter.Withdraw(t.Context()); err != nil || n != want {
			t.Errorf("%s has deleted %d reports, want %d: %v", p.pod.Name, n, want, err)
		}
	}

	withdraws(restarted, 0)
	next := i.start(restarted.pod, starting{})
	next.attempted()
	next.board.Put(says)
	next.isPublished()
	next.stores(says)

	release := i.hold(deleted.pod)
	i.delete(deleted.pod)
	withdraws(deleted, 1)
	i.becomes(e, counts("1 1 1 0 1"), isReady)
	release()
	history.alwaysReady(t)

	i.serve(false, next.pod)
	withdraws(next, 1)
}

// A report that somebody's finalizer keeps cannot be replaced: it is said who keeps it, and once it may go it is replaced.
func TestAReportThatAFinalizerKeepsIsNamed(t *testing.T) {
	i := newInstallation(t)
	p := i.start(i.pod("gatehouse-0"), starting{})
	p.attempted()
	said := reportOn("production", 1)
	p.board.Put(said)
	p.stores(said)
	p.edit(said.Name, func(r *v1alpha1.ExecutorPodStatus) { r.Finalizers = []string{"gatehouse.test/hold"} })
	said.UID = "created-anew"
	p.board.Put(said)
	eventually.Succeeds(t, within, func() error {
		p.reporter.published.mu.Lock()
		defer p.reporter.published.mu.Unlock()
		if err := p.reporter.published.trouble[said.Name]; err == nil || !strings.Contains(err.Error(), "remove gatehouse.test/hold from its metadata.finalizers") {
			return fmt.Errorf("the trouble is said to be: %v", err)
		}
		return nil
	})
	p.edit(said.Name, func(r *v1alpha1.ExecutorPodStatus) { r.Finalizers = nil })
	p.stores(said)
}

// A replica that ends while the API server is away does not wait for it.
func TestAReplicaThatEndsDoesNotWaitForTheAPIServer(t *testing.T) {
	i := newInstallation(t)
	proxy, config := i.throughProxy()
	p := i.start(i.pod("gatehouse-0"), starting{config: config})
	p.attempted()
	p.board.Put(reportOn("production", 1))
	p.isPublished()
	p.stop()
	proxy.Script(faultproxy.Rule{When: ofReports, Fault: faultproxy.Hang()})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := p.reporter.Withdraw(ctx); err == nil {
		t.Error("it says that it has deleted its reports")
	}
	if took := time.Since(began); took > within {
		t.Errorf("it has waited for %s", took)
	}
}
