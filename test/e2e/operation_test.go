package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
	"github.com/gatehouse-dev/gatehouse/test/manager"
)

func intOrString(n int32) *intstr.IntOrString {
	v := intstr.FromInt32(n)
	return &v
}

// Fails when the manager ends with the API server, or does not find its way back: it is away for several times as long
// as the lease lasts, and the process stays the same.
func TestAnAPIServerThatGoesAwayIsSurvived(t *testing.T) {
	m := running(t)
	f := fleet.New(t, product, fleet.Options{Gateways: 3})
	f.Converged(t, f.V1)
	runs := f.Footprint(t)
	v2 := f.Push(t, "v2")
	pid := m.PID()

	if err := product.Suspend(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = product.Resume() })
	eventually.Holds(t, 15*time.Second, func() error {
		if !m.Running() {
			return errors.New("the manager has ended")
		}
		return nil
	})
	if err := product.Resume(); err != nil {
		t.Fatal(err)
	}
	if now := f.Footprint(t); asJSON(t, now) != asJSON(t, runs) {
		t.Errorf("what runs was\n%s\nand is\n%s", asJSON(t, runs), asJSON(t, now))
	}
	f.SetImage(t, f.Image("v2"))
	f.Converged(t, v2)
	if !m.Running() || m.PID() != pid {
		t.Error("it is another process that came back")
	}
	m.Ready(t)
}

// Fails when a manager that is asked to stop keeps its lease, so that the next has to wait for it to run out.
func TestAGracefulStopHandsTheLeaseOver(t *testing.T) {
	m := running(t)
	f := fleet.New(t, product, fleet.Options{})
	f.Converged(t, f.V1)
	if who := holder(t); who != m.Identity() {
		t.Fatalf("%q holds the lease", who)
	}
	if took := m.Stop(t); took > 2*time.Second {
		t.Errorf("it took %s to stop", took)
	}
	if who := holder(t); who != "" {
		t.Errorf("%q holds the lease after its end", who)
	}
	v2 := f.Push(t, "v2")
	f.SetImage(t, f.Image("v2"))
	next := manager.Start(t, product.Manager("gatehouse-1"))
	f.Converged(t, v2)
	next.Stop(t)
}

// Fails when a metric that a dashboard is built on is gone, or lies.
func TestMetricsSayWhatIsSo(t *testing.T) {
	m := running(t)
	f := fleet.New(t, product, fleet.Options{Gateways: 3})
	f.Converged(t, f.V1)
	m.Rest(t, soon)
	metrics, err := m.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, controller := range []string{"release", "gateway"} {
		labels := map[string]string{"controller": controller}
		if n := metrics.Sum("gatehouse_reconcile_total", labels); n == 0 {
			t.Errorf("gatehouse_reconcile_total counts no pass of the %s controller", controller)
		}
		if n := metrics.Sum("gatehouse_reconcile_duration_seconds", labels); n == 0 {
			t.Errorf("gatehouse_reconcile_duration_seconds has timed no pass of the %s controller", controller)
		}
	}
	for state, want := range map[string]float64{"total": 3, "updated": 3, "ready": 3, "failed": 0} {
		if n := metrics.Sum("gatehouse_release_gateways", map[string]string{"release": f.Name, "state": state}); n != want {
			t.Errorf("gatehouse_release_gateways of state %s is %v, want %v", state, n, want)
		}
	}
	if n := metrics.Sum("gatehouse_registry_requests_total", map[string]string{"outcome": "Resolved"}); n == 0 {
		t.Error("gatehouse_registry_requests_total counts no image that was resolved")
	}
	for name, family := range metrics {
		if !strings.HasPrefix(name, "gatehouse_") {
			continue
		}
		for _, series := range family.Metric {
			for _, label := range series.Label {
				if strings.Contains(label.GetValue(), "sha256:") || strings.Contains(label.GetValue(), f.Registry.Host) {
					t.Errorf("%s has the label %s=%q: images and digests are without bound", name, label.GetName(), label.GetValue())
				}
			}
		}
	}
}

