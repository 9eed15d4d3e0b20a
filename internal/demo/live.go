package demo

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/x/ansi"
	"k8s.io/apimachinery/pkg/types"
)

// live tells in place, on a terminal: the steps, and the fleet as it is at this moment.
type live struct {
	program *tea.Program
	stopped chan struct{}
}

// redrawEvery is slow enough to be calm and fast enough to see a gateway move.
const redrawEvery = 125 * time.Millisecond

func tellLive(out io.Writer, s *scene, steps []step) *live {
	model := screen{scene: s, steps: steps, started: time.Now(), at: -1}
	// No input: Ctrl-C stays a signal, for the demo to end everything in order.
	program := tea.NewProgram(model, tea.WithOutput(out), tea.WithInput(nil), tea.WithoutSignalHandler())
	l := &live{program: program, stopped: make(chan struct{})}
	go func() {
		defer close(l.stopped)
		_, _ = program.Run() // a terminal that cannot be drawn on is no reason to fail
	}()
	return l
}

type (
	saidMsg  string
	begunMsg struct{ command string }
	endedMsg result
	tickMsg  time.Time
	closeMsg struct{}
)

func (l *live) say(line string)              { l.program.Send(saidMsg(line)) }
func (l *live) begin(_ step, command string) { l.program.Send(begunMsg{command}) }
func (l *live) end(r result)                 { l.program.Send(endedMsg(r)) }
func (l *live) close()                       { l.program.Send(closeMsg{}); <-l.stopped }

// screen is what is drawn. It reads the fleet and changes nothing but itself.
type screen struct {
	scene   *scene
	steps   []step
	results []result
	at      int // the step that runs, -1 before the first
	command string
	said    string
	started time.Time
	begun   time.Time
	now     time.Time
	width   int
	closed  bool
}

func tick() tea.Cmd { return tea.Tick(redrawEvery, func(t time.Time) tea.Msg { return tickMsg(t) }) }

func (s screen) Init() tea.Cmd { return tick() }

func (s screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		s.width = msg.Width
	case saidMsg:
		s.said = string(msg)
	case begunMsg:
		s.at, s.command, s.begun = s.at+1, msg.command, time.Now()
	case endedMsg:
		s.results = append(s.results, result(msg))
	case tickMsg:
		s.now = time.Time(msg)
		return s, tick()
	case closeMsg:
		s.closed = true
		return s, tea.Quit
	}
	return s, nil
}

var (
	bold   = lipgloss.NewStyle().Bold(true)
	faint  = lipgloss.NewStyle().Faint(true)
	green  = lipgloss.NewStyle().Foreground(lipgloss.Color("2"))
	red    = lipgloss.NewStyle().Foreground(lipgloss.Color("1"))
	yellow = lipgloss.NewStyle().Foreground(lipgloss.Color("3"))
	// One colour for each good version.
	hues = []lipgloss.Style{
		lipgloss.NewStyle().Foreground(lipgloss.Color("4")),
		lipgloss.NewStyle().Foreground(lipgloss.Color("6")),
		lipgloss.NewStyle().Foreground(lipgloss.Color("5")),
		lipgloss.NewStyle().Foreground(lipgloss.Color("2")),
	}
	spinner = []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}
)

func (s screen) View() string {
	if s.closed {
		return " " // the summary takes its place; the renderer would leave the last frame for nothing at all
	}
	var lines []string
	lines = append(lines, "", bold.Render("Gatehouse")+faint.Render(fmt.Sprintf("  one release, %d gateways, %d tenants, a real Kubernetes   ", fleetSize, tenantCount))+clock(s.now.Sub(s.started)), "")
	for i, st := range s.steps {
		lines = append(lines, s.stepLine(i, st))
	}
	lines = append(lines, "")
	if s.at < 0 {
		lines = append(lines, faint.Render(s.said))
	} else {
		lines = append(lines, faint.Render("$ "+s.command), "")
		lines = append(lines, s.fleetLines()...)
	}
	lines = append(lines, "", faint.Render("Ctrl-C ends it and cleans up"), "")
	for i, line := range lines {
		line = " " + line
		if s.width > 0 {
			line = ansi.Truncate(line, s.width-1, "…")
		}
		lines[i] = line
	}
	return strings.Join(lines, "\n")
}

