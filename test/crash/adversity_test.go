package crash

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gatehouse-dev/gatehouse/test/faultproxy"
)

// adversity is something that goes wrong with the managers, or on their way to the API server, for as long as a story
// lasts.
type adversity struct {
	name string
	// sampleLag is how late and old things are in a sample, for time's sake.
	sampleLag time.Duration
	// strike lets it begin and returns what ends it.
	strike func(*adverse) (end func())
}

// adversities are what makes controllers fail: what they see is of a while ago, they have not seen what was between, or
// what they do arrives when they have long gone on.
var adversities = []adversity{
	{"old lists", 3 * time.Second, (*adverse).oldLists}, // a client waits for a second before it lists again
	{"every event twice", time.Second, (*adverse).everyEventTwice},
	{"one event in five lost", time.Second, (*adverse).eventsLost},
	{"late status writes", time.Second, (*adverse).lateStatusWrites},
	{"leader paused", time.Second, (*adverse).leaderPaused},
}

// adverse is a story with an adversity.
type adverse struct {
	adversity
	seed uint64
	// lag is how late is what is late, how old what is old.
	lag time.Duration
	// turns is how often what comes and goes does so, an even number.
	turns int
	// writes is how many the story takes without it.
	writes int

	t      *testing.T
	lane   *lane
	leader *replica
	random *rand.Rand
}

func (a adverse) begin(t *testing.T, l *lane, leader *replica) (end func()) {
	a.t, a.lane, a.leader, a.random = t, l, leader, rand.New(rand.NewPCG(a.seed, 3))
	over := a.strike(&a)
	return func() {
		over()
		l.rests(t, stillness)
	}
}

// needless leaves open how often something is tried: a view of a while ago is found out by a conflict. What it may not
// do is to change anything once more.
func (a adverse) needless(s scenario, got, want map[string]sent) error {
	return needless(got, want, func(key string, got, want sent) string {
		if got.made > 0 && want.times == 0 {
			return "never without " + a.name
		}
		if !s.loose && got.changed > want.changed && !strings.Contains(key, "/status") {
			return fmt.Sprintf("changed %d times, without %s %d", got.changed, a.name, want.changed)
		}
		return ""
	})
}

// everywhere does something to the way of each manager.
func (a *adverse) everywhere(do func(*faultproxy.Proxy)) {
	for _, r := range a.lane.managers {
		do(r.proxy)
	}
}

func every(faultproxy.Request) bool { return true }

// oldLists has the managers talk to an API server whose cache is behind, and to one whose is not, in turn: each time
// they list anew, by the one they go back in time, and by the other they come back at once. The one has a cache for each
// kind, of which about half are behind, so what the managers see never was at one time. A story that is over sooner is
// looked back upon once, too.
func (a *adverse) oldLists() (end func()) {
	present := func(p *faultproxy.Proxy) {
		p.Present()
		p.Relist(every)
	}
	back := make(chan struct{})
	stop := a.meanwhile(time.Duration(a.random.Int64N(int64(storyTime))), func(turn int) {
		if turn%2 == 1 {
			a.everywhere(present)
			if turn == 1 {
				close(back)
			}
			return
		}
		salt := a.random.Uint64()
		old := func(r faultproxy.Request) bool {
			kind := fnv.New64a()
			_, _ = kind.Write([]byte(r.Resource))
			return rand.New(rand.NewPCG(salt, kind.Sum64())).IntN(2) == 0
		}
		a.everywhere(func(p *faultproxy.Proxy) {
			p.Behind(a.lane.history, a.lag, old)
			p.Relist(old)
		})
	})
	return func() {
		select {
		case <-back:
		case <-a.t.Context().Done():
		}
		stop()
		a.everywhere(present)
	}
}

func (a *adverse) everyEventTwice() (end func()) {
	a.everywhere(func(p *faultproxy.Proxy) { p.Distort(faultproxy.Distortion{Twice: 1}) })
	return func() { a.everywhere(func(p *faultproxy.Proxy) { p.Distort() }) }
}

// eventsLost loses events until the managers list again, which they do from time to time. They wait longer each time
// before they do, so the loss has to end before the story can.
func (a *adverse) eventsLost() (end func()) {
	a.everywhere(func(p *faultproxy.Proxy) { p.Distort(faultproxy.Distortion{Lost: 0.2}) })
	found := func(p *faultproxy.Proxy) {
		p.Distort()
		p.Relist(every)
	}
	stop := a.meanwhile(a.lag, func(turn int) {
		if turn == a.turns-1 {
			a.everywhere(found)
		} else {
			a.everywhere(func(p *faultproxy.Proxy) { p.Relist(every) })
		}
	})
	return func() {
		stop()
		a.everywhere(found)
	}
}

func (a *adverse) lateStatusWrites() (end func()) {
	late := faultproxy.Rule{
		When:  func(r faultproxy.Request) bool { return r.Writes() && r.Subresource == "status" },
		Fault: faultproxy.Slow(a.lag),
	}
	a.everywhere(func(p *faultproxy.Proxy) { p.Script(late) })
	return func() { a.everywhere(func(p *faultproxy.Proxy) { p.Script() }) }
}

// leaderPaused stops the leader in its tracks when it sends a write, ends its lease, and lets it go on when another leads
// and has been at work for a while. It works on beside that one until it has tried to renew for long enough. The write,
// and what it has sent besides, arrives then: decided by one who led, and late. In every other run no pod becomes ready
// meanwhile, and the heir finds the fleet as the leader has left it.
func (a *adverse) leaderPaused() (end func()) {
	ctx, cancel := context.WithCancel(a.t.Context())
	frozen, halt := a.random.IntN(2) == 0, a.leader.proxy.HaltBefore
	if a.random.IntN(2) == 0 {
		halt = a.leader.proxy.HaltAfter
	}
	at := 1 + a.random.IntN(max(a.writes*9/10, 1)) // a run takes a write more or less
	heirs := settling + time.Duration(a.random.Int64N(int64(time.Second)))
	halt(a.leader.proxy.Begun()+at, func() {
		if frozen {
			a.lane.watcher.freeze()
			defer a.lane.watcher.thaw()
		}
		if err := a.leader.Signal(syscall.SIGSTOP); err != nil {
			a.t.Errorf("stop the leader: %v", err)
			return
		}
		if err := a.lane.vacate(ctx); err != nil && ctx.Err() == nil {
			a.t.Error(err)
		}
		a.lane.led(ctx, a.leader, heirs)
		if err := a.leader.Signal(syscall.SIGCONT); err != nil {
			a.t.Errorf("let the leader go on: %v", err)
		}
	})
	a.t.Logf("the leader stands still at its write %d; pods go on meanwhile: %v", at, !frozen)
	return func() {
		a.leader.proxy.Spare()
		cancel()
	}
}

// storyTime is about how long a story takes.
const storyTime = 1500 * time.Millisecond

// meanwhile does something in so many turns, each after a somewhat longer while, and the first after the one given.
func (a *adverse) meanwhile(first time.Duration, do func(turn int)) (stop func()) {
	ctx, cancel := context.WithCancel(a.t.Context())
	var working sync.WaitGroup
	working.Go(func() {
		pause, longest := first, a.lag
		for turn := range a.turns {
			timer := time.NewTimer(pause)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return
			}
			do(turn)
			pause = longest/2 + time.Duration(a.random.Int64N(int64(longest)))
			longest += longest / 4
		}
	})
	return func() {
		cancel()
		working.Wait()
	}
}
