package podstatus

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

const (
	// settle is how long the sweeper waits after it was rung: a pod takes all its reports along, mostly, and who is quicker
	// than the garbage collector does its work for it.
	settle = time.Second
	// sweepsPerSecond bounds deletions.
	sweepsPerSecond = 200
	// podsPerPage bounds an answer of the API server.
	podsPerPage = 500
)

// sweeper deletes the reports of pods that are gone, while this process leads. No status waits for it: what counts there
// is which pods there are.
type sweeper struct {
	client    client.Client // reads pods from the manager's cache
	live      client.Reader
	reports   cache.Cache
	namespace string
	resync    time.Duration
	clock     clock.Clock
	log       logr.Logger
	rung      chan struct{}
	limit     *rate.Limiter
}

func newSweeper(d AggregatorDependencies, reports cache.Cache, log logr.Logger) *sweeper {
	return &sweeper{
		client: d.Client, live: d.Reader, reports: reports, namespace: d.Namespace, resync: d.Resync, clock: d.Clock, log: log,
		rung: make(chan struct{}, 1), limit: rate.NewLimiter(sweepsPerSecond, sweepsPerSecond),
	}
}

// ring asks for a sweep.
func (s *sweeper) ring() {
	select {
	case s.rung <- struct{}{}:
	default:
	}
}

// saw takes in a report, and rings if there seems to be no pod to it.
func (s *sweeper) saw(ctx context.Context, r *v1alpha1.ExecutorPodStatus) {
	pod := &corev1.Pod{}
	err := s.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: r.Spec.Pod.Name}, pod, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) || err == nil && pod.UID != r.Spec.Pod.UID {
		s.ring()
	}
}

// NeedLeaderElection is true.
func (s *sweeper) NeedLeaderElection() bool { return true }

// Start sweeps when it is rung, and as often as everything is looked at again.
func (s *sweeper) Start(ctx context.Context) error {
	if !s.reports.WaitForCacheSync(ctx) {
		return nil
	}
	retry := retries
	next := settle
	for {
		timer := s.clock.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-s.rung:
			timer.Stop()
			next = min(next, settle)
			if !s.pause(ctx, next) {
				return nil
			}
		case <-timer.C():
		}
		err := s.sweep(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			next = retry.Step()
			s.log.Error(err, "not every report of a replica that is gone was deleted; trying again", "in", next.Round(time.Millisecond).String())
		default:
			next, retry = s.resync, retries
		}
	}
}

// retries are how long it is until a sweep that failed is tried again.
var retries = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.2, Steps: 8, Cap: 2 * time.Minute}

func (s *sweeper) pause(ctx context.Context, d time.Duration) bool {
	timer := s.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
		return true
	}
}

// sweep deletes what was left behind. That the cache has no such pod is a hint; the API server decides.
func (s *sweeper) sweep(ctx context.Context) error {
	cached := &corev1.PodList{}
	if err := s.client.List(ctx, cached, client.InNamespace(s.namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	there := make(map[types.UID]struct{}, len(cached.Items))
	for i := range cached.Items {
		there[cached.Items[i].UID] = struct{}{}
	}
	suspects, err := s.without(ctx, there)
	if err != nil || len(suspects) == 0 {
		return err
	}
	if there, err = s.pods(ctx); err != nil {
		return err
	}
	swept, failed := 0, 0
	var first error
	for _, r := range suspects {
		if _, lives := there[r.Spec.Pod.UID]; lives {
			continue
		}
		if err := s.limit.Wait(ctx); err != nil {
			return err
		}
		err := s.client.Delete(ctx, r, client.Preconditions{UID: &r.UID})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			if failed++; first == nil {
				first = fmt.Errorf("delete ExecutorPodStatus %s/%s: %w", r.Namespace, r.Name, err)
			}
			continue
		}
		swept++
	}
	if swept > 0 {
		s.log.Info("deleted the reports of replicas that are gone", "reports", swept)
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d reports are left; the first: %w", failed, failed+swept, first)
	}
	return nil
}

// without are the reports whose pod is not among these.
func (s *sweeper) without(ctx context.Context, there map[types.UID]struct{}) ([]*v1alpha1.ExecutorPodStatus, error) {
	all := &v1alpha1.ExecutorPodStatusList{}
	if err := s.reports.List(ctx, all, client.InNamespace(s.namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list what replicas report: %w", err)
	}
	var found []*v1alpha1.ExecutorPodStatus
	for i := range all.Items {
		r := &all.Items[i]
		// One that is deleted already is kept by a finalizer.
		if _, lives := there[r.Spec.Pod.UID]; !lives && r.DeletionTimestamp == nil {
			found = append(found, r)
		}
	}
	return found, nil
}

// pods are the UIDs of all pods in Gatehouse's namespace, as the API server has them now.
func (s *sweeper) pods(ctx context.Context) (map[types.UID]struct{}, error) {
	there := map[types.UID]struct{}{}
	for from := ""; ; {
		page := &metav1.PartialObjectMetadataList{}
		page.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
		if err := s.live.List(ctx, page, client.InNamespace(s.namespace), client.Limit(podsPerPage), client.Continue(from)); err != nil {
			return nil, fmt.Errorf("list pods at the API server: %w", err)
		}
		for i := range page.Items {
			there[page.Items[i].UID] = struct{}{}
		}
		if from = page.Continue; from == "" {
			return there, nil
		}
	}
}
