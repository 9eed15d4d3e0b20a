package gateway_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/executor"
	"github.com/gatehouse-dev/gatehouse/internal/gateway"
	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/outcome"
	"github.com/gatehouse-dev/gatehouse/internal/registry"
	"github.com/gatehouse-dev/gatehouse/internal/revision"
	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/inprocess"
)

var (
	kubernetes *cluster.Cluster
	serial     atomic.Int64
)

func TestMain(m *testing.M) {
	cluster.Main(m, cluster.Options{Audit: true}, &kubernetes, "config/crd")
}

// collected is how long the garbage collector may take: it learns of kinds that are new to it every 30 seconds.
const collected = 90 * time.Second

// patience is how long something may take to come true on a slow machine.
const patience = 30 * time.Second

// world is what one test has to itself: a namespace of a tenant, Gatehouse's own, a profile, a release, and a person's
// client.
type world struct {
	*testing.T
	client.Client
	tenant, gatehouse string
	agent             string            // the manager's user agent
	hooks             interceptor.Funcs // around what the manager sends
	release           *v1alpha1.GatewayRelease
	profile           *v1alpha1.GatewayProfile
	stop              func()
	neighbour         string         // another tenant; none if empty
	judged            bool           // Executors are compiled; otherwise the manager believes that there are none
	patient           bool           // the manager asks about an image again in an hour alone, unless an event tells it to
	live              *executor.Live // of the manager that runs
	counted           *prometheus.Registry
	witness           *executor.Witness
}

const plainProfile = `
template:
  spec:
    containers:
    - {name: gateway, volumeMounts: [{name: tmp, mountPath: /tmp}]}
    volumes:
    - {name: tmp, emptyDir: {}}
config: {mountPath: /etc/gateway}
ports: [{name: http, port: 80, targetPort: 8080}]
networkPolicy: {ingress: [{}]}
clusterRoles: [view]
`

// given makes a world with the manager running.
func given(t *testing.T, edits ...func(*v1alpha1.GatewayProfileSpec)) *world {
	t.Helper()
	w := made(t, edits...)
	w.start()
	return w
}

// made makes a world without a manager.
func made(t *testing.T, edits ...func(*v1alpha1.GatewayProfileSpec)) *world {
	t.Helper()
	w := &world{T: t, Client: inprocess.Client(t, kubernetes.Config), tenant: kubernetes.Namespace(t, "tenant"), gatehouse: kubernetes.Namespace(t, "gatehouse")}
	w.agent = "manager-of-" + w.tenant
	name := fmt.Sprintf("r%d", serial.Add(1))
	w.profile = &v1alpha1.GatewayProfile{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := yaml.UnmarshalStrict([]byte(plainProfile), &w.profile.Spec); err != nil {
		t.Fatal(err)
	}
	for _, edit := range edits {
		edit(&w.profile.Spec)
	}
	w.make(w.profile)
	w.release = &v1alpha1.GatewayRelease{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.GatewayReleaseSpec{
			Image: "registry.example.com/gateways/openshell:1", Verification: v1alpha1.VerificationDisabled,
			ProfileRef: v1alpha1.ProfileReference{Name: name},
		},
	}
	w.make(w.release)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_ = w.DeleteAllOf(ctx, &v1alpha1.GatewayInstance{}, client.InNamespace(w.tenant))
		_ = w.Delete(ctx, w.release)
		_ = w.Delete(ctx, w.profile)
	})
	return w
}

func (w *world) make(object client.Object) {
	w.Helper()
	if err := w.Create(w.Context(), object); err != nil {
		w.Fatal(err)
	}
}

