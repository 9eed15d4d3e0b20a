package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/executor"
	"github.com/gatehouse-dev/gatehouse/internal/gateway"
	"github.com/gatehouse-dev/gatehouse/internal/outcome"
	"github.com/gatehouse-dev/gatehouse/internal/podstatus"
	"github.com/gatehouse-dev/gatehouse/internal/registry"
	"github.com/gatehouse-dev/gatehouse/internal/release"
	"github.com/gatehouse-dev/gatehouse/internal/verify/notation"
)

// UserAgent is how the manager introduces itself to the API server.
const UserAgent = "gatehouse"

// errLeadershipLost ends a manager whose lease went to another or could not be renewed. The process goes on as a
// candidate with a new one.
var errLeadershipLost = errors.New("leadership lost")

// Run serves until ctx ends. Losing the lease, as when the API server is away for longer than it lasts, starts the
// manager over inside the process: what the old one still sends carries the versions that it read, so it cannot undo
// what another leader did meanwhile.
func Run(ctx context.Context, config Config, logs io.Writer) error {
	if err := config.Validate(); err != nil {
		return err
	}
	log, err := config.logger(logs)
	if err != nil {
		return err
	}
	ctrl.SetLogger(log)
	klog.SetLogger(log.WithName("kubernetes"))
	rest, err := config.rest()
	if err != nil {
		return err
	}
	flush, err := exportTraces(ctx)
	if err != nil {
		return err
	}
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := flush(last); err != nil {
			log.Error(err, "flush traces")
		}
	}()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := &process{config: config, rest: rest, log: log, name: string(uuid.NewUUID())}
	p.ready.watches = newWatches(clock.RealClock{}, log)
	failed := make(chan error, 3)
	if err := serve(ctx, config.MetricsAddress, metricsHandler(p), failed); err != nil {
		return fmt.Errorf("--metrics-bind-address %s: %w", config.MetricsAddress, err)
	}
	if err := serve(ctx, config.ProbeAddress, probes(&p.ready), failed); err != nil {
		return fmt.Errorf("--health-probe-bind-address %s: %w", config.ProbeAddress, err)
	}
	if err := serve(ctx, config.ProfileAddress, profiles(), failed); err != nil {
		return fmt.Errorf("--pprof-bind-address %s: %w", config.ProfileAddress, err)
	}
	done := make(chan error, 1)
	go func() {
		err := p.lead(ctx)
		if ctx.Err() != nil {
			p.withdraw(context.WithoutCancel(ctx))
		}
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case err := <-failed:
		cancel()
		return errors.Join(err, <-done)
	}
}

// withdrawal is how long a process that ends takes to delete its reports.
const withdrawal = 5 * time.Second

// withdraw deletes this replica's reports when the process has been told to end with its pod, and no manager writes any
// more. One that ends otherwise leaves them, for the process that comes after it in the pod.
func (p *process) withdraw(ctx context.Context) {
	reporter := p.ready.reporter.Load()
	if reporter == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, withdrawal)
	defer cancel()
	deleted, err := reporter.Withdraw(ctx)
	if err != nil {
		p.log.Error(err, "not every report of this replica was deleted; the next process in the pod writes them over, or the leader deletes them when the pod is gone", "replica", p.config.Pod)
	}
	if deleted > 0 {
		p.log.Info("deleted the reports of what this replica served", "replica", p.config.Pod, "reports", deleted)
	}
}

// lead runs one manager after the other until ctx ends. A first one that cannot start ends the process with the reason;
// a process that has served goes on, whatever ended the last manager: an API server that is away takes the lease, and
// refuses the next manager what it needs to begin, and is back in time.
func (p *process) lead(ctx context.Context) error {
	served, retry := false, retries
	for {
		err := p.once(ctx)
		p.abandon()
		if p.ready.synced.Swap(false) {
			served, retry = true, retries
		}
		switch {
		case ctx.Err() != nil && (err == nil || errors.Is(err, errLeadershipLost)):
			return nil
		case errors.Is(err, errLeadershipLost):
			p.log.Info("leadership lost; going on as a candidate", "replica", p.config.Identity)
			continue
		case err == nil || !served || ctx.Err() != nil:
			return err
		}
		pause := retry.Step()
		p.log.Error(err, "the manager has ended; starting over", "replica", p.config.Identity, "in", pause.Round(time.Millisecond).String())
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
	}
}

