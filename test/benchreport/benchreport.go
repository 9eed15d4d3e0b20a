package benchreport

import (
	"fmt"
	"io"
	"sync"
)

// Result is one figure. Ratio is value by floor; both are left out where there is no floor. OK says that the target is
// met, and is true where there is none.
type Result struct {
	Name   string   `json:"name"`
	Value  float64  `json:"value"`
	Unit   string   `json:"unit"`
	Floor  *float64 `json:"floor,omitempty"`
	Ratio  *float64 `json:"ratio,omitempty"`
	Target string   `json:"target,omitempty"`
	OK     bool     `json:"ok"`
}

// Report is what a run has measured. The zero value is empty and ready.
type Report struct {
	// Progress is told each figure when it is measured, for runs that take an hour; nil tells nobody.
	Progress io.Writer

	mu      sync.Mutex
	results []Result
}

// Figure adds a value without a target.
func (r *Report) Figure(name string, value float64, unit string) {
	r.add(Result{Name: name, Value: value, Unit: unit, OK: true})
}

// AtMost adds a value that must not pass a limit.
func (r *Report) AtMost(name string, value float64, unit string, limit float64) {
	r.add(Result{Name: name, Value: value, Unit: unit, Target: fmt.Sprintf("value <= %g", limit), OK: value <= limit})
}

// Against adds a value that must not be more than limit times its floor, which was measured in the same run; with a limit
// of zero it is told only.
func (r *Report) Against(name string, value, floor float64, unit string, limit float64) {
	ratio := value / floor
	out := Result{Name: name, Value: value, Unit: unit, Floor: &floor, Ratio: &ratio, OK: true}
	if limit > 0 {
		out.Target, out.OK = fmt.Sprintf("ratio <= %g", limit), ratio <= limit
	}
	r.add(out)
}

func (r *Report) add(one Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results = append(r.results, one)
	if r.Progress != nil {
		fmt.Fprintf(r.Progress, "%s: %s %s\n", one.Name, short(one.Value), one.Unit)
	}
}

// Value finds a figure of this run.
func (r *Report) Value(name string) (float64, bool) {
	for _, one := range r.Results() {
		if one.Name == name {
			return one.Value, true
		}
	}
	return 0, false
}

// Results are the figures of this run, in the order in which they were added.
func (r *Report) Results() []Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Result(nil), r.results...)
}
