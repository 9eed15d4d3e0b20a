package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"text/tabwriter"

	"github.com/gatehouse-dev/gatehouse/test/cluster"
)

// result is one figure. Ratio is value by floor; both are left out where there is no floor. OK says that the target is
// met, and is true where there is none.
type result struct {
	Name   string   `json:"name"`
	Value  float64  `json:"value"`
	Unit   string   `json:"unit"`
	Floor  *float64 `json:"floor,omitempty"`
	Ratio  *float64 `json:"ratio,omitempty"`
	Target string   `json:"target,omitempty"`
	OK     bool     `json:"ok"`
}

// report is what a run has measured.
type report struct {
	mu      sync.Mutex
	results []result
}

// figure adds a value without a target.
func (r *report) figure(name string, value float64, unit string) {
	r.add(result{Name: name, Value: value, Unit: unit, OK: true})
}

// atMost adds a value that must not pass a limit.
func (r *report) atMost(name string, value float64, unit string, limit float64) {
	r.add(result{Name: name, Value: value, Unit: unit, Target: fmt.Sprintf("value <= %g", limit), OK: value <= limit})
}

// against adds a value that must not be more than so many times its floor; without a limit it is told only.
func (r *report) against(name string, value, floor float64, unit string, limit float64) {
	ratio := value / floor
	out := result{Name: name, Value: value, Unit: unit, Floor: &floor, Ratio: &ratio, OK: true}
	if limit > 0 {
		out.Target, out.OK = fmt.Sprintf("ratio <= %g", limit), ratio <= limit
	}
	r.add(out)
}

func (r *report) add(one result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results = append(r.results, one)
}

// value finds a figure of this run.
func (r *report) value(name string) (float64, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.results {
		if one.Name == name {
			return one.Value, true
		}
	}
	return 0, false
}

// table prints the figures for people.
func (r *report) table(w io.Writer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tVALUE\tUNIT\tFLOOR\tRATIO\tTARGET\tOK")
	optional := func(v *float64) string {
		if v == nil {
			return ""
		}
		return short(*v)
	}
	for _, one := range r.results {
		verdict := ""
		if one.Target != "" {
			verdict = map[bool]string{true: "yes", false: "NO"}[one.OK]
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", one.Name, short(one.Value), one.Unit, optional(one.Floor), optional(one.Ratio), one.Target, verdict)
	}
	return t.Flush()
}

func short(v float64) string { return fmt.Sprintf("%.4g", v) }

// write stores the figures as bin/bench.json.
func (r *report) write() error {
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	text, err := json.MarshalIndent(r.results, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(root, "bin"), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, "bin", "bench.json"), append(text, '\n'), 0o644)
}
