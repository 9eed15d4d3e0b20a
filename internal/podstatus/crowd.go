package podstatus

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// indexSubject finds the reports on an Executor by its UID; indexPod finds those of a pod by its UID.
const (
	indexSubject = "podstatus:executor"
	indexPod     = "podstatus:pod"
)

// crowd is all the replicas of the installation.
type crowd struct {
	pods      client.Reader // from the manager's cache
	reports   client.Reader // from the leader's cache, with the indexes
	live      client.Reader // from the API server
	namespace string        // Gatehouse's own
	silent    atomic.Int64  // until when a second look is brief, because one was not answered; in nanoseconds since 1970
}

// replicas joins the pods of the installation with what they report of a subject. A report is a pod's if it says so by
// name and UID, and has the name that the two of them give it: there is one of that.
func (c *crowd) replicas(ctx context.Context, s *subject) ([]replica, error) {
	pods := &corev1.PodList{}
	if err := c.pods.List(ctx, pods, client.InNamespace(c.namespace), replicaLabels, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the replicas: %w", err)
	}
	found := &v1alpha1.ExecutorPodStatusList{}
	if err := c.reports.List(ctx, found, client.InNamespace(c.namespace), client.MatchingFields{indexSubject: string(s.identity.UID)}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list what replicas report: %w", err)
	}
	byPod := make(map[v1alpha1.PodIdentity]*v1alpha1.ExecutorPodStatus, len(found.Items))
	for i := range found.Items {
		if r := &found.Items[i]; r.Name == PackName(r.Spec.Pod.Name, s.identity) {
			byPod[r.Spec.Pod] = r
		}
	}
	all := make([]replica, 0, len(pods.Items))
	for i := range pods.Items {
		pod := &pods.Items[i]
		r := replica{pod: pod.Name, uid: pod.UID, serving: serving(pod)}
		if report := byPod[v1alpha1.PodIdentity{Name: pod.Name, UID: pod.UID}]; report != nil {
			r.report = contentOf(report, s, r)
		}
		all = append(all, r)
	}
	return all, nil
}

// contentOf is what a report says, if it is this replica's on this subject and says anything yet.
func contentOf(report *v1alpha1.ExecutorPodStatus, s *subject, r replica) *v1alpha1.ExecutorPodStatusStatus {
	if report.Spec.Executor != s.identity || report.Spec.Pod != (v1alpha1.PodIdentity{Name: r.pod, UID: r.uid}) || report.Status.ObservedGeneration == 0 {
		return nil
	}
	return &report.Status
}

// lookAgain asks the API server about the replicas that have not reported what they should, or not at all, until one of
// them indeed has not. Pods and reports come by two watches, and one may be ahead of the other: a pod is seen Ready before
// what it reported first, and a report is seen deleted before the pod is seen to end. Once one is late, so is the subject,
// however many replicas there are.
//
// It spares a status that flaps, and delays one that is true by secondLook at most: whoever cannot be asked about is
// what was seen of them. All subjects are delayed by about as much together: after a look that was not answered, those of
// the next while wait no longer than one round.
func (c *crowd) lookAgain(ctx context.Context, s *subject, trusted string, replicas []replica) error {
	bound := secondLook
	if time.Now().UnixNano() < c.silent.Load() {
		bound = lookEvery
	}
	looking, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	var failure error
	_ = wait.PollUntilContextCancel(looking, lookEvery, true, func(looking context.Context) (bool, error) {
		failure = c.look(looking, s, trusted, replicas)
		return failure == nil || apierrors.IsForbidden(failure), nil
	})
	if failure != nil && ctx.Err() == nil {
		if bound == secondLook {
			c.silent.Store(time.Now().Add(briefly).UnixNano())
		}
		log.FromContext(ctx).Error(failure, "what replicas serve could not be looked up at the API server; what was heard of them is told")
	}
	return ctx.Err()
}

const (
	secondLook = 2 * time.Second
	lookEvery  = 200 * time.Millisecond
	briefly    = 10 * time.Second
)

func (c *crowd) look(ctx context.Context, s *subject, trusted string, replicas []replica) error {
	for i := range replicas {
		r := &replicas[i]
		late := func() bool {
			standing := place(s.generation, trusted, *r).standing
			return standing == unreported || standing == differing
		}
		if !r.serving || !late() {
			continue
		}
		report := &v1alpha1.ExecutorPodStatus{}
		switch err := c.live.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: PackName(r.pod, s.identity)}, report); {
		case apierrors.IsNotFound(err):
			r.report = nil
		case err != nil:
			return fmt.Errorf("read what replica %s reports: %w", r.pod, err)
		default:
			r.report = contentOf(report, s, *r)
		}
		if !late() {
			continue
		}
		pod := &corev1.Pod{}
		switch err := c.live.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: r.pod}, pod); {
		case apierrors.IsNotFound(err):
			r.serving = false
		case err != nil:
			return fmt.Errorf("read replica %s: %w", r.pod, err)
		default:
			r.serving = pod.UID == r.uid && IsReplica(pod) && serving(pod)
		}
		if r.serving {
			return nil
		}
	}
	return nil
}
