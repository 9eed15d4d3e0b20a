package registry

import (
	"slices"
	"time"

	"github.com/sony/gobreaker/v2"
)

// lane is the queue of one registry, whoever asks and with whatever access.
// Lanes take turns, so that a long queue at one registry delays no other; and
// one that does not answer holds a single worker.
type lane struct {
	host     string
	waiting  []*entry
	running  int
	offered  bool // it is in Pool.ready or Pool.doubtful
	state    laneState
	circuits map[accessKey]*circuit
}

// laneState is how the last attempt found the registry.
type laneState int

const (
	untried laneState = iota
	inOrder
	inTrouble
)

// circuit is a lane with one access: what goes wrong with one set of
// authorities or credentials says nothing about another. It exists as long as
// an entry uses it.
type circuit struct {
	lane    *lane
	access  accessKey
	entries int
	breaker *gobreaker.TwoStepCircuitBreaker[any]
	trouble *Error    // the last failure of the registry
	reopens time.Time // nothing is attempted before
	openFor time.Duration
}

func (p *Pool) circuit(e *entry) *circuit {
	l := p.lanes[e.host]
	if l == nil {
		l = &lane{host: e.host, circuits: map[accessKey]*circuit{}}
		p.lanes[e.host] = l
	}
	c := l.circuits[e.key.access]
	if c == nil {
		c = &circuit{lane: l, access: e.key.access, openFor: p.options.BreakerOpen}
		c.breaker = gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
			Name:        e.host,
			MaxRequests: 1,
			Timeout:     p.options.BreakerOpen,
			ReadyToTrip: func(counts gobreaker.Counts) bool {
				return int(counts.ConsecutiveFailures) >= p.options.BreakerFailures
			},
			IsSuccessful: func(err error) bool { return err == nil },
		})
		l.circuits[e.key.access] = c
	}
	c.entries++
	return c
}

func (p *Pool) releaseCircuit(c *circuit) {
	c.entries--
	if c.entries > 0 {
		return
	}
	delete(c.lane.circuits, c.access)
	if len(c.lane.circuits) == 0 {
		delete(p.lanes, c.lane.host)
	}
}

// refuse returns why the registry is not asked now: the trouble it was last
// found in, in the same words, so that a summary does not flap; nil if it may
// be asked.
func (c *circuit) refuse(now time.Time) *Error {
	if c.trouble != nil && (now.Before(c.reopens) || c.breaker.State() == gobreaker.StateOpen) {
		return c.trouble
	}
	return nil
}

// learn takes in how an attempt ended. Only trouble of the registry itself
// counts: that one tag is not found says that it is in order.
func (c *circuit) learn(failure *Error, done func(error), now time.Time) {
	if failure == nil || !failure.troubled() {
		c.lane.state = inOrder
		done(nil)
		if c.breaker.State() == gobreaker.StateClosed {
			c.trouble = nil
		}
		return
	}
	c.lane.state = inTrouble
	c.trouble = failure
	done(failure)
	if c.breaker.State() == gobreaker.StateOpen {
		c.reopens = now.Add(c.openFor)
	}
	if wait := failure.RetryAfter(); wait > 0 && now.Add(wait).After(c.reopens) {
		c.reopens = now.Add(wait)
	}
}

// limit is how many attempts the lane may have under way.
func (l *lane) limit(perRegistry int) int {
	if l.state == inOrder {
		return perRegistry
	}
	return 1
}

// offer puts a lane at the end of its turn if it has something to start.
func (p *Pool) offer(l *lane) {
	if l.offered || len(l.waiting) == 0 || l.running >= l.limit(p.options.PerRegistry) {
		return
	}
	l.offered = true
	if l.state == inTrouble {
		p.doubtful = append(p.doubtful, l)
	} else {
		p.ready = append(p.ready, l)
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
		l.offered = false
		if len(l.waiting) > 0 && l.running < l.limit(p.options.PerRegistry) {
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

// begin starts the attempt of an entry, or answers it at once if its registry
// is left alone meanwhile.
func (p *Pool) begin(e *entry) {
	now := p.options.Clock.Now()
	c := e.circuit
	refusal := c.refuse(now)
	var done func(error)
	if refusal == nil {
		var err error
		if done, err = c.breaker.Allow(); err != nil {
			refusal = c.trouble // another attempt is finding out whether it is over
		}
	}
	if refusal != nil {
		from := now
		if c.reopens.After(now) {
			from = c.reopens
		}
		p.record(e, outcome{err: e.sameWords(refusal), at: now, retryAt: from.Add(p.jittered(p.options.BackoffBase))})
		p.settle(e)
		return
	}
	doubtful := c.lane.state == inTrouble
	p.running++
	c.lane.running++
	if doubtful {
		p.runningDoubtful++
	}
	p.attempts.Add(1)
	go p.attempt(p.ctx, e, doubtful, done)
}
