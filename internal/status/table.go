package status

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// Bounds of the short table.
const (
	shownInputs = 12 // characters of a hash
	shownIdle   = 10 // replicas that do not serve, below each Executor
)

// table is a List for people: a line for each Executor, and under it one for each replica.
type table struct {
	header []string
	rows   []row
}

// row is a line of a table. The last cell may have more lines, which stand below it.
type row struct {
	executor, replica string // whose it is; no replica: the Executor's own
	cells             []string
	// content is what a change of makes a row another. How long ago something was is not part of it.
	content string
}

// newTable lays a list out as of a moment.
func newTable(list *List, wide bool, now time.Time) table {
	t := table{header: []string{"NAME", "READY", "GENERATION", "INPUTS", "SINCE", "ERROR"}}
	if wide {
		t.header = []string{"NAME", "READY", "GENERATION", "INPUTS", "SINCE", "MODE", "UID", "ERROR"}
	}
	for i := range list.Items {
		e := &list.Items[i]
		t.rows = append(t.rows, executorRow(e, wide, now))
		lines := replicaRows(e, wide, now)
		for n := range lines {
			branch := "├─ "
			if n == len(lines)-1 {
				branch = "└─ "
			}
			lines[n].cells[0] = branch + lines[n].cells[0]
		}
		t.rows = append(t.rows, lines...)
	}
	return t
}

func (e *Executor) key() string {
	if e.Namespace == "" {
		return e.Name
	}
	return e.Namespace + "/" + e.Name
}

func executorRow(e *Executor, wide bool, now time.Time) row {
	name, generation, text := e.key(), strconv.FormatInt(e.Generation, 10), e.BriefError
	if e.Mode == v1alpha1.ModeAudit && !wide {
		name += " (Audit)"
	}
	if e.ObservedGeneration != 0 && e.ObservedGeneration != e.Generation {
		generation += fmt.Sprintf(" (seen %d)", e.ObservedGeneration)
	}
	if wide && len(e.Replicas) == 0 {
		text = cmp.Or(e.Error, text) // nobody below says it
	}
	return line(row{executor: string(e.Kind) + "/" + e.key()}, wide, e.Since, now,
		name, e.counted(), generation, "", string(e.Mode), string(e.UID), text)
}

// counted is how many replicas of how many are ready.
func (e *Executor) counted() string {
	c := e.Counts
	switch {
	case c.Summary != "":
		return c.Summary
	case c.Expected > 0 || c.NotServing > 0:
		return fmt.Sprintf("%d/%d", c.Ready, c.Expected)
	default:
		return ""
	}
}

func replicaRows(e *Executor, wide bool, now time.Time) []row {
	var rows []row
	serving, idle, left := 0, 0, 0
	for _, r := range e.Replicas {
		if r.Serving {
			serving++
		} else if idle++; idle > shownIdle && !wide {
			left++
			continue
		}
		rows = append(rows, replicaRow(e, r, wide, now))
	}
	unnamed := func(key, text string, n int) {
		if n > 0 {
			rows = append(rows, line(row{executor: string(e.Kind) + "/" + e.key(), replica: key}, wide, nil, now, fmt.Sprintf(text, n), "", "", "", "", "", ""))
		}
	}
	if e.listed > 0 { // out of a cluster none is listed, and none is missing
		unnamed("listed", "(%d more that serve)", int(e.Counts.Expected)-max(e.listed, serving))
	}
	unnamed("left", "(%d more that do not serve)", left)
	unnamed("counted", "(%d not serving)", int(e.Counts.NotServing)-idle)
	return rows
}

func replicaRow(e *Executor, r Replica, wide bool, now time.Time) row {
	ready, generation, inputs, text := "no", "", r.Inputs, r.BriefError
	switch {
	case !r.Serving:
		ready = ""
	case r.Succeeded:
		ready = "yes"
	}
	switch {
	case r.ServingGeneration != 0:
		generation = strconv.FormatInt(r.ServingGeneration, 10)
	case r.ObservedGeneration != 0:
		generation = "none"
	}
	if r.ObservedGeneration != r.ServingGeneration {
		generation += fmt.Sprintf(" (tried %d)", r.ObservedGeneration)
	}
	if !wide && len(inputs) > shownInputs {
		inputs = ansi.Truncate(inputs, shownInputs, "")
	}
	if wide && r.Serving {
		text = cmp.Or(r.Error, text)
	} else if wide && r.Error != "" {
		text += "\n" + r.Error
	}
	return line(row{executor: string(e.Kind) + "/" + e.key(), replica: cmp.Or(string(r.PodUID), r.Pod)}, wide, r.Since, now,
		r.Pod, ready, generation, inputs, "", string(r.PodUID), text)
}

// line fills in a row.
func line(r row, wide bool, since *metav1.Time, now time.Time, name, ready, generation, inputs, mode, uid, text string) row {
	r.content = strings.Join([]string{name, ready, generation, inputs, mode, uid, text}, "\x00")
	if since != nil {
		r.content += "\x00" + since.UTC().Format(time.RFC3339)
	}
	r.cells = []string{name, ready, generation, inputs, age(since, now)}
	if wide {
		r.cells = append(r.cells, mode, uid)
	}
	r.cells = append(r.cells, text)
	for i, cell := range r.cells[:len(r.cells)-1] {
		r.cells[i] = cmp.Or(cell, "-")
	}
	return r
}

func age(since *metav1.Time, now time.Time) string {
	if since == nil || since.IsZero() {
		return ""
	}
	return duration.HumanDuration(max(now.Sub(since.Time), 0))
}

// widths are those of the columns but the last.
type widths []int

// fit makes the columns wide enough for a table; they never become narrower.
func (w widths) fit(t table) widths {
	for len(w) < len(t.header)-1 {
		w = append(w, 0)
	}
	for i := range w {
		w[i] = max(w[i], ansi.StringWidth(t.header[i]))
		for _, r := range t.rows {
			w[i] = max(w[i], ansi.StringWidth(r.cells[i]))
		}
	}
	return w
}

// layout is a row in columns, in one line or more.
func (w widths) layout(cells []string) string {
	var b strings.Builder
	indent := 0
	for i, width := range w {
		b.WriteString(cells[i] + strings.Repeat(" ", width-ansi.StringWidth(cells[i])+3))
		indent += width + 3
	}
	b.WriteString(strings.ReplaceAll(cells[len(w)], "\n", "\n"+strings.Repeat(" ", indent)))
	lines := strings.Split(b.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// String is the whole table. Without rows it is empty.
func (t table) String() string {
	if len(t.rows) == 0 {
		return ""
	}
	w := widths{}.fit(t)
	var b strings.Builder
	fmt.Fprintln(&b, w.layout(t.header))
	for _, r := range t.rows {
		fmt.Fprintln(&b, w.layout(r.cells))
	}
	return b.String()
}

// remarks are a list's notes and errors, a line each.
func remarks(list *List) []string {
	var lines []string
	for _, note := range list.Notes {
		lines = append(lines, "note: "+note)
	}
	for _, err := range list.Errors {
		lines = append(lines, "error: "+err)
	}
	return lines
}

func printRemarks(out io.Writer, lines []string) error {
	for _, l := range lines {
		if _, err := fmt.Fprintln(out, l); err != nil {
			return err
		}
	}
	return nil
}
