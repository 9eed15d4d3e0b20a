package release_test

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/executor"
	"github.com/gatehouse-dev/gatehouse/internal/outcome"
	"github.com/gatehouse-dev/gatehouse/internal/registry"
	"github.com/gatehouse-dev/gatehouse/internal/release"
	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/faultproxy"
	testregistry "github.com/gatehouse-dev/gatehouse/test/registry"
)

// within is how long anything may take that should happen at once.
const within = 15 * time.Second

var (
	shared    *cluster.Cluster
	installed sync.Once
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	cluster.Main(m, cluster.Options{Audit: true, APIServerOnly: true}, &shared)
}

// bench is what one test works with: a registry, a namespace for Gatehouse and one for a tenant, and the controller
// under test, which it starts and stops. The gateways are played by the bench, by the rules of package rollout.
type bench struct {
	*testing.T
	client    client.Client
	hub       *testregistry.Registry
	namespace string
	tenant    string
	agent     string          // of the controller under test
	broken    map[string]bool // images on which gateways never become Ready
	deaf      bool            // gateways report, but take nothing
	blind     bool            // the controller under test believes that there are no Executors
	// maxVerdictAge of the controller under test; default an hour.
	maxVerdictAge time.Duration
	// proxy, if given, stands between the controller under test and the API server.
	proxy *faultproxy.Proxy
	// now is the time of its witness; default the real one.
	now clock.PassiveClock
}

func newBench(t *testing.T) *bench {
	t.Helper()
	installed.Do(func() {
		if err := shared.Apply(t.Context(), "config/crd"); err != nil {
			t.Fatal(err)
		}
	})
	return &bench{
		T:         t,
		client:    typed(t, shared.Config),
		hub:       testregistry.Start(t),
		namespace: shared.Namespace(t, "gatehouse"),
		tenant:    shared.Namespace(t, "tenant"),
		agent:     "release-under-test-" + rand.String(8),
		broken:    map[string]bool{},
	}
}

func scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(s))
	utilruntime.Must(v1alpha1.AddToScheme(s))
	return s
}

func typed(t *testing.T, c *rest.Config) client.Client {
	t.Helper()
	made, err := client.New(c, client.Options{Scheme: scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// controller is a manager with the controller in it, in this process.
type controller struct {
	b      *bench
	stop   func()
	passes *prometheus.Registry
	live   *executor.Live
}

// start runs the controller until the test or stop ends it. wrap, if given, stands between it and the API server.
func (b *bench) start(wrap ...func(client.Client) client.Client) *controller {
	b.Helper()
	restConfig := rest.CopyConfig(shared.Config)
	if b.proxy != nil {
		var err error
		if restConfig, err = clientcmd.BuildConfigFromFlags("", b.proxy.Kubeconfig); err != nil {
			b.Fatal(err)
		}
	}
	if b.now == nil {
		b.now = clock.RealClock{}
	}
	restConfig.UserAgent = b.agent
	mgr, err := ctrl.NewManager(restConfig, manager.Options{
		Scheme:  scheme(),
		Logger:  logr.Discard(),
		Metrics: metricsserver.Options{BindAddress: "0"},
		NewClient: func(c *rest.Config, options client.Options) (client.Client, error) {
			return client.NewWithWatch(c, options) // what the interceptor wraps
		},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
			&corev1.Secret{}:             {Namespaces: map[string]cache.Config{b.namespace: {}}},
			&corev1.ConfigMap{}:          {Namespaces: map[string]cache.Config{b.namespace: {}}},
			&appsv1.ControllerRevision{}: {Namespaces: map[string]cache.Config{b.namespace: {}}},
		}},
	})
	if err != nil {
		b.Fatal(err)
	}
	registries := registry.New(registry.Options{Deadline: 4 * time.Second, Reach: registry.Reach{Loopback: true}})
	pool := registry.NewPool(registries, registry.PoolOptions{
		BackoffBase: 100 * time.Millisecond, BackoffCap: 300 * time.Millisecond, BreakerOpen: 200 * time.Millisecond,
	})
	if err := mgr.Add(pool); err != nil {
		b.Fatal(err)
	}
	c := &controller{b: b, passes: prometheus.NewRegistry()}
	passes := outcome.NewMetrics(c.passes)
	writer := mgr.GetClient()
	for _, w := range wrap {
		writer = w(writer)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	live := executor.NewLive(clock.RealClock{})
	c.live = live
	witness := executor.NewWitness(live, mgr.GetAPIReader(), b.namespace, 100, b.now)
	if b.blind {
		live.Expect(nil)
	} else if err := executor.Setup(ctx, mgr, executor.Dependencies{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(),
		Clock: clock.RealClock{}, Live: live, Board: executor.NewBoard(), Tools: executor.Tools{Registry: registries, Clock: clock.RealClock{}},
		Namespace: b.namespace, Resync: time.Hour, Workers: 2, Witness: witness, Passes: outcome.NewMetrics(prometheus.NewRegistry()), Registerer: c.passes,
	}); err != nil {
		b.Fatal(err)
	}
	if err := release.Setup(ctx, mgr, release.Dependencies{
		Client: writer, Live: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("gatehouse"),
		Clock: clock.RealClock{}, Pool: pool, Executors: live, Witness: witness, MaxVerdictAge: cmp.Or(b.maxVerdictAge, time.Hour),
		Namespace: b.namespace, Resync: time.Hour, Workers: 2, Passes: passes, Registerer: c.passes,
	}); err != nil {
		b.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	c.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			b.Errorf("the manager ended: %v", err)
		}
	})
	b.Cleanup(c.stop)
	return c
}

