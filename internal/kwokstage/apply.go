package kwokstage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Apply makes pods of the digest behave so from now on, those that are already
// there included, and returns when they do. An earlier behaviour of the digest
// is replaced. The client must read from the API server and not from a cache.
func Apply(ctx context.Context, c client.Client, digest string, b Behaviour) error {
	stages, err := Stages(digest, b)
	if err != nil {
		return err
	}
	if err := remove(ctx, c, digest); err != nil {
		return err
	}
	for _, s := range stages {
		if err := c.Create(ctx, s); err != nil {
			return explain(fmt.Errorf("stage %s: %w", s.GetName(), err))
		}
	}
	if !b.lasts {
		return nil
	}
	// Where no pod shows that kwok knows the stage, one of our own does: others
	// that came before it does would become ready first.
	scout, err := scouted(ctx, c, digest)
	if err != nil {
		return err
	}
	defer func() {
		_ = c.Delete(context.WithoutCancel(ctx), scout, client.GracePeriodSeconds(0))
	}()
	// kwok looks at a pod only when the pod changes, and it may learn of the
	// stage after that: touch them until the stage has been seen to work.
	behaves := func(pod *corev1.Pod) bool {
		ready := readyCondition(pod)
		return ready != nil && ready.Message == message(b)
	}
	return settle(ctx, c, digest, behaves, touch(b.delay))
}

// scouted makes a pod of the digest and returns once it is on a node, where
// kwok moves it.
func scouted(ctx context.Context, c client.Client, digest string) (*corev1.Pod, error) {
	scout := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "scout-", Namespace: metav1.NamespaceDefault},
		Spec: corev1.PodSpec{
			Containers:                   []corev1.Container{{Name: "scout", Image: "scout.invalid/scout@" + digest}},
			AutomountServiceAccountToken: new(bool),
		},
	}
	if err := c.Create(ctx, scout); err != nil {
		return nil, fmt.Errorf("make a pod to see that kwok knows the stage: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, settleInterval, true, func(ctx context.Context) (bool, error) {
		err := c.Get(ctx, client.ObjectKeyFromObject(scout), scout)
		return err == nil && lives(scout), err
	})
	if err != nil {
		_ = c.Delete(context.WithoutCancel(ctx), scout, client.GracePeriodSeconds(0))
		return nil, fmt.Errorf("pod %s was not scheduled: %w", client.ObjectKeyFromObject(scout), err)
	}
	return scout, nil
}

// Heal takes the behaviour of the digest away: its pods become ready. It does
// nothing if the digest had none.
func Heal(ctx context.Context, c client.Client, digest string) error {
	if !digestPattern.MatchString(digest) {
		return fmt.Errorf("digest %q: want sha256: and 64 hexadecimal digits", digest)
	}
	if err := remove(ctx, c, digest); err != nil {
		return err
	}
	// kwok's own stage makes pending pods ready and leaves running ones alone.
	healed := func(pod *corev1.Pod) bool {
		ready := readyCondition(pod)
		switch {
		case ready == nil:
			return false
		case ready.Message == message(ReadyAfter(0)):
			return true
		default:
			return ready.Status == corev1.ConditionTrue && !strings.HasPrefix(ready.Message, messagePrefix)
		}
	}
	return settle(ctx, c, digest, healed, reset)
}

func remove(ctx context.Context, c client.Client, digest string) error {
	var list unstructured.UnstructuredList
	list.SetGroupVersionKind(GroupVersionKind)
	if err := c.List(ctx, &list, client.MatchingLabels{digestLabel: labelValue(digest)}); err != nil {
		return explain(fmt.Errorf("list stages: %w", err))
	}
	for i := range list.Items {
		if err := c.Delete(ctx, &list.Items[i]); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("stage %s: %w", list.Items[i].GetName(), err)
		}
	}
	return nil
}

const (
	settleInterval = 250 * time.Millisecond
	settleTimeout  = time.Minute
)

// settle changes the pods of the digest that are not as wanted until all are.
func settle(ctx context.Context, c client.Client, digest string, wanted func(*corev1.Pod) bool, change func(context.Context, client.Client, *corev1.Pod) error) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	var missing string
	err := wait.PollUntilContextCancel(ctx, settleInterval, true, func(ctx context.Context) (bool, error) {
		pods, err := podsOf(ctx, c, digest)
		if err != nil {
			return false, err
		}
		missing = ""
		for i := range pods {
			pod := &pods[i]
			if !lives(pod) || wanted(pod) {
				continue
			}
			missing = client.ObjectKeyFromObject(pod).String()
			// A pod that is gone or changed meanwhile is looked at again.
			if err := change(ctx, c, pod); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				return false, fmt.Errorf("pod %s: %w", missing, err)
			}
		}
		return missing == "", nil
	})
	if err != nil && missing != "" {
		return fmt.Errorf("pod %s has not changed its behaviour: %w", missing, err)
	}
	return err
}

func podsOf(ctx context.Context, c client.Client, digest string) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := c.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	var pods []corev1.Pod
	for _, pod := range list.Items {
		for _, container := range pod.Spec.Containers {
			if _, d, ok := strings.Cut(container.Image, "@"); ok && d == digest {
				pods = append(pods, pod)
				break
			}
		}
	}
	return pods, nil
}

// lives says whether kwok moves the pod at all.
func lives(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Spec.NodeName != "" &&
		pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

func readyCondition(pod *corev1.Pod) *corev1.PodCondition {
	for i, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// touched is the annotation that touch writes: when.
const touched = "devcluster.gatehouse.dev/touched"

// touch makes kwok look at the pod again. A look starts the delay of the stage
// anew, so that a pod is left alone for the delay and a while.
func touch(delay time.Duration) func(context.Context, client.Client, *corev1.Pod) error {
	return func(ctx context.Context, c client.Client, pod *corev1.Pod) error {
		last, err := time.Parse(time.RFC3339Nano, pod.Annotations[touched])
		if err == nil && time.Since(last) < delay+time.Second {
			return nil
		}
		before := pod.DeepCopy()
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		pod.Annotations[touched] = time.Now().Format(time.RFC3339Nano)
		return c.Patch(ctx, pod, client.MergeFrom(before))
	}
}

// reset makes the pod one that has just been scheduled. The addresses go too:
// kwok gives it others, and a pod with both would be refused.
func reset(ctx context.Context, c client.Client, pod *corev1.Pod) error {
	before := pod.DeepCopy()
	pod.Status = corev1.PodStatus{
		Phase:      corev1.PodPending,
		QOSClass:   pod.Status.QOSClass,
		Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}},
	}
	return c.Status().Patch(ctx, pod, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// explain says what a missing Stage kind means.
func explain(err error) error {
	if meta.IsNoMatchError(errors.Unwrap(err)) || apierrors.IsNotFound(err) {
		return fmt.Errorf("%w (this cluster has no kwok Stages: pods behave as told only on devcluster)", err)
	}
	return err
}
