package demo

import (
	"context"
	"fmt"
	"io"
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
	started time.Time
	stop    context.CancelFunc
	stopped chan struct{}
}

// tellLines begins to tell what happens to the release of a fleet, besides what it is told.
func tellLines(ctx context.Context, out io.Writer, f *fleet) *lines {
	ctx, cancel := context.WithCancel(ctx)
	l := &lines{out: out, started: time.Now(), stop: cancel, stopped: make(chan struct{})}
	go l.follow(ctx, f)
	return l
}

func (l *lines) say(line string) { l.line("  ", line) }

func (l *lines) begin(st step, command string) {
	l.line("▸ ", st.title)
	l.line("  ", "$ "+command)
}

func (l *lines) end(r result) {
	if r.ok() {
		l.line("✓ ", r.step.title+": "+r.record.seen)
		return
	}
	l.line("✗ ", fmt.Sprintf("%s: %v", r.step.title, r.err))
}

func (l *lines) close() {
	l.stop()
	<-l.stopped
}

// line is one write, so that lines of different tellings never mix.
func (l *lines) line(mark, text string) {
	fmt.Fprintf(l.out, "%6.1fs  %s%s\n", time.Since(l.started).Seconds(), mark, text)
}

// follow tells when the release says something else than before.
func (l *lines) follow(ctx context.Context, f *fleet) {
	defer close(l.stopped)
	told := ""
	for {
		var now string
		var changed chan struct{}
		f.look(func() { now, changed = milestone(f), f.changed })
		if now != "" && now != told {
			l.line("  ", now)
			told = now
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// milestone is a release's state, with its progress in quarters of the fleet: what is worth a line when it changes.
func milestone(f *fleet) string {
	if f.release == nil || f.release.Status.Summary == "" {
		return ""
	}
	status := f.release.Status
	line := fmt.Sprintf("release %s: %s", f.release.Name, status.Summary)
	if status.Rollout == nil || status.Rollout.State == "" {
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
