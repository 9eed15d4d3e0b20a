package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/charmbracelet/lipgloss"
)

// report is everything that the demo has to say in the end.
type report struct {
	results []result
	elapsed time.Duration
	err     error // what kept the demo from running its steps
}

func (r report) held() bool {
	if r.err != nil || len(r.results) == 0 {
		return false
	}
	for _, one := range r.results {
		if !one.ok() {
			return false
		}
	}
	return true
}

// writeJSON writes the report as one line.
func (r report) writeJSON(out io.Writer) error {
	document := struct {
		OK      bool     `json:"ok"`
		Error   string   `json:"error,omitempty"`
		Seconds float64  `json:"seconds"`
		Steps   []result `json:"steps"`
	}{OK: r.held(), Seconds: float64(r.elapsed.Milliseconds()) / 1000, Steps: r.results}
	if document.Steps == nil {
		document.Steps = []result{}
	}
	if r.err != nil {
		document.Error = r.err.Error()
	}
	return json.NewEncoder(out).Encode(document)
}

// writeText writes the report for people.
func (r report) writeText(out io.Writer) {
	style := lipgloss.NewRenderer(out)
	green, red, faint := style.NewStyle().Foreground(lipgloss.Color("2")), style.NewStyle().Foreground(lipgloss.Color("1")), style.NewStyle().Faint(true)
	fmt.Fprintf(out, "\n%s\n\n", style.NewStyle().Bold(true).Render("What was seen"))
	held := 0
	for _, one := range r.results {
		switch {
		case one.ok():
			held++
			fmt.Fprintf(out, "%s %s%s\n", green.Render("✓"), pad(one.step.title), faint.Render(seconds(one.elapsed)))
			write(out, one.record.seen)
			for line := range strings.Lines(one.record.shown) {
				fmt.Fprint(out, "  "+line)
			}
		case one.ran:
			fmt.Fprintf(out, "%s %s%s\n", red.Render("✗"), pad(one.step.title), faint.Render(seconds(one.elapsed)))
			write(out, one.err.Error())
		default:
			fmt.Fprintln(out, faint.Render("· "+pad(one.step.title)+" not run"))
		}
	}
	verdict := green.Render("Every step held")
	if !r.held() {
		verdict = red.Render("The demo did not hold")
	}
	fmt.Fprintf(out, "\n%s: %d of %d in %s.\n", verdict, held, len(r.results), clock(r.elapsed))
}

func pad(title string) string {
	const width = 40
	return title + strings.Repeat(" ", max(1, width-lipgloss.Width(title)))
}

// write writes a sentence in lines that are indented and fit on a terminal.
func write(out io.Writer, sentence string) {
	const width = 96
	for _, line := range strings.Split(lipgloss.NewStyle().Width(width).Render(sentence), "\n") {
		fmt.Fprintln(out, "  "+strings.TrimRight(line, " "))
	}
}
