package podstatus

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// Replica is who reports: one process in one pod.
type Replica struct {
	// Namespace is Gatehouse's own, that of the pod and of the reports.
	Namespace string
	// Pod is the name of the pod that the process runs in.
	Pod string
	// UID is that pod's. If it is empty, the pod that has the name when the process starts is taken to be the one.
	UID types.UID
	// Process is drawn anew by each process, so that one that was restarted in its pod is another: at most 63 characters.
	Process string
}

// lookUps are how long it is until the API server is asked again for the process's own pod.
var lookUps = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 8, Cap: 15 * time.Second}

// identify asks until it knows the process's own pod, or ctx ends.
func (r *Reporter) identify(ctx context.Context) (v1alpha1.PodIdentity, error) {
	pause := lookUps
	for {
		pod, err := r.lookUp(ctx)
		r.published.cannot(err)
		if err == nil || ctx.Err() != nil {
			return pod, ctx.Err()
		}
		r.log.Error(err, "cannot report yet what this replica serves")
		select {
		case <-ctx.Done():
			return pod, ctx.Err()
		case <-time.After(pause.Step()):
		}
	}
}

// lookUp asks the API server itself which pod this process runs in.
func (r *Reporter) lookUp(ctx context.Context) (v1alpha1.PodIdentity, error) {
	pod := &corev1.Pod{}
	err := r.client.Get(ctx, client.ObjectKey{Namespace: r.replica.Namespace, Name: r.replica.Pod}, pod)
	switch {
	case apierrors.IsNotFound(err):
		return v1alpha1.PodIdentity{}, fmt.Errorf("there is no Pod %s/%s, which this process is told to run in: set POD_NAME and POD_NAMESPACE from the pod's own metadata, or neither outside of a cluster", r.replica.Namespace, r.replica.Pod)
	case err != nil:
		return v1alpha1.PodIdentity{}, fmt.Errorf("look up Pod %s/%s, which this process runs in: %w", r.replica.Namespace, r.replica.Pod, err)
	case r.replica.UID != "" && pod.UID != r.replica.UID:
		return v1alpha1.PodIdentity{}, fmt.Errorf("pod %s/%s has the UID %s, and this process runs in the one with the UID %s: another pod has its name by now, or POD_UID is not set from the pod's own metadata", r.replica.Namespace, r.replica.Pod, pod.UID, r.replica.UID)
	}
	return v1alpha1.PodIdentity{Name: pod.Name, UID: pod.UID}, nil
}

// stillOurs makes sure that the pod's name has not passed to another pod, whose reports then have the names of ours.
func (r *Reporter) stillOurs(ctx context.Context) error {
	now, err := r.lookUp(ctx)
	if err != nil {
		return err
	}
	if ours := *r.pod.Load(); now != ours {
		return fmt.Errorf("pod %s/%s has the UID %s by now, and this process runs in the one with the UID %s, which must be gone", r.replica.Namespace, now.Name, now.UID, ours.UID)
	}
	return nil
}

// owner makes the pod take its reports with it.
func owner(pod v1alpha1.PodIdentity) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}}
}
