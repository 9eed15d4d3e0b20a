package crash

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// point is a moment at which the leader is killed; the zero point is none.
type point struct {
	write int
	after bool
}

func (p point) String() string {
	switch {
	case p == point{}:
		return "uninterrupted"
	case p.after:
		return fmt.Sprintf("killed after write %d", p.write)
	default:
		return fmt.Sprintf("killed before write %d", p.write)
	}
}

func (p point) begin(t *testing.T, l *lane, leader *replica) (end func()) {
	kill, succeeded := l.assassin(t, leader)
	switch from := leader.proxy.Begun(); {
	case p == point{}:
	case p.after:
		leader.proxy.KillAfter(from+p.write, kill)
	default:
		leader.proxy.KillBefore(from+p.write, kill)
	}
	return func() {
		leader.proxy.Spare()
		succeeded()
	}
}

func (p point) needless(s scenario, got, want map[string]sent) error {
	return needless(got, want, func(key string, got, want sent) string {
		// How often a release's status is written is left open: it tells progress, in more or fewer steps.
		switch told := strings.Contains(key, "gatewayreleases.gatehouse.dev/status"); {
		case want.times == 0:
			return "never without a crash"
		case told || s.loose:
		case got.times > want.times+repeats:
			return fmt.Sprintf("sent %d times, without a crash %d", got.times, want.times)
		case got.changed > want.changed && !strings.Contains(key, "/status"):
			return fmt.Sprintf("changed %d times, without a crash %d", got.changed, want.changed)
		}
		return ""
	})
}

// repeats is how many more times than without a crash one thing may be sent: the write whose answer was lost, and one
// that changes nothing, by a manager that cannot know what the last one has applied.
const repeats = 2

// settling is how long a new leader has been at work when pods go on becoming ready: long enough for it to have admitted
// what it should not.
const settling = 300 * time.Millisecond

// assassin returns what kills a leader, and what waits for the end of it. Until another has led for a while, no pod
// becomes ready: the new leader finds the fleet as the old one has left it.
func (l *lane) assassin(t *testing.T, leader *replica) (kill, done func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var working sync.WaitGroup
	kill = func() {
		l.watcher.freeze()
		leader.Kill()
		if err := l.vacate(ctx); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
		working.Go(func() {
			defer l.watcher.thaw()
			l.led(ctx, leader, settling)
		})
	}
	return kill, func() {
		cancel()
		working.Wait()
	}
}
