package manager

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/gatehouse-dev/gatehouse/test/eventually"
)

// Metrics are what a manager's metrics endpoint says.
type Metrics map[string]*dto.MetricFamily

// Metrics reads the metrics endpoint.
func (m *Manager) Metrics(ctx context.Context) (Metrics, error) {
	return MetricsAt(ctx, m.metrics)
}

// MetricsAt reads the metrics endpoint at a URL.
func MetricsAt(ctx context.Context, url string) (Metrics, error) {
	text, err := get(ctx, url)
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	return families, nil
}

// Sum adds up the series of a counter or gauge, or the counts of a histogram, that carry all of the labels.
func (ms Metrics) Sum(name string, labels map[string]string) float64 {
	family, found := ms[name]
	if !found {
		return 0
	}
	var sum float64
	for _, series := range family.Metric {
		carried := map[string]string{}
		for _, pair := range series.Label {
			carried[pair.GetName()] = pair.GetValue()
		}
		matches := true
		for key, value := range labels {
			matches = matches && carried[key] == value
		}
		if matches {
			sum += series.GetCounter().GetValue() + series.GetGauge().GetValue() + float64(series.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

// Passes are the passes that a manager has made.
type Passes struct{ Release, Gateway float64 }

// Passes counts them; while another leads there are none.
func (m *Manager) Passes(tb testing.TB) Passes {
	tb.Helper()
	metrics, err := m.Metrics(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return passes(metrics)
}

func passes(metrics Metrics) Passes {
	count := func(controller string) float64 {
		return metrics.Sum("gatehouse_reconcile_total", map[string]string{"controller": controller})
	}
	return Passes{Release: count("release"), Gateway: count("gateway")}
}

// restsFor is how long nothing must have happened for a manager to be at rest: longer than the pauses of a pass that
// starts over.
const restsFor = 700 * time.Millisecond

// Rest waits until the manager has nothing to do: no request waits, none is worked on, and no pass has been made for a
// while. Passes that are due later do not count. It returns the passes made so far.
func (m *Manager) Rest(tb testing.TB, timeout time.Duration) Passes {
	tb.Helper()
	var last map[string]float64
	var since time.Time
	var made Passes
	eventually.Succeeds(tb, timeout, func() error {
		metrics, err := m.Metrics(tb.Context())
		if err != nil {
			return err
		}
		made = passes(metrics)
		now := map[string]float64{
			"passes of releases": made.Release,
			"passes of gateways": made.Gateway,
			"depth":              metrics.Sum("workqueue_depth", nil),
			"active":             metrics.Sum("controller_runtime_active_workers", nil),
		}
		switch {
		case !maps.Equal(now, last) || now["depth"]+now["active"] > 0:
			last, since = now, time.Now()
			return fmt.Errorf("the manager is at work: %v", now)
		case time.Since(since) < restsFor:
			return fmt.Errorf("the manager has rested for %s only", time.Since(since))
		}
		return nil
	})
	return made
}

// PassedAgain waits until the manager has made at least so many more passes than before.
func (m *Manager) PassedAgain(tb testing.TB, before Passes, releases, gateways int, timeout time.Duration) {
	tb.Helper()
	eventually.Succeeds(tb, timeout, func() error {
		metrics, err := m.Metrics(tb.Context())
		if err != nil {
			return err
		}
		now := passes(metrics)
		if now.Release < before.Release+float64(releases) || now.Gateway < before.Gateway+float64(gateways) {
			return fmt.Errorf("passes %+v, before %+v: want %d more of releases and %d of gateways", now, before, releases, gateways)
		}
		return nil
	})
}
