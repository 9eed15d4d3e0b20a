package outcome

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts and times passes.
type Metrics struct {
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// NewMetrics registers gatehouse_reconcile_total and gatehouse_reconcile_duration_seconds.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gatehouse_reconcile_total",
			Help: "Passes over objects, by controller and outcome: ok, terminal, transient, conflict, error, gone.",
		}, []string{"controller", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "gatehouse_reconcile_duration_seconds",
			Help:    "How long passes take, by controller.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 9),
		}, []string{"controller"}),
	}
	registry.MustRegister(m.total, m.duration)
	return m
}

// Observe counts a pass that did not end in Finish: of a controller that writes no status.
func (m *Metrics) Observe(controller, outcome string, took time.Duration) {
	if m == nil {
		return
	}
	m.total.WithLabelValues(controller, outcome).Inc()
	m.duration.WithLabelValues(controller).Observe(took.Seconds())
}
