package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/benchreport"
	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
	"github.com/gatehouse-dev/gatehouse/test/manager"
)

// targets are what a fleet of a size is held to; a zero limit holds to nothing. Fixed costs count for too much in a
// small fleet.
type targets struct {
	rollout     float64 // edit until all have converged, by the floor
	restart     float64 // start until ready, by a bare list
	perGateway  float64 // KiB beyond an empty manager
	comparedTo  int     // time per gateway at this size is what time per gateway is compared to
	scale       float64 // how many times it that may be
	mayRequests float64 // mutating requests per gateway
}

// BenchmarkFleet starts the manager anew over a fleet, then edits the release and lets the whole fleet move as fast as it
// may.
func BenchmarkFleet(b *testing.B) {
	for _, size := range []struct {
		gateways int
		targets
	}{
		{100, targets{mayRequests: 3}},
		{1000, targets{mayRequests: 3, rollout: 1.5}},
		{5000, targets{mayRequests: 3, restart: 3, perGateway: 64, comparedTo: 1000, scale: 1.3}},
	} {
		b.Run(fmt.Sprint(size.gateways), func(b *testing.B) {
			measureFleet(b, &figures, size.gateways, size.targets)
		})
	}
}

func measureFleet(tb testing.TB, to *benchreport.Report, gateways int, t targets) {
	tb.Helper()
	name := func(what string) string { return fmt.Sprintf("Fleet/%d %s", gateways, what) }
	s := newStation(tb, gateways, nil)
	n := float64(gateways)
	s.measureRestart(tb, to, name, t)

	before := usageOf(tb, s.manager.PID())
	passes := s.manager.Passes(tb)
	v2 := s.Push(tb, "v2")
	started := time.Now()
	profiled := s.processor(tb, fmt.Sprintf("rollout-%d", gateways))
	took, steps := s.roll(tb, "v2", v2)
	profiled()
	made := s.manager.Rest(tb, patience)
	after := usageOf(tb, s.manager.PID())
	s.memory(tb, fmt.Sprintf("rollout-%d", gateways))
	sent := s.sent(tb, started)
	s.ConvergedWithin(tb, v2, time.Minute)

	s.manager.Kill()
	events := len(slices.DeleteFunc(slices.Clone(sent), func(e cluster.AuditEvent) bool { return e.Resource != "events" }))
	floor := s.floor(tb, steps, events)

	to.Against(name("edit to converged"), took.Seconds(), floor.Seconds(), "s", t.rollout)
	each := took.Seconds() / n * 1000
	if other, found := to.Value(fmt.Sprintf("Fleet/%d time per gateway", t.comparedTo)); found {
		to.Against(name("time per gateway"), each, other, "ms", t.scale)
	} else {
		to.Figure(name("time per gateway"), each, "ms")
	}
	ofFleet := float64(len(sent) - events - countOf(sent, "gatewayreleases") - countOf(sent, "controllerrevisions") - countOf(sent, "podtemplates"))
	to.AtMost(name("requests per gateway"), ofFleet/n, "requests", t.mayRequests)
	for _, kind := range kinds(sent) {
		to.Figure(name("requests: "+kind.name), float64(kind.times), "requests")
	}
	to.Figure(name("passes per gateway"), (made.Gateway-passes.Gateway)/n, "passes")
	to.Figure(name("passes of the release"), made.Release-passes.Release, "passes")
	to.Figure(name("cpu of the manager"), (after.cpu - before.cpu).Seconds(), "s")
	to.Figure(name("cpu of the manager per gateway"), (after.cpu-before.cpu).Seconds()/n*1000, "ms")
	to.Figure(name("peak memory"), mebibytes(after.peak), "MiB")
}

// measureRestart starts the manager anew over a fleet that has converged.
func (s *station) measureRestart(tb testing.TB, to *benchreport.Report, name func(string) string, t targets) {
	tb.Helper()
	s.manager.Kill()
	idle, list := s.bareList(tb)
	restart := s.restart(tb)
	to.AtMost(name("restart: mutating requests"), float64(restart.sent), "requests", 0)
	to.Against(name("restart: start to ready"), restart.ready.Seconds(), list.Seconds(), "s", t.restart)
	to.Figure(name("restart: list, nothing decoded"), idle.Seconds(), "s")
	beyond := float64(restart.used.rss-s.empty.rss) / float64(len(s.Gateways)) / 1024
	if t.perGateway > 0 {
		to.AtMost(name("memory per gateway"), beyond, "KiB", t.perGateway)
	} else {
		to.Figure(name("memory per gateway"), beyond, "KiB")
	}
	to.Figure(name("memory of an empty manager"), mebibytes(s.empty.rss), "MiB")
}

func mebibytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }

type kind struct {
	name  string
	times int
}

// kinds counts requests by verb, resource and answer.
func kinds(sent []cluster.AuditEvent) []kind {
	counts := map[string]int{}
	for _, e := range sent {
		what := e.Resource
		if e.Subresource != "" {
			what += "/" + e.Subresource
		}
		if e.Code >= 300 {
			what += fmt.Sprintf(" (%d)", e.Code)
		}
		counts[e.Verb+" "+what]++
	}
	out := make([]kind, 0, len(counts))
	for name, times := range counts {
		out = append(out, kind{name, times})
	}
	slices.SortFunc(out, func(a, b kind) int { return strings.Compare(a.name, b.name) })
	return out
}

func countOf(sent []cluster.AuditEvent, resource string) int {
	n := 0
	for _, e := range sent {
		if e.Resource == resource {
			n++
		}
	}
	return n
}

// bareList reads all that the manager keeps in memory, each kind at the same time, first without and then with decoding
// it. Nothing else is done with it.
func (s *station) bareList(tb testing.TB) (raw, decoded time.Duration) {
	tb.Helper()
	managed := client.MatchingLabels{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}
	own := client.InNamespace(fleet.Namespace)
	type read struct {
		path    string
		list    client.ObjectList
		options []client.ListOption
	}
	selector := "?labelSelector=" + v1alpha1.LabelManagedBy + "%3D" + v1alpha1.ManagedBy
	reads := []read{
		{"/apis/gatehouse.dev/v1alpha1/gatewayinstances", &v1alpha1.GatewayInstanceList{}, nil},
		{"/apis/gatehouse.dev/v1alpha1/gatewayreleases", &v1alpha1.GatewayReleaseList{}, nil},
		{"/apis/gatehouse.dev/v1alpha1/gatewayprofiles", &v1alpha1.GatewayProfileList{}, nil},
		{"/apis/apps/v1/deployments" + selector, &appsv1.DeploymentList{}, []client.ListOption{managed}},
		{"/api/v1/services" + selector, &corev1.ServiceList{}, []client.ListOption{managed}},
		{"/api/v1/serviceaccounts" + selector, &corev1.ServiceAccountList{}, []client.ListOption{managed}},
		{"/api/v1/configmaps" + selector, &corev1.ConfigMapList{}, []client.ListOption{managed}},
		{"/apis/networking.k8s.io/v1/networkpolicies" + selector, &networkingv1.NetworkPolicyList{}, []client.ListOption{managed}},
		{"/apis/rbac.authorization.k8s.io/v1/rolebindings" + selector, &rbacv1.RoleBindingList{}, []client.ListOption{managed}},
		{"/apis/policy/v1/poddisruptionbudgets" + selector, &policyv1.PodDisruptionBudgetList{}, []client.ListOption{managed}},
		{"/api/v1/pods" + selector, &corev1.PodList{}, []client.ListOption{managed}},
		{"/api/v1/namespaces", &corev1.NamespaceList{}, nil},
		{"/apis/apps/v1/namespaces/" + fleet.Namespace + "/controllerrevisions", &appsv1.ControllerRevisionList{}, []client.ListOption{own}},
	}
	b := newBare(tb, s.Cluster.Kubeconfig)
	raw = each(tb, reads, func(ctx context.Context, r read) error {
		_, err := b.rest.Get().RequestURI(r.path).DoRaw(ctx)
		return err
	})
	decoded = each(tb, reads, func(ctx context.Context, r read) error {
		return s.kubernetes.List(ctx, r.list, r.options...)
	})
	return raw, decoded
}

type restarted struct {
	ready time.Duration
	sent  int
	used  usage
}

// restart starts the manager over a fleet that has converged, and lets it pass over everything.
func (s *station) restart(tb testing.TB) restarted {
	tb.Helper()
	started := time.Now()
	s.manager = manager.Start(tb, s.Manager("gatehouse-0", s.arguments()...))
	s.manager.Ready(tb)
	ready := time.Since(started)
	s.manager.PassedAgain(tb, manager.Passes{}, 1, len(s.Gateways), patience)
	s.manager.Rest(tb, patience)
	used := usageOf(tb, s.manager.PID())
	s.memory(tb, fmt.Sprintf("restart-%d", len(s.Gateways)))
	return restarted{ready: ready, sent: len(s.sent(tb, started)), used: used}
}
