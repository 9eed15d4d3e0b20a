package podstatus

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/executor"
	"github.com/gatehouse-dev/gatehouse/internal/outcome"
)

// reporterName is how the controller is called in metrics and logs.
const reporterName = "reporter"

// ReporterDependencies are what a Reporter works with. All are needed but WatchFailed.
type ReporterDependencies struct {
	// Replica is who reports.
	Replica Replica
	// Board holds what there is to report.
	Board *executor.Board
	// Live says when the Executors of a namespace have been attempted: until then one that is not on the board is not gone.
	Live *executor.Live
	// Clock tells the time.
	Clock clock.PassiveClock
	// Resync is within what time every report is passed over again.
	Resync time.Duration
	// WatchFailed is told when the reports of this replica cannot be listed or watched.
	WatchFailed toolscache.WatchErrorHandlerWithContext
}

// Reporter keeps this replica's reports as they should be. It runs whether this process leads or not.
type Reporter struct {
	replica   Replica
	board     *executor.Board
	live      *executor.Live
	clock     clock.PassiveClock
	resync    time.Duration
	log       logr.Logger
	client    client.Client // reads from the API server itself
	caches    func(types.UID) (cache.Cache, error)
	reports   client.Reader // the cache of this replica's own reports; set before the first pass
	pod       atomic.Pointer[v1alpha1.PodIdentity]
	latest    *latest
	published *published
}

// NewReporter adds a Reporter to a manager. It has a cache of its own, of this replica's reports alone, and it waits for
// what it needs by itself: nothing else in the process waits for it.
func NewReporter(mgr manager.Manager, d ReporterDependencies) (*Reporter, error) {
	options := client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()}
	direct, err := client.New(mgr.GetConfig(), options)
	if err != nil {
		return nil, fmt.Errorf("set up the %s: %w", reporterName, err)
	}
	r := &Reporter{
		replica: d.Replica,
		board:   d.Board,
		live:    d.Live,
		clock:   d.Clock,
		resync:  d.Resync,
		log:     mgr.GetLogger().WithName(reporterName).WithValues("replica", d.Replica.Pod),
		client:  direct,

		latest:    newLatest(d.Clock),
		published: newPublished(),
	}
	r.caches = func(uid types.UID) (cache.Cache, error) {
		return ownCache(mgr, d.Replica.Namespace, uid, func(ctx context.Context, reflector *toolscache.Reflector, err error) {
			r.published.cannot(fmt.Errorf("list and watch the ExecutorPodStatuses of pod %s: %w", d.Replica.Pod, err))
			if d.WatchFailed != nil {
				d.WatchFailed(ctx, reflector, err)
			}
		})
	}
	if err := mgr.Add(r); err != nil {
		return nil, fmt.Errorf("set up the %s: %w", reporterName, err)
	}
	return r, nil
}

// NeedLeaderElection is false: every replica reports.
func (*Reporter) NeedLeaderElection() bool { return false }

// Start reports until ctx ends.
func (r *Reporter) Start(ctx context.Context) error {
	pod, err := r.identify(ctx)
	if err != nil {
		return nil // ctx has ended
	}
	r.pod.Store(&pod)
	reports, err := r.caches(pod.UID)
	if err != nil {
		return fmt.Errorf("set up the cache of the %s: %w", reporterName, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- reports.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			r.log.Error(err, "the cache of reports has ended")
		}
	}()
	if _, err := reports.GetInformer(ctx, &v1alpha1.ExecutorPodStatus{}, cache.BlockUntilSynced(false)); err != nil {
		return fmt.Errorf("set up the cache of the %s: %w", reporterName, err)
	}
	if !reports.WaitForCacheSync(ctx) {
		return nil // ctx has ended
	}
	r.reports = reports
	r.published.begin()

	again := true // a second manager of this process has a controller of the same name
	c, err := controller.NewUnmanaged(reporterName, controller.Options{
		Reconciler:              outcome.Traced(reporterName, r),
		MaxConcurrentReconciles: 4,
		RateLimiter:             outcome.NewRateLimiter[reconcile.Request](),
		SkipNameValidation:      &again,
		LogConstructor:          outcome.Logged(r.log, "executor", executor.Describe),
	})
	if err != nil {
		return fmt.Errorf("set up the %s: %w", reporterName, err)
	}
	for _, source := range r.sources(reports) {
		if err := c.Watch(source); err != nil {
			return fmt.Errorf("set up the %s: %w", reporterName, err)
		}
	}
	return c.Start(ctx)
}

// attempts bounds how often a pass starts over at once because somebody else wrote.
const attempts = 3

// Reconcile makes the report on one Executor what it should be.
func (r *Reporter) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	name := request.NamespacedName
	var again time.Time
	var err error
	for range attempts {
		if again, err = r.pass(ctx, name); !overtaken(err) {
			break
		}
		if e := r.refresh(ctx, name); e != nil {
			err = e
			break
		}
	}
	r.published.note(name, err)
	if err != nil {
		return reconcile.Result{}, err
	}
	wait := r.resync - time.Duration(rand.Int64N(int64(r.resync/5)+1))
	if !again.IsZero() {
		wait = min(wait, max(again.Sub(r.clock.Now()), time.Millisecond))
	}
	return reconcile.Result{RequeueAfter: wait}, nil
}

// pass brings the stored report on an Executor to what the board says. It is to be passed over again at the time that is
// returned, if that is not zero.
func (r *Reporter) pass(ctx context.Context, name types.NamespacedName) (again time.Time, err error) {
	attempted, _ := r.live.Attempted(name.Namespace) // before the board is looked at: what it then lacks is gone
	said, there := r.board.Get(name)
	found, err := r.find(ctx, name)
	if err != nil {
		return time.Time{}, err
	}
	if !found.doubt.IsZero() && !r.clock.Now().Before(found.doubt) {
		if err := r.refresh(ctx, name); err != nil {
			return time.Time{}, err
		}
		if found, err = r.find(ctx, name); err != nil {
			return time.Time{}, err
		}
	}
	defer func() { // last: one that cannot be deleted does not hold up the report itself
		for _, stray := range found.strays {
			err = errors.Join(err, r.delete(ctx, stray))
		}
	}()
	switch {
	case there:
		return found.doubt, r.publish(ctx, said, found.report)
	case attempted:
		return time.Time{}, r.retract(ctx, name, found.report)
	case !r.inherited(found.report):
		return found.doubt, nil // once it is attempted, it is passed over again
	}
	// A process before this one has said something of it, and this one does not know yet whether it is there. While the
	// replica is not ready, that counts for nothing; once it is, it would count as this one's.
	if ready, _ := r.live.Ready(); ready {
		return time.Time{}, r.retract(ctx, name, found.report)
	}
	return r.clock.Now().Add(time.Second), nil
}

// inherited reports whether a report is of a process that was in the pod before this one. A stray is nobody's: it counts
// for nothing, whoever made it.
func (r *Reporter) inherited(report *v1alpha1.ExecutorPodStatus) bool {
	pod := *r.pod.Load()
	return report != nil && report.Spec.Pod == pod && report.Status.Process != r.replica.Process && report.Name == PackName(pod.Name, report.Spec.Executor)
}
