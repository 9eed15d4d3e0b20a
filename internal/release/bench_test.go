package release_test

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/executor"
	"github.com/gatehouse-dev/gatehouse/internal/outcome"
	"github.com/gatehouse-dev/gatehouse/internal/registry"
	"github.com/gatehouse-dev/gatehouse/internal/release"
	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/faultproxy"
	"github.com/gatehouse-dev/gatehouse/test/inprocess"
	testregistry "github.com/gatehouse-dev/gatehouse/test/registry"
)

// within is how long anything may take that should happen at once.
const within = 15 * time.Second

var shared *cluster.Cluster

func TestMain(m *testing.M) {
	cluster.Main(m, cluster.Options{Audit: true, APIServerOnly: true}, &shared, "config/crd")
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
	return &bench{
		T:         t,
		client:    inprocess.Client(t, shared.Config),
		hub:       testregistry.Start(t),
		namespace: shared.Namespace(t, "gatehouse"),
		tenant:    shared.Namespace(t, "tenant"),
		agent:     "release-under-test-" + rand.String(8),
		broken:    map[string]bool{},
	}
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
	restConfig := shared.Config
	if b.proxy != nil {
		var err error
		if restConfig, err = clientcmd.BuildConfigFromFlags("", b.proxy.Kubeconfig); err != nil {
			b.Fatal(err)
		}
	}
	if b.now == nil {
		b.now = clock.RealClock{}
	}
	mgr := inprocess.Manager(b, restConfig, b.agent, manager.Options{
		NewClient: func(c *rest.Config, options client.Options) (client.Client, error) {
			return client.NewWithWatch(c, options) // what the interceptor wraps
		},
		Cache: inprocess.Only(b.namespace, &corev1.Secret{}, &corev1.ConfigMap{}, &appsv1.ControllerRevision{}),
	})
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
	live := executor.NewLive(clock.RealClock{})
	c.live = live
	witness := executor.NewWitness(live, mgr.GetAPIReader(), b.namespace, 100, b.now)
	if b.blind {
		live.Expect(nil)
	} else if err := executor.Setup(b.Context(), mgr, executor.Dependencies{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(),
		Clock: clock.RealClock{}, Live: live, Board: executor.NewBoard(), Tools: executor.Tools{Registry: registries, Clock: clock.RealClock{}},
		Namespace: b.namespace, Resync: time.Hour, Workers: 2, Witness: witness, Passes: outcome.NewMetrics(prometheus.NewRegistry()), Registerer: c.passes,
	}); err != nil {
		b.Fatal(err)
	}
	if err := release.Setup(b.Context(), mgr, release.Dependencies{
		Client: writer, Live: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("gatehouse"),
		Clock: clock.RealClock{}, Pool: pool, Executors: live, Witness: witness, MaxVerdictAge: cmp.Or(b.maxVerdictAge, time.Hour),
		Namespace: b.namespace, Resync: time.Hour, Workers: 2, Passes: passes, Registerer: c.passes,
	}); err != nil {
		b.Fatal(err)
	}
	c.stop = inprocess.Run(b, mgr)
	return c
}

// value reads one of the controller's metrics, summed over its series with these labels.
func (c *controller) value(name string, labels ...string) (sum float64, series int) {
	c.b.Helper()
	return inprocess.Sum(c.b, c.passes, name, labels...)
}

// create makes an object that goes when the test ends.
func (b *bench) create(object client.Object) {
	b.Helper()
	inprocess.Create(b, b.client, object)
}

// edit changes an object as it is now.
func edit[T client.Object](b *bench, object T, change func(T)) {
	b.Helper()
	inprocess.Edit(b, b.client, within, object, change)
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
	return inprocess.Lines(inprocess.Writes(b, shared, since, b.agent, cluster.Not(cluster.OfResource("events.k8s.io", "events"))))
}

func (b *bench) mark() cluster.Mark {
	b.Helper()
	return inprocess.Mark(b, shared)
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
