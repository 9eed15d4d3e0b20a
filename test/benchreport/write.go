package benchreport

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"text/tabwriter"

	"github.com/gatehouse-dev/gatehouse/test/cluster"
)

// Main runs the tests and benchmarks of a package, prints and stores what they have measured, and returns the code to
// exit with. A run that has measured nothing prints and stores nothing. Standard error gets each figure as it comes.
func Main(m *testing.M, figures *Report) int {
	figures.Progress = os.Stderr
	code := m.Run()
	if len(figures.Results()) == 0 {
		return code
	}
	root, err := cluster.Root()
	if err == nil {
		err = figures.Store(filepath.Join(root, "bin", "bench.json"))
	}
	if err := errors.Join(figures.Table(os.Stdout), err); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	return code
}

// Table prints the figures for people.
func (r *Report) Table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tVALUE\tUNIT\tFLOOR\tRATIO\tTARGET\tOK")
	optional := func(v *float64) string {
		if v == nil {
			return ""
		}
		return short(*v)
	}
	for _, one := range r.Results() {
		verdict := ""
		if one.Target != "" {
			verdict = map[bool]string{true: "yes", false: "NO"}[one.OK]
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", one.Name, short(one.Value), one.Unit, optional(one.Floor), optional(one.Ratio), one.Target, verdict)
	}
	return t.Flush()
}

func short(v float64) string { return fmt.Sprintf("%.4g", v) }

// Store adds the figures to those of other packages that the file has already, and takes the place of older ones of the
// same names. Packages that measure run one after the other: `go test -bench` sees to that.
func (r *Report) Store(path string) error {
	stored, err := load(path)
	if err != nil {
		return err
	}
	for _, one := range r.Results() {
		stored = slices.DeleteFunc(stored, func(other Result) bool { return other.Name == one.Name })
		stored = append(stored, one)
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false) // people read targets
	if err := encoder.Encode(stored); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, text.Bytes(), 0o644)
}

func load(path string) ([]Result, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var stored []Result
	if err := json.Unmarshal(text, &stored); err != nil {
		return nil, fmt.Errorf("%s holds no figures (%w); remove it", path, err)
	}
	return stored, nil
}
