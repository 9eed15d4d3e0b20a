package demo

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// teller tells a person what happens while it happens.
type teller interface {
	// say tells of the preparations.
	say(line string)
	// begin tells that a step begins, and the command that a person would type for it.
	begin(st step, command string)
	// end tells how a step went.
	end(r result)
	// close ends the telling; nothing is told afterwards.
	close()
}

// lines tells one line for each change of state: for logs, pipes, and files.
type lines struct {
	out     io.Writer
	fleet   *fleet
	started time.Time
	stop    context.CancelFunc
	stopped chan struct{}

	mu   sync.Mutex // keeps lines whole and in order
	told string     // of the release
}

// tellLines begins to tell what happens to the release of a fleet, besides what it is told.
func tellLines(ctx context.Context, out io.Writer, f *fleet) *lines {
	ctx, cancel := context.WithCancel(ctx)
	l := &lines{out: out, fleet: f, started: time.Now(), stop: cancel, stopped: make(chan struct{})}
	go l.follow(ctx)
	return l
}

func (l *lines) say(line string) { l.line("  ", line) }

func (l *lines) begin(st step, command string) {
	l.line("\n▸ ", st.title)
	l.line("  ", "$ "+command)
}

func (l *lines) end(r result) {
	if r.ok() {
		l.line("✓ ", r.record.seen)
		return
	}
	l.line("✗ ", r.err.Error())
}

func (l *lines) close() {
	l.stop()
	<-l.stopped
}

// follow tells when the release says something else than before.
func (l *lines) follow(ctx context.Context) {
	defer close(l.stopped)
	for {
		var changed chan struct{}
		l.fleet.look(func() { changed = l.fleet.changed })
		l.line("", "")
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// line writes what the release says by now, if that is new, and then the text, if there is one.
func (l *lines) line(mark, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var now string
	l.fleet.look(func() { now = milestone(l.fleet) })
	if now != "" && now != l.told {
		l.told = now
		l.write("  ", now)
	}
	if text != "" {
		l.write(mark, text)
	}
}

func (l *lines) write(mark, text string) {
	above := ""
	if rest, ok := strings.CutPrefix(mark, "\n"); ok {
		above, mark = "\n", rest
	}
	fmt.Fprintf(l.out, "%s%6.1fs  %s%s\n", above, time.Since(l.started).Seconds(), mark, text)
}

// milestone is a release's state, with its progress in quarters of the fleet: what is worth a line when it changes.
func milestone(f *fleet) string {
	if f.release == nil || f.release.Status.Summary == "" {
		return ""
	}
	status := f.release.Status
	line := fmt.Sprintf("release %s: %s", f.release.Name, status.Summary)
	if status.Summary != "Available" || status.Rollout == nil {
		return line
	}
	ro := status.Rollout
	line += fmt.Sprintf(", attempt %d %s", ro.Attempt, ro.State)
	if ro.Fleet.Total > 0 {
		const quarter = fleetSize / 4
		line += fmt.Sprintf(", %d of %d updated", ro.Fleet.Updated/quarter*quarter, ro.Fleet.Total)
	}
	if ro.Fleet.Failed > 0 {
		line += fmt.Sprintf(", %d failed", ro.Fleet.Failed)
	}
	return line
}
