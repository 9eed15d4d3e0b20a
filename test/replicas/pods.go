package replicas

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gatehouse-dev/gatehouse/internal/kubelet"
	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
)

// patience is for as many processes as a test runs, on a slow machine.
const patience = 3 * time.Minute

// Add makes pods one by one, with these names, and waits for nothing.
func (r *Replicas) Add(tb testing.TB, names ...string) {
	tb.Helper()
	for _, name := range names {
		if err := r.on.Client.Create(tb.Context(), kubelet.Pod(fleet.Namespace, name, fleet.ServiceAccount, "manager")); err != nil {
			tb.Fatal(err)
		}
	}
}

// Unschedulable makes a pod that fits nowhere.
func (r *Replicas) Unschedulable(tb testing.TB, name string) {
	tb.Helper()
	pod := kubelet.Pod(fleet.Namespace, name, fleet.ServiceAccount, "manager")
	pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "nowhere"}
	if err := r.on.Client.Create(tb.Context(), pod); err != nil {
		tb.Fatal(err)
	}
}

var deployment = client.ObjectKey{Namespace: fleet.Namespace, Name: "gatehouse"}

// Deploy makes the Deployment of the manifests, with so many replicas, and waits for nothing. It takes a cluster with
// controllers.
func (r *Replicas) Deploy(tb testing.TB, replicas int32) {
	tb.Helper()
	root, err := cluster.Root()
	if err != nil {
		tb.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "config/manager/deployment.yaml"))
	if err != nil {
		tb.Fatal(err)
	}
	d := &appsv1.Deployment{}
	if err := yaml.UnmarshalStrict(text, d); err != nil {
		tb.Fatal(err)
	}
	d.Spec.Replicas = &replicas
	kubelet.Claim(&d.Spec.Template.ObjectMeta, &d.Spec.Template.Spec)
	if err := r.on.Client.Create(tb.Context(), d); err != nil {
		tb.Fatal(err)
	}
}

// Scale makes the Deployment one of so many replicas, and waits for nothing.
func (r *Replicas) Scale(tb testing.TB, replicas int32) {
	tb.Helper()
	r.patch(tb, fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
}

// Upgrade makes the Deployment replace every pod, as another version of the image would, and waits until it has.
func (r *Replicas) Upgrade(tb testing.TB) {
	tb.Helper()
	r.patch(tb, fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":%q}}}}}`, time.Now().Format(time.RFC3339Nano)))
	eventually.Succeeds(tb, patience, func() error {
		d := &appsv1.Deployment{}
		if err := r.on.Client.Get(tb.Context(), deployment, d); err != nil {
			return err
		}
		s, want := d.Status, *d.Spec.Replicas
		if s.ObservedGeneration < d.Generation || s.UpdatedReplicas != want || s.Replicas != want || s.AvailableReplicas != want {
			return fmt.Errorf("the upgrade is under way: %d of %d updated, %d there, %d available (%v)", s.UpdatedReplicas, want, s.Replicas, s.AvailableReplicas, r.kubelet.Trouble())
		}
		return nil
	})
}

func (r *Replicas) patch(tb testing.TB, patch string) {
	tb.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: deployment.Namespace, Name: deployment.Name}}
	if err := r.on.Client.Patch(tb.Context(), d, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		tb.Fatal(err)
	}
}

// Delete deletes a pod, as kubectl does, and waits for nothing.
func (r *Replicas) Delete(tb testing.TB, name string) {
	tb.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: fleet.Namespace, Name: name}}
	if err := r.on.Client.Delete(tb.Context(), pod); err != nil {
		tb.Fatal(err)
	}
}

// Evict takes a pod away as the drain of its node does: again and again until every PodDisruptionBudget lets it go.
func (r *Replicas) Evict(tb testing.TB, name string) {
	tb.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: fleet.Namespace, Name: name}}
	eventually.Succeeds(tb, patience, func() error {
		err := r.on.Client.SubResource("eviction").Create(tb.Context(), pod, &policyv1.Eviction{})
		if err != nil && !apierrors.IsTooManyRequests(err) {
			tb.Fatalf("evict pod %s: %v", name, err)
		}
		return err
	})
}

// Gone waits until a pod is.
func (r *Replicas) Gone(tb testing.TB, name string) {
	tb.Helper()
	eventually.Succeeds(tb, patience, func() error {
		err := r.on.Client.Get(tb.Context(), client.ObjectKey{Namespace: fleet.Namespace, Name: name}, &corev1.Pod{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("pod %s is still there (%v, %v)", name, err, r.kubelet.Trouble())
	})
}

// Ready waits until so many replicas are Ready and no other is there, but for those that fit nowhere, and returns the
// names of their pods.
func (r *Replicas) Ready(tb testing.TB, count int) []string {
	tb.Helper()
	var names []string
	eventually.Succeeds(tb, patience, func() error {
		pods := &corev1.PodList{}
		if err := r.on.Client.List(tb.Context(), pods, client.InNamespace(fleet.Namespace), kubelet.Replicas); err != nil {
			return err
		}
		names = nil
		others := 0
		for i := range pods.Items {
			pod := &pods.Items[i]
			switch {
			case len(pod.Spec.NodeSelector) > 0:
			case pod.DeletionTimestamp == nil && ready(pod):
				names = append(names, pod.Name)
			default:
				others++
			}
		}
		if len(names) != count || others > 0 {
			return fmt.Errorf("%d replicas are Ready, %d are not or end; want %d (%v)", len(names), others, count, r.kubelet.Trouble())
		}
		return nil
	})
	return names
}

func ready(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
