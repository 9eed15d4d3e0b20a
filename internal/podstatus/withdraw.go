package podstatus

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

const (
	// listed is how many reports are read at a time.
	listed = 500
	// deletedAtOnce is how many deletions are under way at a time.
	deletedAtOnce = 8
)

// Withdraw deletes all reports of this replica, which is about to end, and says how many there were. It is to be called
// once the manager has ended, when nothing writes any more, with a ctx that gives it a time. What it does not delete, the
// leader sweeps when the pod is gone.
//
// A process that ends in a pod that goes on deletes none: while the pod is still Ready they would be missed, and every
// Executor with them. The next process in the pod writes them over before it is Ready.
func (r *Reporter) Withdraw(ctx context.Context) (int, error) {
	pod := r.pod.Load()
	if pod == nil {
		return 0, nil // this process has written none
	}
	if on, err := r.goesOn(ctx, *pod); err != nil || on {
		return 0, err
	}
	var own []*v1alpha1.ExecutorPodStatus
	for page := (&v1alpha1.ExecutorPodStatusList{}); ; {
		err := r.client.List(ctx, page, client.InNamespace(r.replica.Namespace), client.MatchingLabels{v1alpha1.LabelPodUID: string(pod.UID)},
			client.Limit(listed), client.Continue(page.Continue))
		if err != nil {
			return 0, fmt.Errorf("list the reports of pod %s: %w", pod.Name, err)
		}
		for i := range page.Items {
			if page.Items[i].Spec.Pod == *pod { // a label can be anybody's
				own = append(own, page.Items[i].DeepCopy())
			}
		}
		if page.Continue == "" {
			break
		}
	}
	var mu sync.Mutex
	var errs []error
	var deleting sync.WaitGroup
	slots := make(chan struct{}, deletedAtOnce)
	for _, report := range own {
		slots <- struct{}{}
		deleting.Go(func() {
			defer func() { <-slots }()
			if err := r.delete(ctx, report); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	deleting.Wait()
	return len(own) - len(errs), errors.Join(errs...)
}

// goesOn asks the API server whether a pod is still one that serves.
func (r *Reporter) goesOn(ctx context.Context, ours v1alpha1.PodIdentity) (bool, error) {
	pod := &corev1.Pod{}
	err := r.client.Get(ctx, client.ObjectKey{Namespace: r.replica.Namespace, Name: ours.Name}, pod)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("see whether pod %s ends: %w", ours.Name, err)
	}
	return err == nil && pod.UID == ours.UID && serving(pod), nil
}
