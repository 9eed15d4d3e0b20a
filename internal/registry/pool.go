package registry

import (
	"container/list"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/gatehouse-dev/gatehouse/internal/image"
)

// PoolOptions of a Pool. A zero field means its default.
type PoolOptions struct {
	// Workers is how many attempts run at a time. Default 32.
	Workers int
	// PerRegistry is how many of them may be at one registry by accesses with
	// which it answers; half as many may be by others that were not tried yet,
	// and a single one by those with which it did not answer. Default 4.
	PerRegistry int
	// MaxResults bounds how many questions are known or waited for; beyond
	// it the least recently asked one is forgotten. Default 8192.
	MaxResults int
	// BackoffBase and BackoffCap bound the wait after a failure, which doubles
	// from the one to the other. Defaults 2s and 5m.
	BackoffBase, BackoffCap time.Duration
	// BreakerFailures in a row open the breaker of a registry; after
	// BreakerOpen one attempt is let through. Defaults 3 and 30s.
	BreakerFailures int
	BreakerOpen     time.Duration
	// Clock dates the results and the back-off. Default the real one.
	Clock clock.PassiveClock
	// Log gets a line when what a reference names changes.
	Log logr.Logger
}

func (o PoolOptions) withDefaults() PoolOptions {
	setDefault(&o.Workers, 32)
	setDefault(&o.PerRegistry, 4)
	setDefault(&o.MaxResults, 8192)
	setDefault(&o.BackoffBase, 2*time.Second)
	setDefault(&o.BackoffCap, 5*time.Minute)
	setDefault(&o.BreakerFailures, 3)
	setDefault(&o.BreakerOpen, 30*time.Second)
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return o
}

// Request asks what a reference names.
type Request struct {
	Reference image.Reference
	Access    Access
	// Owner is woken when the answer comes.
	Owner types.NamespacedName
	// MaxAge is how old a digest may be; zero is any age. It does not concern
	// failures, which have a time at which they are tried again.
	MaxAge time.Duration
	// NotBefore refuses any answer, also a failure, from an attempt that began
	// earlier: a person wants it asked now. A time in the future is ignored.
	NotBefore time.Time
}

// Result is the outcome of the latest attempt. The zero value says that there
// was none.
type Result struct {
	// Digest is what the reference names; zero if Err is set.
	Digest image.Digest
	// Err is an *Error, or nil.
	Err error
	// At is when the attempt began. It is zero if there was none.
	At time.Time
	// RetryAt is when a failure may be tried again: look it up then. It is zero
	// for a digest, for a terminal failure, and while an attempt is under way,
	// whose end wakes the owner.
	RetryAt time.Time
}

// Pool asks registries off the workers of controllers: what a reference names
// (Lookup), and anything else that takes requests to find out (Ask). Neither
// ever waits; Start runs the attempts. The answers are a cache of what the
// registries said.
type Pool struct {
	client  *Client
	options PoolOptions

	mu       sync.Mutex
	ctx      context.Context // of Start; nil while it does not run
	attempts sync.WaitGroup
	running  int
	// runningDoubtful is how many of those are at a registry in trouble.
	runningDoubtful int
	entries         map[entryKey]*entry
	idle            *list.List // of *entry without an attempt, the least recently asked for first
	sites           map[string]*site
	ready           []*lane // those that may start an attempt, in turn
	doubtful        []*lane // likewise, of registries that were last found in trouble
	queues          []workqueue.TypedInterface[reconcile.Request]
}

// entry is one question. It is idle (and in the list of those), or has an
// attempt queued or running; many who ask share it.
type entry struct {
	question
	lane     *lane
	owners   map[types.NamespacedName]struct{} // to wake
	idle     *list.Element                     // nil while an attempt is queued or runs
	latest   outcome
	failures int // in a row
}

// NewPool makes a Pool of attempts by client.
func NewPool(client *Client, options PoolOptions) *Pool {
	return &Pool{
		client:  client,
		options: options.withDefaults(),
		entries: map[entryKey]*entry{},
		idle:    list.New(),
		sites:   map[string]*site{},
	}
}

