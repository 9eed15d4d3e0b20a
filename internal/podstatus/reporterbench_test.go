package podstatus

import (
	"cmp"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/executor"
	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/faultproxy"
	"github.com/gatehouse-dev/gatehouse/test/inprocess"
)

// installation is a namespace of Gatehouse's with pods and processes in it.
type installation struct {
	*testing.T
	client    client.WithWatch
	namespace string
}

func newInstallation(t *testing.T) *installation {
	t.Helper()
	i := &installation{T: t, client: inprocess.Client(t, shared.Config), namespace: shared.Namespace(t, "gatehouse")}
	i.must(i.client.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: "default"}}))
	return i
}

func (i *installation) must(err error) {
	i.Helper()
	if err != nil {
		i.Fatal(err)
	}
}

// pod makes a pod, which nobody runs.
func (i *installation) pod(name string) *corev1.Pod {
	i.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "gatehouse.test/gatehouse:1"}}},
	}
	i.must(i.client.Create(i.Context(), pod))
	return pod
}

// process is one process in a pod: a manager with a Reporter, told by the test what there is to say.
type process struct {
	i        *installation
	pod      *corev1.Pod
	name     string
	agent    string
	board    *executor.Board
	live     *executor.Live
	reporter *Reporter
	manager  manager.Manager
	stop     func()
}

// starting shapes a process.
type starting struct {
	config *rest.Config // how it reaches the API server; default: straight, as an administrator
	resync time.Duration
	name   string             // of the process; default: one of its own
	clock  clock.PassiveClock // default: the real one
	before func(*process)     // is called before the manager starts
}

// start runs a process in a pod, which waits to be told of its initial Executors.
func (i *installation) start(pod *corev1.Pod, s starting) *process {
	i.Helper()
	if s.clock == nil {
		s.clock = clock.RealClock{}
	}
	p := &process{i: i, pod: pod, name: cmp.Or(s.name, "process-"+rand.String(8)), agent: "reporter-under-test-" + rand.String(8), board: executor.NewBoard(), live: executor.NewLive(s.clock)}
	p.manager = inprocess.Manager(i, cmp.Or(s.config, shared.Config), p.agent, manager.Options{})
	var err error
	p.reporter, err = NewReporter(p.manager, ReporterDependencies{
		Replica: Replica{Namespace: i.namespace, Pod: pod.Name, UID: pod.UID, Process: p.name},
		Board:   p.board, Live: p.live, Clock: s.clock, Resync: cmp.Or(s.resync, time.Hour),
	})
	i.must(err)
	if s.before != nil {
		s.before(p)
	}
	p.stop = inprocess.Run(i, p.manager)
	return p
}

// attempted says that all Executors of the initial list have been attempted.
func (p *process) attempted() { p.live.Expect(nil) }

// throughProxy is a way to the API server that the test can make bad.
func (i *installation) throughProxy() (*faultproxy.Proxy, *rest.Config) {
	i.Helper()
	proxy := faultproxy.Start(i.T, faultproxy.Options{Kubeconfig: shared.Kubeconfig})
	config, err := clientcmd.BuildConfigFromFlags("", proxy.Kubeconfig)
	i.must(err)
	config.QPS = -1
	return proxy, config
}

// ofReports chooses requests for reports.
var ofReports = faultproxy.Of("gatehouse.dev", "executorpodstatuses")

// writes are this process's writes of reports since a mark, those that failed included.
func (p *process) writes(since cluster.Mark) []cluster.AuditEvent {
	p.i.Helper()
	return inprocess.Writes(p.i, shared, since, p.agent)
}

func (p *process) wrote(since cluster.Mark, want int) {
	p.i.Helper()
	events := p.writes(since)
	if len(events) != want {
		p.i.Errorf("%d writes, want %d: %v", len(events), want, events)
	}
	for _, e := range events {
		if e.Code >= 400 {
			p.i.Errorf("a write was refused: %v", e)
		}
	}
}

func (i *installation) mark() cluster.Mark {
	i.Helper()
	return inprocess.Mark(i, shared)
}

// reportOn is a good report on an Executor.
func reportOn(name string, generation int64) executor.Report {
	return executor.Report{Name: types.NamespacedName{Name: name}, UID: types.UID("uid-of-" + name), Attempted: generation, Serving: generation, Inputs: fmt.Sprintf("inputs%d", generation), Succeeded: true}
}

