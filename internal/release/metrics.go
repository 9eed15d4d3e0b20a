package release

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// metrics counts fleets. Its labels are bounded by the number of releases.
type metrics struct {
	gateways *prometheus.GaugeVec
	verified *prometheus.GaugeVec
}

// newMetrics registers the metrics, or finds them registered: a process may run one manager after another.
func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{}
	var err error
	m.gateways, err = registered(registerer, prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "gatehouse_release_gateways",
		Help: "Gateways of a release, by state: total, updated, ready, failed, already_unready, in_flight.",
	}, []string{"release", "state"}))
	if err != nil {
		return nil, err
	}
	m.verified, err = registered(registerer, prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "gatehouse_release_verified",
		Help: "Whether the images that a release asks for verify: 1 if they do, 0 if not or if that is not known. Absent if verification is Disabled.",
	}, []string{"release"}))
	if err != nil {
		return nil, err
	}
	return m, nil
}

func registered[C prometheus.Collector](registerer prometheus.Registerer, collector C) (C, error) {
	err := registerer.Register(collector)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if known, ok := already.ExistingCollector.(C); ok {
			return known, nil
		}
	}
	if err != nil {
		return collector, fmt.Errorf("register metrics: %w", err)
	}
	return collector, nil
}

// observe says what the release's status says.
func (m *metrics) observe(release *v1alpha1.GatewayRelease) {
	m.observeVerified(release)
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

func (m *metrics) observeVerified(release *v1alpha1.GatewayRelease) {
	condition := meta.FindStatusCondition(release.Status.Conditions, v1alpha1.ConditionVerified)
	if condition == nil {
		m.verified.DeleteLabelValues(release.Name)
		return
	}
	value := 0.0
	if condition.Status == metav1.ConditionTrue {
		value = 1
	}
	m.verified.WithLabelValues(release.Name).Set(value)
}

// forget drops the series of a release that is gone.
func (m *metrics) forget(release string) {
	m.gateways.DeletePartialMatch(prometheus.Labels{"release": release})
	m.verified.DeleteLabelValues(release)
}