// Start runs attempts until ctx ends, and returns when the last one has. What
// was asked for before is attempted then.
func (p *Pool) Start(ctx context.Context) error {
	p.mu.Lock()
	p.ctx = ctx
	p.dispatch()
	p.mu.Unlock()

	<-ctx.Done()

	p.mu.Lock()
	p.ctx = nil // no attempt starts any more
	p.mu.Unlock()
	p.attempts.Wait()
	p.client.Close()
	return nil
}

// NeedLeaderElection is false: a replica may resolve whatever its controllers
// ask for, leading or not.
func (p *Pool) NeedLeaderElection() bool { return false }

// Completions wakes, in the controller that watches it, the owners of every
// attempt that ends. What ends before a controller watches is not kept: a
// controller looks everything up in its first passes.
func (p *Pool) Completions() source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.queues = append(p.queues, queue)
		return nil
	})
}

// Lookup returns the latest result and whether it answers the request. If it
// does not, an attempt is under way, the owner is woken when it ends, and the
// result is what was known before, if anything was. A failure that is waiting
// for its RetryAt answers the request.
func (p *Pool) Lookup(req Request) (Result, bool) {
	known, answered := p.look(question{
		key:  entryKey{"resolve " + req.Reference.String(), req.Access.key()},
		host: image.ComparableHost(req.Reference.Registry(), req.Access.PlainHTTP),
		name: req.Reference.Registry(),
		ask: func(ctx context.Context) (any, bool, error) {
			digest, err := p.client.Resolve(ctx, req.Reference, req.Access)
			return digest, false, err
		},
		heard: func(before, now outcome) { p.logResolved(req.Reference, before, now) },
	}, req.terms())
	result := Result{Err: known.err, At: known.at, RetryAt: known.retryAt}
	if known.err == nil && known.value != nil {
		result.Digest = known.value.(image.Digest)
	}
	return result, answered
}

func (r Request) terms() terms { return terms{r.Owner, r.MaxAge, r.NotBefore} }

// logResolved tells when what a reference names has changed, or why that is
// not known.
func (p *Pool) logResolved(ref image.Reference, before, now outcome) {
	failure, failed := asError(now.err)
	switch {
	case !failed && (before.err != nil || before.value != now.value):
		p.options.Log.Info("image resolved", "image", ref.String(), "digest", now.value.(image.Digest).String())
	case failed && (before.err == nil || before.err.Error() != failure.Error()):
		p.options.Log.Info("image cannot be resolved", "image", ref.String(), "reason", string(failure.Kind), "error", failure.Error(), "detail", failure.Detail)
	}
}

// look is Lookup of any question.
func (p *Pool) look(q question, t terms) (outcome, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.options.Clock.Now()
	e := p.entry(q)
	if e == nil {
		return outcome{
			err:     &Error{Kind: Busy, text: "registry " + q.name + ": not asked, too many questions wait for an answer"},
			at:      now,
			retryAt: now.Add(p.jittered(p.options.BackoffBase)),
		}, true
	}
	if e.idle != nil {
		p.idle.MoveToBack(e.idle)
		if e.answers(t, now) {
			return e.latest, true
		}
		if refusal := e.lane.refuse(now); refusal != nil {
			p.record(e, outcome{err: e.sameWords(refusal), at: now, retryAt: e.lane.reopens.Add(p.jittered(p.options.BackoffBase))})
			return e.latest, true
		}
		e.question = q
		p.enqueue(e)
	}
	e.owners[t.owner] = struct{}{}
	p.dispatch()
	known := e.latest
	known.retryAt = time.Time{}
	return known, false
}

// sameWords is a refusal in the words in which the entry's own attempt told the
// same trouble, if it was the last to tell it: a status that repeats them does not
// flap.
func (e *entry) sameWords(refusal *Error) error {
	if told, ok := asError(e.latest.err); ok && told.Kind == refusal.Kind && told.text == refusal.text {
		return e.latest.err
	}
	return refusal
}

