package rollout

import (
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// maxWindow bounds the window, whatever the budget: it is stored in one object.
const maxWindow = 500

// The defaults of the API, for a spec that was not read from it.
const (
	defaultMaxUnavailablePercent = 10
	defaultMaxFailures           = 1
	defaultMinReady              = 30 * time.Second
	defaultProgressDeadline      = 10 * time.Minute
)

// settings are the numbers of a RolloutSpec for a fleet of a certain size.
type settings struct {
	budget      int
	maxFailures int
	minReady    time.Duration
	deadline    time.Duration
}

func settingsFor(spec v1alpha1.RolloutSpec, fleet int) settings {
	s := settings{
		budget:      max(1, fleet*defaultMaxUnavailablePercent/100),
		maxFailures: defaultMaxFailures,
		minReady:    defaultMinReady,
		deadline:    defaultProgressDeadline,
	}
	if spec.MaxUnavailable != nil {
		s.budget = max(1, share(fleet, *spec.MaxUnavailable))
	}
	s.budget = min(s.budget, maxWindow)
	if spec.MaxFailures != nil {
		s.maxFailures = share(fleet, *spec.MaxFailures)
	}
	if spec.MinReadySeconds != nil {
		s.minReady = time.Duration(*spec.MinReadySeconds) * time.Second
	}
	if spec.ProgressDeadline != nil {
		s.deadline = spec.ProgressDeadline.Duration
	}
	return s
}

// Deadline is when progressDeadline has passed since a time that is stored in a status.
func Deadline(spec v1alpha1.RolloutSpec, since time.Time) time.Time {
	return after(since, settingsFor(spec, 0).deadline)
}

// share is a count, or a percentage of the fleet rounded down. Admission has refused everything else; what slipped past it
// counts as zero, the cautious reading of both a budget and a tolerance.
func share(fleet int, value intstr.IntOrString) int {
	if value.Type == intstr.Int {
		return max(0, value.IntValue())
	}
	percent, err := strconv.Atoi(strings.TrimSuffix(value.StrVal, "%"))
	if err != nil || percent < 0 {
		return 0
	}
	return fleet * percent / 100
}

// after is the first moment at which d has certainly passed since a time that is stored in whole seconds: the stored
// time may be almost a second earlier than the event.
func after(stored time.Time, d time.Duration) time.Time {
	if d <= 0 {
		return stored
	}
	return stored.Add(d + time.Second)
}
