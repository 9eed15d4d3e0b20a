package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/internal/child"
	"github.com/gatehouse-dev/gatehouse/internal/kubelet"
	"github.com/gatehouse-dev/gatehouse/test/faultproxy"
)

const (
	managerReadyWithin = 3 * time.Minute
	probeEvery         = 100 * time.Millisecond
	requestWithin      = 5 * time.Second
	// replicaCount is that of the manifests.
	replicaCount = 3
)

// manager is Gatehouse as config/manager installs it: a Deployment, whose pods are processes of this machine, each with
// the token of its pod.
type manager struct {
	client  client.Client
	options kubelet.Options
	// keeps says that a pod stays until its process has ended, which needs this process to let it go: not for somebody's
	// own cluster, where a demo that is killed must not leave pods that cannot be deleted.
	keeps bool

	deployed *appsv1.Deployment
	kubelet  *kubelet.Kubelet

	mu      sync.Mutex
	detour  bool              // the next pod's process goes by way of a proxy
	proxy   *faultproxy.Proxy // that of the last pod with one
	proxied string            // and the pod's name
}

// start installs the Deployment and waits until its replicas are Ready.
func (m *manager) start(ctx context.Context, p *property) error {
	manifest, err := readManifest("manager/deployment.yaml")
	if err != nil {
		return err
	}
	m.deployed = &appsv1.Deployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(manifest[0].Object, m.deployed); err != nil {
		return fmt.Errorf("config/manager/deployment.yaml: %w", err)
	}
	template := &m.deployed.Spec.Template
	kubelet.Claim(&template.ObjectMeta, &template.Spec)
	if !m.keeps {
		template.Finalizers = nil
	}
	m.options.Way = m.way
	m.options.Arguments = []string{"--registry-allow-loopback", "--log-format=text"}
	m.kubelet = kubelet.Start(ctx, m.options)
	if err := p.create(ctx, m.deployed); err != nil {
		return err
	}
	return m.await(ctx, replicaCount)
}

// scale is kubectl scale, and waits until that many are Ready and no other is left.
func (m *manager) scale(ctx context.Context, replicas int) error {
	if err := m.edit(ctx, fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)); err != nil {
		return err
	}
	return m.await(ctx, replicas)
}

// restart is kubectl rollout restart.
func (m *manager) restart(ctx context.Context) error {
	err := m.edit(ctx, fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":%q}}}}}`, time.Now().Format(time.RFC3339)))
	if err != nil {
		return err
	}
	return m.await(ctx, replicaCount)
}

func (m *manager) edit(ctx context.Context, patch string) error {
	if err := m.client.Patch(ctx, m.deployed, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		return fmt.Errorf("edit Deployment %s/%s: %w", m.deployed.Namespace, m.deployed.Name, err)
	}
	return nil
}

// await waits until the Deployment has that many replicas of its newest template, all Ready, and no other pod is left.
func (m *manager) await(ctx context.Context, replicas int) error {
	missing := ""
	err := wait.PollUntilContextTimeout(ctx, probeEvery, managerReadyWithin, true, func(ctx context.Context) (bool, error) {
		d := &appsv1.Deployment{}
		if err := m.client.Get(ctx, client.ObjectKeyFromObject(m.deployed), d); err != nil {
			return false, err
		}
		pods, err := m.pods(ctx)
		if err != nil {
			return false, err
		}
		// The Deployment's status may be of before a pod was deleted; the pods themselves are not.
		serving := 0
		for _, pod := range pods {
			if pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			}) {
				serving++
			}
		}
		s, want := d.Status, int32(replicas)
		missing = fmt.Sprintf("%d pods, %d of the newest template, %d Ready", len(pods), s.UpdatedReplicas, serving)
		return s.ObservedGeneration >= d.Generation && s.UpdatedReplicas == want && s.AvailableReplicas == want && len(pods) == replicas && serving == replicas, nil
	})
	if err != nil {
		return errors.Join(fmt.Errorf("awaited %d replicas that are Ready, for %s: %s: %w", replicas, managerReadyWithin, missing, err), m.kubelet.Trouble())
	}
	return nil
}

// pods are those of the replicas that there are.
func (m *manager) pods(ctx context.Context) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	if err := m.client.List(ctx, pods, client.InNamespace(m.options.Namespace), kubelet.Replicas); err != nil {
		return nil, fmt.Errorf("the replicas' pods: %w", err)
	}
	return pods.Items, nil
}

