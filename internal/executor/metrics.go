package executor

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	compiles *prometheus.CounterVec
	duration prometheus.Histogram
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		compiles: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gatehouse_executor_compiles_total",
			Help: "Compilations of Executors, by result: whole, partial (something it names is missing or malformed), failed.",
		}, []string{"result"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "gatehouse_executor_compile_duration_seconds",
			Help:    "How long compilations of Executors take.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 9),
		}),
	}
	registerer.MustRegister(m.compiles, m.duration)
	return m
}

// compiled counts a compilation that is done.
func (m *metrics) compiled(c *compilation, took time.Duration) {
	result := "whole"
	switch {
	case c.err != nil:
		result = "failed"
	case len(c.compiled.Problems()) > 0:
		result = "partial"
	}
	m.compiles.WithLabelValues(result).Inc()
	m.duration.Observe(took.Seconds())
}