// retries are how long it is until a manager that ended is started over, and again.
var retries = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.2, Steps: 5, Cap: 15 * time.Second}

// process is what outlives a manager.
type process struct {
	config  Config
	name    string // by which it is told from the process that was in its pod before
	rest    *rest.Config
	log     logr.Logger
	ready   readiness
	current registrySwap
	// abandoned is what the managers of before have left in their queues, by the labels of workqueue_depth.
	abandoned atomic.Pointer[map[string]float64]
}

// once runs one manager until ctx ends, the lease is lost, or something fails.
func (p *process) once(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	config := p.config
	again := true // a second manager of this process has controllers of the same names
	options := ctrl.Options{
		Scheme:                  newScheme(),
		Logger:                  p.log,
		Cache:                   cacheOptions(config.Namespace, p.ready.watches.handle),
		Metrics:                 metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress:  "0",
		GracefulShutdownTimeout: new(20 * time.Second),
		Controller:              ctrlconfig.Controller{SkipNameValidation: &again, EnableWarmup: &again},
	}
	var lock resourcelock.Interface
	if config.LeaderElect {
		var err error
		lock, err = config.lock(p.rest)
		if err != nil {
			return err
		}
		options.LeaderElection = true
		options.LeaderElectionID = leaseName
		options.LeaderElectionResourceLockInterface = lock
		options.LeaderElectionReleaseOnCancel = true
		options.LeaseDuration, options.RenewDeadline, options.RetryPeriod = &config.LeaseDuration, &config.RenewDeadline, &config.RetryPeriod
	}
	p.ready.watches.begin()
	mgr, err := ctrl.NewManager(p.rest, options)
	if err != nil {
		return fmt.Errorf("set up the manager: %w", err)
	}
	collected := prometheus.NewRegistry()
	collected.MustRegister(p.ready.watches.total)
	// A limit on requests of its own, so that Events and passes do not wait for each other.
	core, err := corev1client.NewForConfigAndClient(p.rest, mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("set up the sending of Events: %w", err)
	}
	recorders := newRecorders(mgr.GetScheme(), core.Events(""))
	defer recorders.stop()
	if err := p.controllers(ctx, mgr, recorders, config.leads(mgr.GetAPIReader(), lock), collected); err != nil {
		return withRemedy(err)
	}
	p.current.Store(collected)
	synced := make(chan struct{})
	go func() {
		defer close(synced)
		p.ready.synced.Store(mgr.GetCache().WaitForCacheSync(ctx))
	}()
	// Only now: what served the queues of the last manager may have moved something after it had ended.
	p.abandon()
	err = mgr.Start(ctx)
	cancel()
	<-synced
	if err != nil && err.Error() == "leader election lost" { // the text is all that controller-runtime gives
		return errLeadershipLost
	}
	return err
}

// withRemedy says what to do about kinds that the cluster does not know.
func withRemedy(err error) error {
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("%w: the cluster does not know all of Gatehouse's kinds; apply config/crd", err)
	}
	return err
}

// maxVerdictAge is how old a positive verdict on an image may be before it is made anew.
const maxVerdictAge = time.Hour

