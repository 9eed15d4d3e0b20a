package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// said says whether the pod's status says that the pod runs, and how often it was started again.
func (r *Replica) said() bool {
	status := r.pod.Load().Status
	return status.Phase == corev1.PodRunning && len(status.ContainerStatuses) > 0 && status.ContainerStatuses[0].RestartCount == r.Restarts()
}

// say writes the pod's status.
func (r *Replica) say(ctx context.Context, ready bool) error {
	pod, restarts, now := r.pod.Load(), r.Restarts(), metav1.Now()
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	condition := func(kind corev1.PodConditionType, status corev1.ConditionStatus) corev1.PodCondition {
		at := now
		for _, c := range pod.Status.Conditions {
			if c.Type == kind && c.Status == status {
				at = c.LastTransitionTime
			}
		}
		return corev1.PodCondition{Type: kind, Status: status, LastTransitionTime: at}
	}
	containers := make([]corev1.ContainerStatus, 0, len(pod.Spec.Containers))
	for _, c := range pod.Spec.Containers {
		containers = append(containers, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: c.Image, Ready: ready, Started: new(true), RestartCount: restarts,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status": corev1.PodStatus{
			Phase:     corev1.PodRunning,
			StartTime: &now,
			Conditions: []corev1.PodCondition{
				condition(corev1.PodScheduled, corev1.ConditionTrue),
				condition(corev1.PodInitialized, corev1.ConditionTrue),
				condition(corev1.ContainersReady, status),
				condition(corev1.PodReady, status),
			},
			ContainerStatuses: containers,
		},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestWithin)
	defer cancel()
	written := pod.DeepCopy()
	if err := r.options.Client.Status().Patch(ctx, written, client.RawPatch(types.StrategicMergePatchType, patch)); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil // the next look tells
		}
		return fmt.Errorf("status of pod %s: %w", pod.Name, err)
	}
	r.pod.CompareAndSwap(pod, written)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ready = ready
	return nil
}

// Release lets a pod that is deleted go, whose process has ended or was never begun.
func Release(ctx context.Context, c client.Client, pod *corev1.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, requestWithin)
	defer cancel()
	finalizers := slices.DeleteFunc(slices.Clone(pod.Finalizers), func(f string) bool { return f == Finalizer })
	if len(finalizers) != len(pod.Finalizers) {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID, "finalizers": finalizers}})
		if err != nil {
			return err
		}
		err = c.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("finalizer of pod %s: %w", pod.Name, err)
		}
	}
	if pod.Spec.NodeName != "" {
		err := c.Delete(ctx, pod.DeepCopy(), client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete pod %s: %w", pod.Name, err)
		}
	}
	return nil
}

// probe asks a process whether it is ready.
func probe(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<20)) // so that the connection can be used again
	return response.StatusCode == http.StatusOK
}