// read is what is stored of this process's pod on an Executor.
func (p *process) read(name types.NamespacedName) (*v1alpha1.ExecutorPodStatus, error) {
	report := &v1alpha1.ExecutorPodStatus{}
	return report, p.i.client.Get(p.i.Context(), client.ObjectKey{Namespace: p.i.namespace, Name: PackName(p.pod.Name, identityOf(name, ""))}, report)
}

// stores waits until what is stored is exactly what the process says.
func (p *process) stores(said executor.Report) *v1alpha1.ExecutorPodStatus {
	p.i.Helper()
	want := written(Replica{Namespace: p.i.namespace, Process: p.name}, v1alpha1.PodIdentity{Name: p.pod.Name, UID: p.pod.UID}, said)
	var report *v1alpha1.ExecutorPodStatus
	eventually.Succeeds(p.i.T, within, func() (err error) {
		if report, err = p.read(said.Name); err != nil {
			return err
		}
		if report.Spec != want.Spec || !sameMetadata(report, want) || !sameStatus(report.Status, want.Status) {
			return fmt.Errorf("%s has %+v %v %v %+v, want %+v %v %v %+v", report.Name, report.Spec, report.Labels, report.OwnerReferences, report.Status, want.Spec, want.Labels, want.OwnerReferences, want.Status)
		}
		if report.Status.LastTransitionTime == nil {
			return errors.New("it does not say since when")
		}
		return nil
	})
	return report
}

// knows waits until the process has heard that its report on an Executor is stored, which is after it is there to be read.
func (p *process) knows(said executor.Report) {
	p.i.Helper()
	eventually.Succeeds(p.i.T, within, func() error {
		p.reporter.published.mu.Lock()
		defer p.reporter.published.mu.Unlock()
		if p.reporter.published.uids[said.Name] != said.UID {
			return fmt.Errorf("it does not know that its report on %s is stored: %v", executor.Describe(said.Name), p.reporter.published.trouble[said.Name])
		}
		return nil
	})
}

// lacks waits until there is no report of this pod on an Executor.
func (p *process) lacks(name types.NamespacedName) {
	p.i.Helper()
	eventually.Succeeds(p.i.T, within, func() error {
		switch report, err := p.read(name); {
		case err == nil:
			return fmt.Errorf("%s is there: %+v", report.Name, report.Status)
		default:
			return client.IgnoreNotFound(err)
		}
	})
}

// remembers waits until the process has so many reports in memory, and all of them are its own.
func (p *process) remembers(want int) {
	p.i.Helper()
	list := &v1alpha1.ExecutorPodStatusList{}
	eventually.Succeeds(p.i.T, within, func() error {
		p.i.must(p.reporter.reports.List(p.i.Context(), list))
		for _, report := range list.Items {
			if report.Spec.Pod.UID != p.pod.UID {
				p.i.Fatalf("%s has a report of %s in memory", p.pod.Name, report.Spec.Pod.Name)
			}
		}
		if len(list.Items) != want {
			return fmt.Errorf("%d reports are in memory, want %d", len(list.Items), want)
		}
		return nil
	})
}

// isPublished waits until the process calls its reports published.
func (p *process) isPublished() {
	p.i.Helper()
	eventually.Succeeds(p.i.T, within, func() error {
		if ok, why := p.reporter.Published(); !ok {
			return errors.New(why)
		}
		return nil
	})
}

// edit changes a report as somebody else would.
func (p *process) edit(name types.NamespacedName, change func(*v1alpha1.ExecutorPodStatus)) {
	p.i.Helper()
	eventually.Succeeds(p.i.T, within, func() error {
		report, err := p.read(name)
		if err != nil {
			return err
		}
		before := report.DeepCopy()
		change(report)
		status := report.Status
		if err := p.i.client.Patch(p.i.Context(), report, ifUnchanged(before)); err != nil {
			return err
		}
		if sameStatus(before.Status, status) {
			return nil
		}
		before = report.DeepCopy()
		report.Status = status
		return p.i.client.Status().Patch(p.i.Context(), report, ifUnchanged(before))
	})
}