// start runs a manager with the gateway controller until stop or the test's end.
func (w *world) start() {
	w.Helper()
	managed := labels.SelectorFromSet(labels.Set{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy})
	mgr := inprocess.Manager(w, kubernetes.Config, w.agent, ctrl.Options{
		NewClient: func(cfg *rest.Config, options client.Options) (client.Client, error) {
			c, err := client.NewWithWatch(cfg, options)
			if err != nil {
				return nil, err
			}
			return interceptor.NewClient(c, w.hooks), nil
		},
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{
				&appsv1.Deployment{}:            {Label: managed, Transform: gateway.Essentials},
				&corev1.Service{}:               {Label: managed, Transform: gateway.Essentials},
				&corev1.ServiceAccount{}:        {Label: managed, Transform: gateway.Essentials},
				&corev1.ConfigMap{}:             {Label: managed, Transform: gateway.Essentials},
				&networkingv1.NetworkPolicy{}:   {Label: managed, Transform: gateway.Essentials},
				&rbacv1.RoleBinding{}:           {Label: managed, Transform: gateway.Essentials},
				&policyv1.PodDisruptionBudget{}: {Label: managed, Transform: gateway.Essentials},
				&corev1.Pod{}:                   {Label: managed, Transform: gateway.Essentials},
				&appsv1.ControllerRevision{}:    {Namespaces: map[string]cache.Config{w.gatehouse: {}}},
				// Managers of other tests may still run: each sees its own tenant alone.
				&v1alpha1.GatewayInstance{}: {Namespaces: w.tenants()},
			},
		},
	})
	pool := w.executors(mgr)
	w.counted = prometheus.NewRegistry()
	err := gateway.Setup(w.Context(), mgr, gateway.Dependencies{
		Hub: mgr, Local: mgr,
		Executors:     w.live,
		Witness:       w.witness,
		Pool:          pool,
		Releases:      pool,
		MaxVerdictAge: time.Hour,
		Recorder:      mgr.GetEventRecorder("gatehouse"),
		Clock:         clock.RealClock{},
		Namespace:     w.gatehouse,
		Resync:        time.Hour,
		Workers:       4,
		Passes:        outcome.NewMetrics(prometheus.NewRegistry()),
		Registerer:    w.counted,
	})
	if err != nil {
		w.Fatal(err)
	}
	w.stop = inprocess.Run(w, mgr)
	if !mgr.GetCache().WaitForCacheSync(w.Context()) {
		w.Fatal("the caches were not filled")
	}
}

// verifications are the attempts of so far, of a metric, with an outcome.
func (w *world) verifications(metric, outcome string) float64 {
	w.Helper()
	sum, series := inprocess.Sum(w, w.counted, metric, "outcome", outcome)
	if series == 0 {
		w.Fatalf("%s is not counted by outcome %s", metric, outcome)
	}
	return sum
}

func (w *world) tenants() map[string]cache.Config {
	seen := map[string]cache.Config{w.tenant: {}}
	if w.neighbour != "" {
		seen[w.neighbour] = cache.Config{}
	}
	return seen
}

// executors adds to a manager what judges images, and returns what asks it.
func (w *world) executors(mgr ctrl.Manager) *registry.Pool {
	w.Helper()
	registries := registry.New(registry.Options{Deadline: 4 * time.Second, Reach: registry.Reach{Loopback: true}})
	options := registry.PoolOptions{BackoffBase: 100 * time.Millisecond, BackoffCap: 300 * time.Millisecond, BreakerOpen: 200 * time.Millisecond}
	if w.patient {
		options.BackoffBase, options.BackoffCap = time.Hour, time.Hour
	}
	pool := registry.NewPool(registries, options)
	if err := mgr.Add(pool); err != nil {
		w.Fatal(err)
	}
	w.live = executor.NewLive(clock.RealClock{})
	w.witness = executor.NewWitness(w.live, mgr.GetAPIReader(), w.gatehouse, 100, clock.RealClock{})
	if !w.judged {
		w.live.Expect(nil)
		return pool
	}
	if err := executor.Setup(w.Context(), mgr, executor.Dependencies{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(),
		Clock: clock.RealClock{}, Live: w.live, Board: executor.NewBoard(), Tools: executor.Tools{Registry: registries, Clock: clock.RealClock{}},
		Namespace: w.gatehouse, Resync: time.Hour, Workers: 2, Witness: w.witness,
		Passes: outcome.NewMetrics(prometheus.NewRegistry()), Registerer: prometheus.NewRegistry(),
	}); err != nil {
		w.Fatal(err)
	}
	return pool
}

