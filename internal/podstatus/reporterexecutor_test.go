package podstatus

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/executor"
	"github.com/gatehouse-dev/gatehouse/internal/outcome"
	"github.com/gatehouse-dev/gatehouse/internal/registry"
	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/inprocess"
	"github.com/gatehouse-dev/gatehouse/test/signatures/cosign"
)

// unsteady answers for Secrets with one error after the other, once it is told to.
type unsteady struct {
	client.Reader
	failing atomic.Bool
	asked   atomic.Int64
}

func (u *unsteady) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if _, ok := object.(*corev1.Secret); !ok {
		return u.Reader.Get(ctx, key, object, options...)
	}
	asked := u.asked.Add(1)
	if !u.failing.Load() {
		return u.Reader.Get(ctx, key, object, options...)
	}
	return []error{
		apierrors.NewTimeoutError("the server was not able to answer in time", 1),
		&url.Error{Op: "Get", URL: "https://10.0.0.1/api/v1/secrets", Err: syscall.ECONNREFUSED},
		context.DeadlineExceeded,
		apierrors.NewInternalError(fmt.Errorf("the %dth", asked)),
	}[asked%4]
}

// compiling is a process that compiles Executors as they are in the cluster.
type compiling struct {
	*process
	secrets *unsteady
	metrics *prometheus.Registry
}

func (i *installation) compiling(pod *corev1.Pod) *compiling {
	i.Helper()
	c := &compiling{metrics: prometheus.NewRegistry()}
	c.process = i.start(pod, starting{before: func(p *process) {
		c.secrets = &unsteady{Reader: p.manager.GetAPIReader()}
		i.must(executor.Setup(i.Context(), p.manager, executor.Dependencies{
			Client: p.manager.GetClient(), Reader: c.secrets, Clock: clock.RealClock{},
			Live: p.live, Board: p.board, Tools: executor.Tools{Registry: registry.New(registry.Options{}), Clock: clock.RealClock{}},
			Namespace: i.namespace, Resync: time.Hour, Workers: 4, Witness: executor.NewWitness(p.live, c.secrets, i.namespace, 100, clock.RealClock{}), Passes: outcome.NewMetrics(c.metrics), Registerer: c.metrics,
		}))
	}})
	return c
}

// value sums the series of a metric.
func (c *compiling) value(name string) float64 {
	c.i.Helper()
	sum, _ := inprocess.Sum(c.i, c.metrics, name)
	return sum
}

func (c *compiling) compiles() float64 { return c.value("gatehouse_executor_compiles_total") }

// quiet waits until the process has nothing to do.
func (c *compiling) quiet() {
	c.i.Helper()
	var last float64
	since := time.Now()
	eventually.Succeeds(c.i.T, within, func() error {
		if now := c.value("gatehouse_reconcile_total") + float64(c.secrets.asked.Load()); now != last {
			last, since = now, time.Now()
		}
		if quiet := time.Since(since); quiet < time.Second {
			return fmt.Errorf("the last pass was %s ago", quiet)
		}
		return nil
	})
}

// trusting makes an Executor that trusts a key in a Secret.
func (i *installation) trusting() *v1alpha1.Executor {
	i.Helper()
	key, err := cosign.NewKey(cosign.ECDSAP256)
	i.must(err)
	i.must(i.client.Create(i.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: "keys"}, Data: map[string][]byte{"a": key.PublicPEM()}}))
	return i.anExecutor()
}

// reports waits until what is stored on an Executor is as the check demands.
func (c *compiling) reports(e *v1alpha1.Executor, check func(v1alpha1.ExecutorPodStatusStatus) bool) {
	c.i.Helper()
	eventually.Succeeds(c.i.T, within, func() error {
		report, err := c.read(client.ObjectKeyFromObject(e))
		if err != nil {
			return err
		}
		if report.Status.Process != c.name || !check(report.Status) {
			return fmt.Errorf("%+v", report.Status)
		}
		return nil
	})
}

// A Secret that cannot be read, now for this reason and now for that, is reported once, and not with each retry.
func TestErrorsThatAlternateCostNoWrites(t *testing.T) {
	i := newInstallation(t)
	e := i.trusting()
	c := i.compiling(i.pod("gatehouse-0"))
	c.reports(e, func(s v1alpha1.ExecutorPodStatusStatus) bool { return s.Succeeded && s.Error == "" })

	c.secrets.failing.Store(true)
	before := e.DeepCopy()
	e.Annotations = map[string]string{v1alpha1.AnnotationReconcileRequestedAt: "now"}
	i.must(i.client.Patch(t.Context(), e, client.MergeFrom(before)))
	c.reports(e, func(s v1alpha1.ExecutorPodStatusStatus) bool {
		return s.Reason == v1alpha1.ReasonUnreadable && s.Succeeded && s.ServingGeneration == 1
	})
	// Its own next writes are events, and what the leader has to say.
	since, asked := i.mark(), c.secrets.asked.Load()
	eventually.Succeeds(t, 2*within, func() error {
		if n := c.secrets.asked.Load() - asked; n < 6 {
			return fmt.Errorf("it has tried again %d times", n)
		}
		return nil
	})
	if events := inprocess.Writes(t, shared, since, c.agent, cluster.OfResource("gatehouse.dev", "executorpodstatuses")); len(events) > 0 {
		t.Errorf("retries have cost %v", events)
	}
}

// What is written into a status, of a report or of an Executor, has nobody compile anything, nor
// even read what that would take.
func TestAStatusWriteCompilesNothing(t *testing.T) {
	i := newInstallation(t)
	e := i.trusting()
	key := client.ObjectKeyFromObject(e)
	one, other := i.compiling(i.pod("gatehouse-0")), i.compiling(i.pod("gatehouse-1"))
	both := []*compiling{one, other}
	compiled, read := map[*compiling]float64{}, map[*compiling]int64{}
	for _, c := range both {
		c.reports(e, func(s v1alpha1.ExecutorPodStatusStatus) bool { return s.Succeeded && s.ServingGeneration == 1 })
		c.quiet() // its watches began one after the other, and each has it pass over what is there
		compiled[c], read[c] = c.compiles(), c.secrets.asked.Load()
	}
	for n := range 5 {
		for _, c := range both {
			c.edit(key, func(r *v1alpha1.ExecutorPodStatus) { r.Status.Error = fmt.Sprintf("forged %d", n) })
			c.reports(e, func(s v1alpha1.ExecutorPodStatusStatus) bool { return s.Error == "" })
		}
		patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"status":{"error":"forged %d"}}`, n))
		i.must(i.client.Status().Patch(t.Context(), e.DeepCopy(), patch))
	}
	for _, c := range both {
		if n := c.compiles(); n != compiled[c] {
			t.Errorf("%v compilations after writes of status, %v before", n, compiled[c])
		}
		if n := c.secrets.asked.Load(); n != read[c] {
			t.Errorf("Secrets were read %d times after writes of status, %d before", n, read[c])
		}
	}
	eventually.Succeeds(t, within, func() error {
		if err := i.client.Get(t.Context(), key, e); err != nil {
			return err
		}
		e.Spec.Scopes = []v1alpha1.Scope{"b.test/*"}
		return i.client.Update(t.Context(), e)
	})
	for _, c := range both { // the count does count
		c.reports(e, func(s v1alpha1.ExecutorPodStatusStatus) bool { return s.ServingGeneration == e.Generation })
		if n := c.compiles(); n != compiled[c]+1 {
			t.Errorf("%v compilations after an edit, %v before", n, compiled[c])
		}
	}
	if e.Generation != 2 {
		t.Error(errors.New("the edit made no generation"))
	}
}