// answers reports whether the latest outcome is good enough on these terms.
func (e *entry) answers(t terms, now time.Time) bool {
	switch latest := e.latest; {
	case latest.at.IsZero():
		return false
	case latest.at.Before(t.notBefore) && !t.notBefore.After(now):
		return false
	case latest.err == nil && latest.retryAt.IsZero():
		return t.maxAge <= 0 || now.Sub(latest.at) < t.maxAge
	default:
		return latest.retryAt.IsZero() || now.Before(latest.retryAt)
	}
}

// entry finds or makes the entry of a question; nil if there is no room.
func (p *Pool) entry(q question) *entry {
	if e, ok := p.entries[q.key]; ok {
		return e
	}
	if len(p.entries) >= p.options.MaxResults {
		oldest := p.idle.Front()
		if oldest == nil {
			return nil
		}
		p.forget(oldest.Value.(*entry))
	}
	e := &entry{question: q, owners: map[types.NamespacedName]struct{}{}}
	e.lane = p.lane(e)
	e.idle = p.idle.PushBack(e)
	p.entries[q.key] = e
	return e
}

func (p *Pool) forget(e *entry) {
	p.idle.Remove(e.idle)
	delete(p.entries, e.key)
	p.releaseLane(e.lane)
}

func (p *Pool) enqueue(e *entry) {
	p.idle.Remove(e.idle)
	e.idle = nil
	e.lane.waiting = append(e.lane.waiting, e)
	p.offer(e.lane)
}

// attempt runs in a goroutine of its own, which Start waits for.
func (p *Pool) attempt(ctx context.Context, e *entry, was laneState, done func(error)) {
	defer p.attempts.Done()
	began := p.options.Clock.Now()
	value, again, err := e.ask(ctx)

	p.mu.Lock()
	defer p.mu.Unlock()
	p.count(e.lane, was, -1)
	failure, _ := asError(err)
	if failure == nil && err != nil {
		failure = &Error{Kind: Undecided, text: err.Error(), cause: err}
	}
	if ctx.Err() != nil || failure != nil && failure.Kind == Interrupted {
		done(nil) // says nothing about the registry; the process is about to end
		p.settle(e)
		return
	}
	e.lane.learn(failure, done, p.options.Clock.Now())
	latest := outcome{value: value, err: err, at: began}
	switch {
	case failure != nil && !failure.Terminal():
		e.failures++
		latest.retryAt = p.options.Clock.Now().Add(max(p.backoff(e.failures), failure.RetryAfter()))
	case failure == nil && again:
		e.failures++
		latest.retryAt = p.options.Clock.Now().Add(p.backoff(e.failures))
	default:
		e.failures = 0
	}
	p.record(e, latest)
	p.settle(e)
	p.unhold(e.lane.site)
	p.offer(e.lane)
	p.dispatch()
}

// record keeps an outcome and tells it.
func (p *Pool) record(e *entry, latest outcome) {
	before := e.latest
	if latest.err != nil {
		latest.value, latest.valueAt = before.value, before.valueAt
	} else {
		latest.valueAt = latest.at
	}
	e.latest = latest
	e.heard(before, latest)
}

// settle makes an entry idle and wakes those who wait for it.
func (p *Pool) settle(e *entry) {
	e.idle = p.idle.PushBack(e)
	for owner := range e.owners {
		for _, queue := range p.queues {
			queue.Add(reconcile.Request{NamespacedName: owner})
		}
	}
	clear(e.owners)
}

// backoff is the wait after so many failures in a row.
func (p *Pool) backoff(failures int) time.Duration {
	wait := p.options.BackoffBase
	for range failures - 1 {
		if wait >= p.options.BackoffCap {
			break
		}
		wait *= 2
	}
	return p.jittered(min(wait, p.options.BackoffCap))
}

// jittered shortens a wait by up to a quarter, so that those who failed
// together do not come back together.
func (p *Pool) jittered(wait time.Duration) time.Duration {
	return wait - time.Duration(rand.Int64N(int64(wait)/4+1))
}
