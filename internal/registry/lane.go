package registry

import (
	"slices"
	"time"

	"github.com/sony/gobreaker/v2"
)

// site is a registry, by whatever access it is asked. It exists as long as one
// of its lanes does.
type site struct {
	host  string
	lanes map[accessKey]*lane
	// running counts the attempts under way, by the state of their lane when
	// they began; held are lanes that may start none before one of those ends.
	running [inTrouble + 1]int
	held    []*lane
}

// lane is the queue of one registry with one access: what goes wrong with one
// set of authorities or credentials says nothing about another. Lanes take
// turns, so that a long queue in one delays no other, and those of a registry
// share what it may have of the workers with those in the same state alone. A
// lane exists as long as an entry uses it.
type lane struct {
	site    *site
	access  accessKey
	entries int
	waiting []*entry
	running int
	offered bool // it is in Pool.ready, in Pool.doubtful or held by its site
	state   laneState
	breaker *gobreaker.TwoStepCircuitBreaker[any]
	trouble *Error    // the last failure of the registry
	reopens time.Time // nothing is attempted before
	openFor time.Duration
}

// laneState is how the last attempt found the registry.
type laneState int

const (
	untried laneState = iota
	inOrder
	inTrouble
)

func (p *Pool) lane(e *entry) *lane {
	at := p.sites[e.host]
	if at == nil {
		at = &site{host: e.host, lanes: map[accessKey]*lane{}}
		p.sites[e.host] = at
	}
	l := at.lanes[e.key.access]
	if l == nil {
		l = &lane{site: at, access: e.key.access, openFor: p.options.BreakerOpen}
		l.breaker = gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
			Name:        e.host,
			MaxRequests: 1,
			Timeout:     p.options.BreakerOpen,
			ReadyToTrip: func(counts gobreaker.Counts) bool {
				return int(counts.ConsecutiveFailures) >= p.options.BreakerFailures
			},
			IsSuccessful: func(err error) bool { return err == nil },
		})
		at.lanes[e.key.access] = l
	}
	l.entries++
	return l
}

func (p *Pool) releaseLane(l *lane) {
	l.entries--
	if l.entries > 0 {
		return
	}
	delete(l.site.lanes, l.access)
	if len(l.site.lanes) == 0 {
		delete(p.sites, l.site.host)
	}
}

// refuse returns why the registry is not asked now: the trouble it was last
// found in, in the same words, so that a summary does not flap; nil if it may
// be asked.
func (l *lane) refuse(now time.Time) *Error {
	if l.trouble != nil && (now.Before(l.reopens) || l.breaker.State() == gobreaker.StateOpen) {
		return l.trouble
	}
	return nil
}

// learn takes in how an attempt ended. Only trouble of the registry itself
// counts: that one tag is not found says that it is in order.
func (l *lane) learn(failure *Error, done func(error), now time.Time) {
	if failure == nil || !failure.troubled() {
		l.state = inOrder
		done(nil)
		if l.breaker.State() == gobreaker.StateClosed {
			l.trouble = nil
		}
		return
	}
	l.state = inTrouble
	l.trouble = failure
	done(failure)
	if l.breaker.State() == gobreaker.StateOpen {
		l.reopens = now.Add(l.openFor)
	}
	if wait := failure.RetryAfter(); wait > 0 && now.Add(wait).After(l.reopens) {
		l.reopens = now.Add(wait)
	}
}

// share is how many attempts the lanes of a registry that are in a state may
// have under way together. Those not tried yet may turn out to be in trouble,
// and must not hold up those in order for that.
func (p *Pool) share(state laneState) int {
	switch state {
	case inOrder:
		return p.options.PerRegistry
	case untried:
		return (p.options.PerRegistry + 1) / 2
	default:
		return 1
	}
}

// limit is how many of them one lane may have.
func (p *Pool) limit(l *lane) int {
	if l.state == inOrder {
		return p.options.PerRegistry
	}
	return 1
}

// offer puts a lane at the end of its turn if it has something to start.
func (p *Pool) offer(l *lane) {
	if l.offered || len(l.waiting) == 0 || l.running >= p.limit(l) {
		return
	}
	l.offered = true
	p.lineUp(l)
}

func (p *Pool) lineUp(l *lane) {
	if l.state == inTrouble {
		p.doubtful = append(p.doubtful, l)
	} else {
		p.ready = append(p.ready, l)
	}
}

// unhold lets the lanes of a registry have their turn again, of whose attempts
// one has ended.
func (p *Pool) unhold(at *site) {
	held := at.held
	at.held = nil
	for _, l := range held {
		p.lineUp(l)
	}
}

// dispatch starts attempts while there are workers, one lane after the other.
// Registries in trouble come last and share half of the workers, so that no
// number of them keeps one that answers waiting.
func (p *Pool) dispatch() {
	for p.ctx != nil && p.running < p.options.Workers {
		var l *lane
		switch {
		case len(p.ready) > 0:
			l = pop(&p.ready)
		case len(p.doubtful) > 0 && p.runningDoubtful < (p.options.Workers+1)/2:
			l = pop(&p.doubtful)
		default:
			return
		}
		if l.site.running[l.state] >= p.share(l.state) {
			l.site.held = append(l.site.held, l)
			continue
		}
		l.offered = false
		if len(l.waiting) > 0 && l.running < p.limit(l) {
			p.begin(pop(&l.waiting))
		}
		p.offer(l)
	}
}

// pop takes the first element off a queue.
func pop[T any](queue *[]T) T {
	first := (*queue)[0]
	*queue = slices.Delete(*queue, 0, 1)
	return first
}

// count takes in that an attempt of a lane that was in a state begins, or ends.
func (p *Pool) count(l *lane, was laneState, change int) {
	p.running += change
	if was == inTrouble {
		p.runningDoubtful += change
	}
	l.running += change
	l.site.running[was] += change
}

// begin starts the attempt of an entry, or answers it at once if its registry
// is left alone meanwhile.
func (p *Pool) begin(e *entry) {
	now := p.options.Clock.Now()
	l := e.lane
	refusal := l.refuse(now)
	var done func(error)
	if refusal == nil {
		var err error
		if done, err = l.breaker.Allow(); err != nil {
			refusal = l.trouble // another attempt is finding out whether it is over
		}
	}
	if refusal != nil {
		from := now
		if l.reopens.After(now) {
			from = l.reopens
		}
		p.record(e, outcome{err: e.sameWords(refusal), at: now, retryAt: from.Add(p.jittered(p.options.BackoffBase))})
		p.settle(e)
		return
	}
	p.count(l, l.state, 1)
	p.attempts.Add(1)
	go p.attempt(p.ctx, e, l.state, done)
}
