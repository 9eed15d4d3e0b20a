package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/gatehouse-dev/gatehouse/internal/executor"
	"github.com/gatehouse-dev/gatehouse/internal/podstatus"
)

// readiness is what /readyz answers. It outlives the managers that a process runs one after the other.
type readiness struct {
	synced  atomic.Bool
	watches *watches
	live    atomic.Pointer[executor.Live] // of the manager that runs now
	// reporter is that manager's; nil without a pod to report for.
	reporter atomic.Pointer[podstatus.Reporter]
}

func (r *readiness) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if !r.synced.Load() {
		http.Error(w, "the caches are not filled yet", http.StatusServiceUnavailable)
		return
	}
	if live := r.live.Load(); live != nil {
		if ready, awaited := live.Ready(); !ready {
			http.Error(w, "Executors: "+awaited, http.StatusServiceUnavailable)
			return
		}
	}
	if reporter := r.reporter.Load(); reporter != nil {
		if published, awaited := reporter.Published(); !published {
			http.Error(w, "reports of what this replica serves: "+awaited, http.StatusServiceUnavailable)
			return
		}
	}
	if stale := r.watches.stale(); stale != "" {
		http.Error(w, stale, http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

func probes(ready *readiness) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.Handle("/readyz", ready)
	return mux
}

func metricsHandler(registry prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}))
	return mux
}

// profiles serves Go's profiles: of the processor, of memory, of goroutines.
func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// serve answers at address until ctx ends; "0" serves nothing. It has begun to listen when it returns, and says on
// failed if it stops before ctx does.
func serve(ctx context.Context, address string, handler http.Handler, failed chan<- error) error {
	if address == "0" {
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 1 << 16}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			select {
			case failed <- fmt.Errorf("serve %s: %w", address, err):
			case <-ctx.Done():
			}
		}
	}()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return nil
}

// registrySwap holds the metrics of the manager that runs now.
type registrySwap struct {
	atomic.Pointer[prometheus.Registry]
}

// Gather returns the library's metrics and those of the present manager.
func (p *process) Gather() ([]*dto.MetricFamily, error) {
	gatherers := prometheus.Gatherers{prometheus.GathererFunc(p.library)}
	if current := p.current.Load(); current != nil {
		gatherers = append(gatherers, current)
	}
	return gatherers.Gather()
}

// library gathers the library's metrics. They outlive a manager: what was in its queues at its end would count as waiting
// for ever, so it is taken off.
func (p *process) library() ([]*dto.MetricFamily, error) {
	families, err := ctrlmetrics.Registry.Gather()
	if abandoned := p.abandoned.Load(); abandoned != nil {
		for name, queue := range depths(families) {
			queue.Gauge.Value = new(queue.GetGauge().GetValue() - (*abandoned)[name])
		}
	}
	return families, err
}

// abandon notes what is left in the queues of a manager that has ended.
func (p *process) abandon() {
	families, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		p.log.Error(err, "read the library's metrics; workqueue_depth may count what no queue holds any more")
		return
	}
	left := map[string]float64{}
	for name, queue := range depths(families) {
		left[name] = queue.GetGauge().GetValue()
	}
	p.abandoned.Store(&left)
}

// depths are the series of workqueue_depth, by their labels.
func depths(families []*dto.MetricFamily) map[string]*dto.Metric {
	out := map[string]*dto.Metric{}
	for _, family := range families {
		if family.GetName() != "workqueue_depth" {
			continue
		}
		for _, series := range family.Metric {
			if series.Gauge != nil {
				out[fmt.Sprint(series.Label)] = series
			}
		}
	}
	return out
}