// told counts the events about an object, by reason.
func told(t *testing.T, uid types.UID) map[string]int {
	t.Helper()
	var list corev1.EventList
	if err := product.Client.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, event := range list.Items {
		if event.InvolvedObject.UID == uid {
			counts[event.Reason] += int(event.Count)
		}
	}
	return counts
}

// Fails when events are sent by passes rather than by what changes, or when a transition is not told.
func TestEventsTellTransitions(t *testing.T) {
	m := running(t)
	f := fleet.New(t, product, fleet.Options{Gateways: 2})
	f.Converged(t, f.V1)
	release, gateway := f.Release(t).UID, f.Gateway(t, 0).UID
	tells := func(uid types.UID, reason string, times int) {
		t.Helper()
		eventually.Succeeds(t, soon, func() error {
			if now := told(t, uid); now[reason] != times {
				return fmt.Errorf("event %s was sent %d times, want %d: %v", reason, now[reason], times, now)
			}
			return nil
		})
	}
	tells(release, v1alpha1.ReasonRolloutComplete, 1)
	tells(gateway, v1alpha1.ReasonReplicasAvailable, 1)
	f.SetImage(t, "no tag")
	tells(release, v1alpha1.ReasonInvalidImage, 1)

	m.Rest(t, soon)
	at, err := product.Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before := m.Passes(t)
	for range 3 {
		f.Request(t)
		m.PassedAgain(t, before, 1, 2, soon)
		before = m.Rest(t, soon)
	}
	events, err := product.Sent(t.Context(), at, cluster.OfResource("", "events"))
	if err != nil {
		t.Fatal(err)
	}
	for _, event := range events {
		t.Errorf("sent without a transition: %s", event)
	}
	tells(release, v1alpha1.ReasonInvalidImage, 1)

	v2 := f.Push(t, "v2")
	f.SetImage(t, f.Image("v2"))
	f.Converged(t, v2)
	tells(release, v1alpha1.ReasonRolloutStarted, 2)
	tells(release, v1alpha1.ReasonRolloutComplete, 2)
	tells(gateway, v1alpha1.ReasonReplicasAvailable, 2)
}

// Fails when a tenant can follow a release that nobody let it use, or when one that may use it needs more than the
// cluster's own role "edit" in its namespace besides.
func TestAReleaseIsUsedByThoseWhoMayUseIt(t *testing.T) {
	running(t)
	f := fleet.New(t, product, fleet.Options{})
	f.Converged(t, f.V1)
	tenant := f.Namespaces[0]
	for _, user := range []string{"alice", "mallory"} {
		f.Make(t, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "edit-" + user},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
		})
	}
	use := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "use-" + f.Name},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"gatehouse.dev"}, Resources: []string{"gatewayreleases"}, ResourceNames: []string{f.Name}, Verbs: []string{"use"}}},
	}
	f.Make(t, use)
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: use.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: use.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "alice"}},
	}
	f.Make(t, binding)

	create := func(user, name string) error {
		as, err := fleet.NewClient(product.User(user))
		if err != nil {
			t.Fatal(err)
		}
		return as.Create(t.Context(), &v1alpha1.GatewayInstance{
			ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: name},
			Spec:       v1alpha1.GatewayInstanceSpec{ReleaseRef: v1alpha1.ReleaseReference{Name: f.Name}},
		})
	}
	// The role "edit" takes up new rules, and the policy new bindings, in a moment.
	eventually.Succeeds(t, soon, func() error { return create("alice", "by-alice") })
	eventually.Succeeds(t, soon, func() error {
		err := create("mallory", "by-mallory")
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `the verb "use"`) {
			return fmt.Errorf("mallory, who may edit gateways, is told %v", err)
		}
		return nil
	})
	f.Gateways = append(f.Gateways, client.ObjectKey{Namespace: tenant, Name: "by-alice"})
	f.Converged(t, f.V1)
}