// value reads one of the controller's metrics, summed over its series with these labels.
func (c *controller) value(name string, labels ...string) (sum float64, series int) {
	c.b.Helper()
	families, err := c.passes.Gather()
	if err != nil {
		c.b.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			if matches(m, labels) {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
				series++
			}
		}
	}
	return sum, series
}

func matches(m *dto.Metric, labels []string) bool {
	found := 0
	for _, label := range m.GetLabel() {
		for i := 0; i+1 < len(labels); i += 2 {
			if label.GetName() == labels[i] && label.GetValue() == labels[i+1] {
				found++
			}
		}
	}
	return found == len(labels)/2
}

// create makes an object that goes when the test ends.
func (b *bench) create(object client.Object) {
	b.Helper()
	if err := b.client.Create(b.Context(), object); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := client.IgnoreNotFound(b.client.Delete(ctx, object)); err != nil {
			b.Errorf("delete %T %s: %v", object, object.GetName(), err)
		}
	})
}

// edit changes an object as it is now.
func edit[T client.Object](b *bench, object T, change func(T)) {
	b.Helper()
	eventually.Succeeds(b.T, within, func() error {
		if err := b.client.Get(b.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		before := object.DeepCopyObject().(T)
		change(object)
		// A patch leaves alone what it does not name; an update would rewrite durations as Go writes them.
		return b.client.Patch(b.Context(), object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
}

const template = `{"spec":{"containers":[{"name":"gateway","args":["serve"]}]}}`

func (b *bench) profile() *v1alpha1.GatewayProfile {
	b.Helper()
	profile := &v1alpha1.GatewayProfile{
		ObjectMeta: metav1.ObjectMeta{Name: "profile-" + rand.String(8)},
		Spec:       v1alpha1.GatewayProfileSpec{Template: runtime.RawExtension{Raw: []byte(template)}},
	}
	b.create(profile)
	return profile
}

// release makes one of an image, over plain HTTP, with a budget of one gateway that need not be Ready for long.
func (b *bench) release(image, profile string, change ...func(*v1alpha1.GatewayRelease)) *v1alpha1.GatewayRelease {
	b.Helper()
	made := &v1alpha1.GatewayRelease{
		ObjectMeta: metav1.ObjectMeta{Name: "release-" + rand.String(8)},
		Spec: v1alpha1.GatewayReleaseSpec{
			Image:        image,
			ProfileRef:   v1alpha1.ProfileReference{Name: profile},
			Verification: v1alpha1.VerificationDisabled,
			Registry:     &v1alpha1.RegistryAccess{PlainHTTP: true},
			Rollout:      v1alpha1.RolloutSpec{MaxUnavailable: ptr.To(intOrString(1)), MinReadySeconds: ptr.To[int32](0)},
		},
	}
	for _, c := range change {
		c(made)
	}
	b.create(made)
	return made
}

// writes are what the controller under test has sent since the mark, Events apart.
func (b *bench) writes(since cluster.Mark) []string {
	b.Helper()
	events, err := shared.Writes(b.Context(), since, cluster.ByUserAgent(b.agent), cluster.Not(cluster.OfResource("events.k8s.io", "events")))
	if err != nil {
		b.Fatal(err)
	}
	var lines []string
	for _, e := range events {
		lines = append(lines, e.String())
	}
	return lines
}

func (b *bench) mark() cluster.Mark {
	b.Helper()
	mark, err := shared.Mark(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return mark
}

func (b *bench) events(object client.Object) []string {
	b.Helper()
	list := &corev1.EventList{}
	if err := b.client.List(b.Context(), list, client.InNamespace(metav1.NamespaceDefault)); err != nil {
		b.Fatal(err)
	}
	var lines []string
	for _, e := range list.Items {
		if e.InvolvedObject.UID == object.GetUID() {
			lines = append(lines, strings.Join([]string{e.Type, e.Reason, e.Message}, " "))
		}
	}
	return lines
}
