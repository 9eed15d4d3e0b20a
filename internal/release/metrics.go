package release

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// metrics counts fleets. Its labels are bounded by the number of releases.
type metrics struct {
	gateways *prometheus.GaugeVec
}

// newMetrics registers gatehouse_release_gateways, or finds it registered: a process may run one manager after another.
func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	gateways := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "gatehouse_release_gateways",
		Help: "Gateways of a release, by state: total, updated, ready, failed, already_unready, in_flight.",
	}, []string{"release", "state"})
	err := registerer.Register(gateways)
	var registered prometheus.AlreadyRegisteredError
	if errors.As(err, &registered) {
		if known, ok := registered.ExistingCollector.(*prometheus.GaugeVec); ok {
			return &metrics{gateways: known}, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return &metrics{gateways: gateways}, nil
}

// observe says what the release's status says.
func (m *metrics) observe(release *v1alpha1.GatewayRelease) {
	rollout := release.Status.Rollout
	if rollout == nil {
		return
	}
	for state, count := range map[string]int{
		"total":           int(rollout.Fleet.Total),
		"updated":         int(rollout.Fleet.Updated),
		"ready":           int(rollout.Fleet.Ready),
		"failed":          int(rollout.Fleet.Failed),
		"already_unready": int(rollout.Fleet.AlreadyUnready),
		"in_flight":       len(rollout.InFlight),
	} {
		m.gateways.WithLabelValues(release.Name, state).Set(float64(count))
	}
}

// forget drops the series of a release that is gone.
func (m *metrics) forget(release string) {
	m.gateways.DeletePartialMatch(prometheus.Labels{"release": release})
}
