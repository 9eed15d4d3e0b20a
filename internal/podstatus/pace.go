package podstatus

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

const (
	// quiet is how long nothing has to be heard of an Executor before its status is made anew: what replicas report of one
	// edit comes in one after the other, and is worth one write.
	quiet = 100 * time.Millisecond
	// heldAtMost is how long that is waited for.
	heldAtMost = 500 * time.Millisecond
	// After writesAtOnce writes there is one in each writesEvery, while reports still come.
	writesAtOnce = 2
	writesEvery  = time.Second
	// catchUp is how soon to look again whether the cache has a write of our own.
	catchUp = 50 * time.Millisecond
)

// pace says when it is time to make a status anew. It holds up what is done and decides nothing of it.
type pace struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	all   map[types.NamespacedName]*beat
}

type beat struct {
	first, last time.Time // of what was heard since the last pass; zero if nothing
	writes      *rate.Limiter
	superseded  string // the version that our last write took the place of
}

func newPace(c clock.PassiveClock) *pace {
	return &pace{clock: c, all: map[types.NamespacedName]*beat{}}
}

func (p *pace) of(name types.NamespacedName) *beat {
	b := p.all[name]
	if b == nil {
		b = &beat{writes: rate.NewLimiter(rate.Every(writesEvery), writesAtOnce)}
		p.all[name] = b
	}
	return b
}

// wait takes in that something was heard, or that a wait is over, and returns how long to wait yet.
func (p *pace) wait(name types.NamespacedName) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, now := p.of(name), p.clock.Now()
	if b.first.IsZero() {
		b.first, b.last = now, now
		return quiet
	}
	if now.Sub(b.last) < quiet && now.Sub(b.first) < heldAtMost {
		b.last = now
		return min(quiet, heldAtMost-now.Sub(b.first))
	}
	if missing := 1 - b.writes.TokensAt(now); missing > 0 {
		return max(time.Duration(missing*float64(writesEvery)), time.Millisecond)
	}
	b.first, b.last = time.Time{}, time.Time{}
	return 0
}

// behind reports whether a version is the one that our own last write took the place of: then that write is on its way
// to the cache, and one that is made from this version would be refused.
func (p *pace) behind(name types.NamespacedName, version string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.of(name).superseded == version
}

// wrote takes in that a version has been replaced.
func (p *pace) wrote(name types.NamespacedName, superseded string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.of(name)
	b.superseded = superseded
	b.writes.AllowN(p.clock.Now(), 1)
}

func (p *pace) forget(name types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, name)
}