// digest of a number; those of one digit are easy to read.
func digest(n int) string {
	if n < 16 {
		return "sha256:" + strings.Repeat(fmt.Sprintf("%x", n), 64)
	}
	return fmt.Sprintf("sha256:%064x", n)
}

func imageOf(n int) string { return "registry.example.com/gateways/openshell@" + digest(n) }

// accept stores the revision that the world's release has with an image and its profile as it is.
func (w *world) accept(pinned string) revision.Revision {
	w.Helper()
	ref, err := image.ParsePinned(pinned)
	if err != nil {
		w.Fatal(err)
	}
	given, err := revision.New(w.release.Name, ref, "1", w.profile.Spec)
	if err != nil {
		w.Fatal(err)
	}
	stored := given.ControllerRevision(w.gatehouse, w.release, serial.Add(1))
	if err := w.Create(w.Context(), stored); err != nil && !apierrors.IsAlreadyExists(err) {
		w.Fatal(err)
	}
	return given
}

// window edits the release's status as its own controller would.
func (w *world) window(edit func(*v1alpha1.RolloutStatus)) {
	w.Helper()
	eventually.Succeeds(w, patience, func() error {
		release := &v1alpha1.GatewayRelease{}
		if err := w.Get(w.Context(), client.ObjectKeyFromObject(w.release), release); err != nil {
			return err
		}
		if release.Status.Rollout == nil {
			release.Status.Rollout = &v1alpha1.RolloutStatus{}
		}
		edit(release.Status.Rollout)
		return w.Status().Update(w.Context(), release)
	})
}

// stable makes a revision the one that new gateways get.
func (w *world) stable(given revision.Revision, attempt int64) {
	w.Helper()
	w.window(func(r *v1alpha1.RolloutStatus) {
		r.Attempt, r.StableAttempt = attempt, attempt
		r.Target, r.Stable, r.State = given.Name(), given.Name(), v1alpha1.RolloutComplete
	})
}

// admit lets a gateway take a revision.
func (w *world) admit(g *v1alpha1.GatewayInstance, given revision.Revision, attempt int64) {
	w.Helper()
	now := w.see(g)
	w.window(func(r *v1alpha1.RolloutStatus) {
		r.Attempt, r.Target, r.State = attempt, given.Name(), v1alpha1.RolloutProgressing
		r.InFlight = []v1alpha1.InFlightGateway{{
			UID: g.UID, Namespace: g.Namespace, Name: g.Name, Attempt: attempt, Generation: now.Generation,
			AdmittedAt: metav1.Now(), WasReady: true,
		}}
	})
}

// gateway makes a gateway that follows the world's release.
func (w *world) gateway(name string, edits ...func(*v1alpha1.GatewayInstance)) *v1alpha1.GatewayInstance {
	w.Helper()
	g := &v1alpha1.GatewayInstance{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.tenant},
		Spec: v1alpha1.GatewayInstanceSpec{
			ReleaseRef: v1alpha1.ReleaseReference{Name: w.release.Name},
			Config:     map[string]v1alpha1.ConfigFile{"gateway.toml": "a"},
		},
	}
	for _, edit := range edits {
		edit(g)
	}
	w.make(g)
	return g
}

// running makes a release with a stable revision, and a gateway that runs it.
func (w *world) running(edits ...func(*v1alpha1.GatewayInstance)) *v1alpha1.GatewayInstance {
	w.Helper()
	given := w.accept(imageOf(1))
	w.stable(given, 1)
	g := w.gateway("edge", edits...)
	w.becomes(g, v1alpha1.ReasonReplicasAvailable)
	return g
}

