package registry

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// outcomeResolved is the label of an attempt that ended with a digest; the
// others end with a Kind.
const outcomeResolved = "Resolved"

// newAttempts is the counter of attempts by outcome. A second client on the
// same registerer counts into the same one.
func newAttempts(registerer prometheus.Registerer) *prometheus.CounterVec {
	counter := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gatehouse_registry_requests_total",
		Help: "Attempts to resolve an image reference at its registry, by outcome.",
	}, []string{"outcome"})
	if registerer != nil {
		if err := registerer.Register(counter); err != nil {
			var already prometheus.AlreadyRegisteredError
			if !errors.As(err, &already) {
				panic(err) // a name that is taken by something else is a mistake of the program
			}
			counter = already.ExistingCollector.(*prometheus.CounterVec)
		}
	}
	counter.WithLabelValues(outcomeResolved)
	for _, kind := range kinds() {
		counter.WithLabelValues(string(kind))
	}
	return counter
}