// controllers adds every controller to the manager.
func (p *process) controllers(ctx context.Context, mgr ctrl.Manager, recorders *recorders, leads func(context.Context) (bool, error), collected prometheus.Registerer) error {
	realClock := clock.RealClock{}
	registries := registry.New(registry.Options{Registerer: collected, Reach: p.config.reach(ctx, p.rest, p.log)})
	pool := registry.NewPool(registries, registry.PoolOptions{Log: p.log.WithName("registry")})
	// Whom a pool wakes is named without a kind: gateways have one of their own.
	tenants := registry.NewPool(registries, registry.PoolOptions{Log: p.log.WithName("registry")})
	for _, started := range []*registry.Pool{pool, tenants} {
		if err := mgr.Add(started); err != nil {
			return fmt.Errorf("set up the registry pools: %w", err)
		}
	}
	passes := outcome.NewMetrics(collected)
	live := executor.NewLive(realClock)
	p.ready.live.Store(live)
	board := executor.NewBoard()
	witness := executor.NewWitness(live, mgr.GetAPIReader(), p.config.Namespace, float64(p.config.QPS)/2, realClock)
	if err := executor.Setup(ctx, mgr, executor.Dependencies{
		Client:  mgr.GetClient(),
		Reader:  mgr.GetAPIReader(),
		Clock:   realClock,
		Live:    live,
		Board:   board,
		Witness: witness,
		Tools: executor.Tools{
			Registry:    registries,
			LayoutRoot:  p.config.OCILayoutRoot,
			Revocations: notation.NewCache(notation.CacheOptions{}),
			Clock:       realClock,
		},
		Namespace:  p.config.Namespace,
		Resync:     p.config.Resync,
		Workers:    8,
		Passes:     passes,
		Registerer: collected,
	}); err != nil {
		return err
	}
	if err := p.reports(mgr, board, live); err != nil {
		return err
	}
	if err := podstatus.SetupAggregator(ctx, mgr, podstatus.AggregatorDependencies{
		Client:      mgr.GetClient(),
		Reader:      mgr.GetAPIReader(),
		Recorder:    recorders.named("gatehouse-executor"),
		Clock:       realClock,
		Board:       board,
		Leads:       leads,
		Alone:       p.config.Pod == "",
		Namespace:   p.config.Namespace,
		Resync:      p.config.Resync,
		Workers:     4,
		Passes:      passes,
		WatchFailed: p.ready.watches.handle,
	}); err != nil {
		return err
	}
	if err := release.Setup(ctx, mgr, release.Dependencies{
		Client:        mgr.GetClient(),
		Live:          mgr.GetAPIReader(),
		Recorder:      recorders.named("gatehouse-release"),
		Clock:         realClock,
		Pool:          pool,
		Executors:     live,
		Witness:       witness,
		MaxVerdictAge: maxVerdictAge,
		Namespace:     p.config.Namespace,
		Resync:        p.config.Resync,
		Workers:       4,
		Passes:        passes,
		Registerer:    collected,
	}); err != nil {
		return err
	}
	return gateway.Setup(ctx, mgr, gateway.Dependencies{
		Hub:           mgr,
		Local:         mgr,
		Executors:     live,
		Witness:       witness,
		Pool:          tenants,
		Releases:      pool,
		Registerer:    collected,
		MaxVerdictAge: maxVerdictAge,
		Recorder:      recorders.named("gatehouse-gateway"),
		Clock:         realClock,
		Namespace:     p.config.Namespace,
		Resync:        p.config.Resync,
		Workers:       p.config.Workers,
		Passes:        passes,
	})
}

// reports has a manager report what this process serves, if there is a pod to report for.
func (p *process) reports(mgr ctrl.Manager, board *executor.Board, live *executor.Live) error {
	if p.config.Pod == "" {
		return nil
	}
	reporter, err := podstatus.NewReporter(mgr, podstatus.ReporterDependencies{
		Replica: podstatus.Replica{
			Namespace: p.config.Namespace,
			Pod:       p.config.Pod,
			UID:       types.UID(p.config.PodUID),
			Process:   p.name,
		},
		Board:       board,
		Live:        live,
		Clock:       clock.RealClock{},
		Resync:      p.config.Resync,
		WatchFailed: p.ready.watches.handle,
	})
	if err != nil {
		return err
	}
	p.ready.reporter.Store(reporter)
	return nil
}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	return scheme
}