func (w *world) see(g *v1alpha1.GatewayInstance) *v1alpha1.GatewayInstance {
	w.Helper()
	now := &v1alpha1.GatewayInstance{}
	if err := w.Get(w.Context(), client.ObjectKeyFromObject(g), now); err != nil {
		w.Fatal(err)
	}
	return now
}

// becomes waits until the gateway's Ready condition, of its current generation, has a reason.
func (w *world) becomes(g *v1alpha1.GatewayInstance, reason string) *v1alpha1.GatewayInstance {
	w.Helper()
	var now *v1alpha1.GatewayInstance
	eventually.Succeeds(w, patience, func() error {
		now = w.see(g)
		ready := meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionReady)
		switch {
		case ready == nil:
			return fmt.Errorf("no Ready condition yet")
		case ready.Reason != reason || ready.ObservedGeneration != now.Generation || now.Status.ObservedGeneration != now.Generation:
			return fmt.Errorf("Ready is %s %s of generation %d (now %d): %s", ready.Status, ready.Reason, ready.ObservedGeneration, now.Generation, ready.Message)
		}
		return nil
	})
	return now
}

// runs waits until the gateway runs an image and is Ready on it.
func (w *world) runs(g *v1alpha1.GatewayInstance, pinned string) *v1alpha1.GatewayInstance {
	w.Helper()
	var now *v1alpha1.GatewayInstance
	eventually.Succeeds(w, patience, func() error {
		now = w.see(g)
		if now.Status.Image != pinned || !meta.IsStatusConditionTrue(now.Status.Conditions, v1alpha1.ConditionReady) {
			return fmt.Errorf("it runs %q: %+v", now.Status.Image, now.Status.Conditions)
		}
		return nil
	})
	return now
}

// edit changes an object as a person would.
func edit[T client.Object](w *world, object T, change func(T)) T {
	w.Helper()
	now := object.DeepCopyObject().(T)
	eventually.Succeeds(w, patience, func() error {
		if err := w.Get(w.Context(), client.ObjectKeyFromObject(object), now); err != nil {
			return err
		}
		change(now)
		return w.Update(w.Context(), now)
	})
	return now
}

func (w *world) deployment(g *v1alpha1.GatewayInstance) *appsv1.Deployment {
	w.Helper()
	d := &appsv1.Deployment{}
	if err := w.Get(w.Context(), client.ObjectKeyFromObject(g), d); err != nil {
		w.Fatal(err)
	}
	return d
}

func (w *world) mark() cluster.Mark {
	w.Helper()
	return inprocess.Mark(w, kubernetes)
}

// writes are what the manager has sent since, less events.
func (w *world) writes(since cluster.Mark) []cluster.AuditEvent {
	w.Helper()
	return inprocess.Writes(w, kubernetes, since, w.agent, cluster.Not(cluster.OfResource("events.k8s.io", "events")))
}

func ownedObjects(g *v1alpha1.GatewayInstance) []client.Object {
	key := metav1.ObjectMeta{Namespace: g.Namespace, Name: g.Name}
	return []client.Object{
		&appsv1.Deployment{ObjectMeta: key}, &corev1.Service{ObjectMeta: key}, &corev1.ServiceAccount{ObjectMeta: key},
		&corev1.ConfigMap{ObjectMeta: key}, &networkingv1.NetworkPolicy{ObjectMeta: key},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: g.Name + ".view"}},
		&policyv1.PodDisruptionBudget{ObjectMeta: key},
	}
}

func (w *world) delete(object client.Object) {
	w.Helper()
	if err := w.Delete(w.Context(), object); err != nil {
		w.Fatal(err)
	}
}

// scale does what kubectl scale does.
func scale(w *world, g *v1alpha1.GatewayInstance, replicas int32) {
	w.Helper()
	body := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	if err := w.SubResource("scale").Update(w.Context(), w.see(g), client.WithSubResourceBody(body)); err != nil {
		w.Fatal(err)
	}
}

// aWhile is how long something must not happen to count as not happening.
const aWhile = 2 * time.Second