func (s screen) stepLine(i int, st step) string {
	const titleWidth = 38
	title := st.title + strings.Repeat(" ", max(1, titleWidth-ansi.StringWidth(st.title)))
	switch {
	case i < len(s.results) && s.results[i].ok():
		return green.Render("✓ ") + title + faint.Render(seconds(s.results[i].elapsed))
	case i < len(s.results):
		return red.Render("✗ ") + title + faint.Render(seconds(s.results[i].elapsed))
	case i == s.at:
		frame := int(s.now.UnixMilli()/redrawEvery.Milliseconds()) % len(spinner)
		return yellow.Render(spinner[frame]+" ") + bold.Render(title) + faint.Render(seconds(s.now.Sub(s.begun)))
	default:
		return faint.Render("· " + title)
	}
}

// fleetLines are a row of gateways for each tenant, what the release says, and what the colours mean.
func (s screen) fleetLines() []string {
	var rows, facts []string
	s.scene.fleet.look(func() {
		for _, t := range s.scene.tenants {
			row := t.namespace + "  "
			for n := 1; n <= gatewaysPerTenant; n++ {
				row += s.cell(types.NamespacedName{Namespace: t.namespace, Name: "edge-" + strconv.Itoa(n)}) + " "
			}
			rows = append(rows, row)
		}
		facts = s.releaseFacts()
	})
	for i := range rows {
		if i < len(facts) {
			rows[i] += "   " + facts[i]
		}
	}
	return append(rows, "", s.legend())
}

// cell is one gateway: its colour is the version it is to run, its shape how far it is.
func (s screen) cell(name types.NamespacedName) string {
	w, ok := s.scene.fleet.workloads[name]
	switch {
	case !ok:
		return faint.Render("·")
	case w.settled && s.scene.fleet.admitted(name):
		return s.hue(w.digest).Render("◉")
	case w.settled:
		return s.hue(w.digest).Render("●")
	case w.serving:
		return s.hue(w.digest).Render("◐")
	default:
		return s.hue(w.digest).Render("○")
	}
}

func (s screen) hue(digest string) lipgloss.Style {
	for i, name := range goodVersions {
		if s.scene.versions[name].digest == digest {
			return hues[i%len(hues)]
		}
	}
	return red
}

func (s screen) legend() string {
	var b strings.Builder
	for i, name := range goodVersions {
		b.WriteString(hues[i%len(hues)].Render("● ") + faint.Render(name+"  "))
	}
	b.WriteString(red.Render("● ") + faint.Render(badVersion+"     ◐ moving, old pod serving  ◉ moved, being watched  ○ not serving"))
	return b.String()
}

func (s screen) releaseFacts() []string {
	f := s.scene.fleet
	if f.release == nil {
		return nil
	}
	status := f.release.Status
	facts := []string{faint.Render("status   ") + summaryStyle(status.Summary).Render(status.Summary)}
	if f.executor != nil && f.executor.Status.Replicas.Summary != "" {
		facts[0] += faint.Render("   verified by ") + f.executor.Status.Replicas.Summary + " replicas"
	}
	ro := status.Rollout
	if ro == nil {
		return facts
	}
	return append(facts,
		faint.Render("rollout  ")+fmt.Sprintf("attempt %d, %s", ro.Attempt, ro.State),
		faint.Render("updated  ")+fmt.Sprintf("%d of %d, %d ready", ro.Fleet.Updated, ro.Fleet.Total, ro.Fleet.Ready),
		faint.Render("window   ")+fmt.Sprintf("%d under way (%d allowed)", len(ro.InFlight), s.scene.pace.budget))
}

func summaryStyle(summary string) lipgloss.Style {
	switch {
	case summary == "Available":
		return green
	case strings.HasPrefix(summary, "Invalid"):
		return red
	default:
		return yellow
	}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%6.1fs", d.Seconds()) }

func clock(d time.Duration) string {
	if d < 0 {
		d = 0
	}
	return fmt.Sprintf("%d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}