// follower is the pod of a replica that does not lead.
func (m *manager) follower(ctx context.Context) (*corev1.Pod, error) {
	lease := &coordinationv1.Lease{}
	if err := m.client.Get(ctx, client.ObjectKey{Namespace: m.options.Namespace, Name: "gatehouse-manager"}, lease); err != nil {
		return nil, fmt.Errorf("who leads: %w", err)
	}
	leader := ""
	if lease.Spec.HolderIdentity != nil {
		leader = *lease.Spec.HolderIdentity
	}
	pods, err := m.pods(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Name != leader && p.DeletionTimestamp == nil })
	if leader == "" || i < 0 {
		return nil, fmt.Errorf("of %d replicas %q leads, and no other is there", len(pods), leader)
	}
	return &pods[i], nil
}

// replace deletes a pod and waits until another is Ready in its place.
func (m *manager) replace(ctx context.Context, pod *corev1.Pod) error {
	if err := m.client.Delete(ctx, pod); err != nil {
		return fmt.Errorf("delete pod %s: %w", pod.Name, err)
	}
	return m.await(ctx, replicaCount)
}

// way leads the next pod's process by way of a proxy, if that was asked for.
func (m *manager) way(pod *corev1.Pod, kubeconfig string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.detour {
		return kubeconfig, nil
	}
	proxy, err := faultproxy.Run(faultproxy.Options{Kubeconfig: kubeconfig, Dir: m.options.Dir, Name: pod.Name})
	if err != nil {
		return "", err
	}
	m.detour, m.proxy, m.proxied = false, proxy, pod.Name
	return proxy.Kubeconfig, nil
}

// replaceByProxied is replace, and puts a proxy before the new one.
func (m *manager) replaceByProxied(ctx context.Context, pod *corev1.Pod) (string, *faultproxy.Proxy, error) {
	m.mu.Lock()
	m.detour = true
	m.mu.Unlock()
	if err := m.replace(ctx, pod); err != nil {
		return "", nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.detour {
		return "", nil, errors.New("no replica was started in place of one that was deleted")
	}
	return m.proxied, m.proxy, nil
}

// stop ends all replicas as Kubernetes would, and then the kubelet. It does nothing if none was started.
func (m *manager) stop(ctx context.Context) error {
	if m.kubelet == nil {
		return nil
	}
	var errs []error
	if !m.keeps {
		// While there is a kubelet: the pods' owner deletes them.
		if err := m.scale(ctx, 0); client.IgnoreNotFound(err) != nil {
			errs = append(errs, err)
		}
	}
	errs = append(errs, m.kubelet.Stop(ctx))
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.proxy != nil {
		m.proxy.Close()
	}
	return errors.Join(errs...)
}

// check says whether all replicas still run, and none has ended by itself.
func (m *manager) check() error {
	if m.kubelet == nil {
		return nil
	}
	for _, r := range m.kubelet.Replicas() {
		if r.Restarts() > 0 && !r.Ending() {
			return fmt.Errorf("the process of pod %s has ended by itself", r.Name)
		}
	}
	return m.kubelet.Trouble()
}

// logs are the ends of what the replicas have logged.
func (m *manager) logs() string {
	if m.kubelet == nil {
		return ""
	}
	var all strings.Builder
	for _, r := range m.kubelet.Replicas() {
		if text := child.Tail(r.Log, 12); text != "" {
			fmt.Fprintf(&all, "%s:\n%s\n", r.Name, text)
		}
	}
	return all.String()
}

// passes are the most reconcile passes that any replica has made, by controller: those of the one that leads, where only
// that one makes any.
func (m *manager) passes(ctx context.Context) (map[string]int, error) {
	most := map[string]int{}
	for _, r := range m.kubelet.Replicas() {
		if r.Ending() {
			continue
		}
		passes, err := passesAt(ctx, r.Metrics())
		if err != nil {
			return nil, fmt.Errorf("metrics of %s: %w", r.Name, err)
		}
		for controller, n := range passes {
			most[controller] = max(most[controller], n)
		}
	}
	return most, nil
}

func passesAt(ctx context.Context, url string) (map[string]int, error) {
	ctx, cancel := context.WithTimeout(ctx, requestWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 8<<20))
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	passes := map[string]int{}
	for _, metric := range families["controller_runtime_reconcile_total"].GetMetric() {
		passes[labelOf(metric, "controller")] += int(metric.GetCounter().GetValue())
	}
	return passes, nil
}

func labelOf(metric *dto.Metric, name string) string {
	for _, label := range metric.GetLabel() {
		if label.GetName() == name {
			return label.GetValue()
		}
	}
	return ""
}

// named is a pod by its name alone.
func (m *manager) named(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: m.options.Namespace, Name: name}}
}
