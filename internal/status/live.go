package status

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"
	"k8s.io/utils/clock"
)

// redrawEvery is how often ages are brought up to date.
const redrawEvery = time.Second

// live shows lists in place, on a terminal, until the context ends or q is pressed.
func (o Options) live(ctx context.Context, first *List, lists news) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	model := screen{list: first, wide: o.Output == Wide, clock: o.Clock}
	program := tea.NewProgram(model, tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithAltScreen(), tea.WithContext(ctx), tea.WithoutSignalHandler())
	ended := make(chan error, 1)
	go func() {
		_, err := program.Run()
		cancel()
		ended <- err
	}()
	err := lists(ctx, func(list *List) error {
		program.Send(list)
		return nil
	})
	cancel()
	if failed := <-ended; failed != nil && !errors.Is(failed, tea.ErrProgramKilled) {
		err = errors.Join(err, fmt.Errorf("draw on the terminal: %w", failed))
	}
	return err
}

// screen is the part of a table that is in sight.
type screen struct {
	list          *List
	wide          bool
	clock         clock.PassiveClock
	width, height int
	top           int // the first line in sight
}

type tickMsg struct{}

func tick() tea.Cmd {
	return tea.Tick(redrawEvery, func(time.Time) tea.Msg { return tickMsg{} })
}

func (s screen) Init() tea.Cmd { return tick() }

func (s screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tickMsg:
		return s, tick()
	case *List:
		s.list = msg
	case tea.WindowSizeMsg:
		s.width, s.height = msg.Width, msg.Height
	case tea.KeyMsg:
		switch msg.String() {
		case "q", "esc", "ctrl+c":
			return s, tea.Quit
		case "up", "k":
			s.top--
		case "down", "j":
			s.top++
		case "pgup":
			s.top -= s.page()
		case "pgdown", " ":
			s.top += s.page()
		case "home", "g":
			s.top = 0
		case "end", "G":
			s.top = len(s.body())
		}
	}
	s.top = max(0, min(s.top, len(s.body())-s.page()))
	return s, nil
}

// page is how many lines of the body are in sight, between the header and the last line.
func (s screen) page() int { return max(1, s.height-2) }

func (s screen) lines() []string {
	text := strings.TrimSuffix(newTable(s.list, s.wide, s.clock.Now()).String(), "\n")
	return append(strings.Split(text, "\n"), remarks(s.list)...)
}

func (s screen) body() []string { return s.lines()[1:] }

func (s screen) View() string {
	all := s.lines()
	body := all[1:]
	to := min(s.top+s.page(), len(body))
	shown := append([]string{all[0]}, body[min(s.top, to):to]...)
	help := "q ends"
	if len(body) > s.page() {
		help = fmt.Sprintf("lines %d to %d of %d; arrows and page keys move; q ends", s.top+1, to, len(body))
	}
	shown = append(shown, help)
	for i := range shown {
		if s.width > 0 {
			shown[i] = ansi.Truncate(shown[i], s.width, "…")
		}
	}
	return strings.Join(shown, "\n")
}
