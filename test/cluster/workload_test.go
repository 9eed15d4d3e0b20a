package cluster

import (
	"context"
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/test/eventually"
)

// soon is how long a busy machine may take for what takes an idle one moments.
const soon = time.Minute

// digestOf is a digest that no other test uses.
func digestOf(t *testing.T, version string) string {
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(t.Name()+version)))
}

func imageOf(digest string) string { return "registry.example.com/app@" + digest }

func deploy(t *testing.T, namespace, digest string, replicas int32) *appsv1.Deployment {
	t.Helper()
	labels := map[string]string{"app": "app"}
	zero, one := intstr.FromInt32(0), intstr.FromInt32(1)
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "app"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Strategy: appsv1.DeploymentStrategy{
				Type:          appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: &zero, MaxSurge: &one},
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: imageOf(digest)}}},
			},
		},
	}
	if err := shared.Client.Create(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	return d
}

func setDigest(t *testing.T, d *appsv1.Deployment, digest string) {
	t.Helper()
	before := d.DeepCopy()
	d.Spec.Template.Spec.Containers[0].Image = imageOf(digest)
	if err := shared.Client.Patch(t.Context(), d, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// rolledOut says whether the deployment runs its template and nothing else.
func rolledOut(ctx context.Context, d *appsv1.Deployment) error {
	if err := shared.Client.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
		return err
	}
	s, want := d.Status, *d.Spec.Replicas
	if s.ObservedGeneration != d.Generation || s.UpdatedReplicas != want || s.AvailableReplicas != want || s.Replicas != want {
		return fmt.Errorf("observed generation %d of %d, replicas %d, updated %d, available %d, want %d", s.ObservedGeneration, d.Generation, s.Replicas, s.UpdatedReplicas, s.AvailableReplicas, want)
	}
	return nil
}

// podOf returns the one pod of the digest.
func podOf(ctx context.Context, namespace, digest string) (*corev1.Pod, error) {
	var pods corev1.PodList
	if err := shared.Client.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	var found []corev1.Pod
	for _, p := range pods.Items {
		if p.Spec.Containers[0].Image == imageOf(digest) && p.DeletionTimestamp == nil {
			found = append(found, p)
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("%d pods of %s, want 1", len(found), digest)
	}
	return &found[0], nil
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// waitPod waits until the pod of the digest is as wanted.
func waitPod(t *testing.T, namespace, digest, what string, wanted func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	eventually.Succeeds(t, soon, func() (err error) {
		if pod, err = podOf(t.Context(), namespace, digest); err != nil {
			return err
		}
		if !wanted(pod) {
			return fmt.Errorf("pod %s is not %s: %+v", pod.Name, what, pod.Status)
		}
		return nil
	})
	return pod
}

func TestADeploymentRollsFromOneImageToAnother(t *testing.T) {
	t.Parallel()
	ns := shared.Namespace(t, "roll")
	d := deploy(t, ns, digestOf(t, "1"), 3)
	eventually.Succeeds(t, soon, func() error { return rolledOut(t.Context(), d) })

	setDigest(t, d, digestOf(t, "2"))
	eventually.Succeeds(t, soon, func() error { return rolledOut(t.Context(), d) })

	eventually.Succeeds(t, soon, func() error {
		var pods corev1.PodList
		if err := shared.Client.List(t.Context(), &pods, client.InNamespace(ns)); err != nil {
			return err
		}
		if len(pods.Items) != 3 {
			return fmt.Errorf("%d pods, want 3", len(pods.Items))
		}
		for _, p := range pods.Items {
			if got := p.Spec.Containers[0].Image; got != imageOf(digestOf(t, "2")) {
				return fmt.Errorf("pod %s runs %s", p.Name, got)
			}
		}
		return nil
	})
}

func TestNeverReadyPodsStopARollout(t *testing.T) {
	t.Parallel()
	ns := shared.Namespace(t, "never")
	good, bad := digestOf(t, "good"), digestOf(t, "bad")
	d := deploy(t, ns, good, 1)
	eventually.Succeeds(t, soon, func() error { return rolledOut(t.Context(), d) })
	badPods(t, bad, NeverReady)

	setDigest(t, d, bad)

	waitPod(t, ns, bad, "running", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	eventually.Holds(t, time.Second, func() error {
		pod, err := podOf(t.Context(), ns, bad)
		if err != nil {
			return err
		}
		if isReady(pod) {
			return fmt.Errorf("pod %s is ready", pod.Name)
		}
		_, err = podOf(t.Context(), ns, good)
		return err
	})

	if err := shared.Heal(t.Context(), bad); err != nil {
		t.Fatal(err)
	}
	eventually.Succeeds(t, soon, func() error { return rolledOut(t.Context(), d) })
}

func TestCrashingPodsRestart(t *testing.T) {
	t.Parallel()
	ns, digest := shared.Namespace(t, "crash"), digestOf(t, "")
	badPods(t, digest, CrashLoop)
	deploy(t, ns, digest, 1)
	waitPod(t, ns, digest, "restarted and waiting", func(p *corev1.Pod) bool {
		if len(p.Status.ContainerStatuses) == 0 {
			return false
		}
		s := p.Status.ContainerStatuses[0]
		return s.RestartCount >= 3 && s.State.Waiting != nil && s.State.Waiting.Reason == "CrashLoopBackOff" && !isReady(p)
	})
}

func TestFlappingPodsAreReadyAndUnreadyInTurn(t *testing.T) {
	t.Parallel()
	ns, digest := shared.Namespace(t, "flap"), digestOf(t, "")
	badPods(t, digest, FlapEvery(300*time.Millisecond))
	deploy(t, ns, digest, 1)
	unready := func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning && !isReady(p) }
	for range 2 {
		waitPod(t, ns, digest, "ready", isReady)
		waitPod(t, ns, digest, "unready", unready)
	}
}

func TestLatePodsBecomeReadyAfterTheDelay(t *testing.T) {
	t.Parallel()
	ns, digest := shared.Namespace(t, "late"), digestOf(t, "")
	badPods(t, digest, ReadyAfter(2*time.Second))
	deploy(t, ns, digest, 1)
	pod := waitPod(t, ns, digest, "ready", isReady)
	for _, c := range pod.Status.Conditions {
		// Times in status are whole seconds.
		if late := c.LastTransitionTime.Sub(pod.CreationTimestamp.Time); c.Type == corev1.PodReady && late < time.Second {
			t.Errorf("ready %s after it was created, want about two seconds", late)
		}
	}
}

func TestRunningPodsTurnBadAndAreHealed(t *testing.T) {
	t.Parallel()
	for _, b := range []Behaviour{NeverReady, CrashLoop, FlapEvery(200 * time.Millisecond)} {
		t.Run(b.String(), func(t *testing.T) {
			t.Parallel()
			ns, digest := shared.Namespace(t, "turn"), digestOf(t, "")
			deploy(t, ns, digest, 1)
			waitPod(t, ns, digest, "ready", isReady)

			badPods(t, digest, b)
			waitPod(t, ns, digest, "unready", func(p *corev1.Pod) bool { return !isReady(p) })

			if err := shared.Heal(t.Context(), digest); err != nil {
				t.Fatal(err)
			}
			eventually.Holds(t, time.Second, func() error {
				pod, err := podOf(t.Context(), ns, digest)
				if err == nil && !isReady(pod) {
					err = fmt.Errorf("pod %s is unready again", pod.Name)
				}
				return err
			})
		})
	}
}

func TestABehaviourIsOfOneDigestAlone(t *testing.T) {
	t.Parallel()
	ns := shared.Namespace(t, "other")
	badPods(t, digestOf(t, "bad"), NeverReady)
	deploy(t, ns, digestOf(t, "good"), 1)
	waitPod(t, ns, digestOf(t, "good"), "ready", isReady)
}

func badPods(t *testing.T, digest string, b Behaviour) {
	t.Helper()
	if err := shared.BadPods(t.Context(), digest, b); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		if err := shared.Heal(ctx, digest); err != nil {
			t.Error(err)
		}
	})
}

func TestABrokenStageDoesNotTakeTheAPIServerDown(t *testing.T) {
	ns := shared.Namespace(t, "broken")
	broken := `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: broken}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  weight: 1
  selector:
    matchExpressions:
    - jq: {key: '.metadata.name |', operator: Exists}
  steps:
  - patch: {subresource: status, root: status, type: merge, template: "phase: Failed"}
`
	if err := shared.ApplyText(t.Context(), broken); err != nil {
		t.Fatal(err)
	}
	remove := func() { deleteText(t, broken) }
	t.Cleanup(remove)
	// kwok panics at its second look at a pod.
	d := deploy(t, ns, digestOf(t, ""), 3)
	eventually.Succeeds(t, soon, func() error { return logged("kwok ended and is started again") })
	eventually.Holds(t, time.Second, func() error {
		return shared.Client.List(t.Context(), &corev1.NodeList{})
	})

	remove()

	// The more often it has ended, the longer it is until it is started again.
	eventually.Succeeds(t, 3*soon, func() error { return rolledOut(t.Context(), d) })
}
