package executor

import (
	"slices"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// fairQueue lets each namespace have a few passes at a time, so that one whose Executors take long leaves the other
// workers to the rest. What comes for a namespace that has its share waits beside the queue, and goes to its end when one
// of the namespace is done.
type fairQueue struct {
	priorityqueue.PriorityQueue[reconcile.Request]
	share int

	mu         sync.Mutex
	namespaces map[string]*turns
}

// turns are the passes of one namespace.
type turns struct {
	running int
	waiting []waiter
}

type waiter struct {
	request  reconcile.Request
	priority int
}

// newFairQueue makes a queue of which each namespace gets at most share workers.
func newFairQueue(share int) func(string, workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	return func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		inner := priorityqueue.New(name, func(o *priorityqueue.Opts[reconcile.Request]) { o.RateLimiter = limiter })
		return &fairQueue{PriorityQueue: inner, share: share, namespaces: map[string]*turns{}}
	}
}

// Get is GetWithPriority without the priority.
func (q *fairQueue) Get() (reconcile.Request, bool) {
	request, _, shutdown := q.GetWithPriority()
	return request, shutdown
}

// GetWithPriority returns the next request of a namespace that does not have its share yet.
func (q *fairQueue) GetWithPriority() (reconcile.Request, int, bool) {
	for {
		request, priority, shutdown := q.PriorityQueue.GetWithPriority()
		if shutdown || q.begin(request, priority) {
			return request, priority, shutdown
		}
		q.PriorityQueue.Done(request)
	}
}

// begin gives a request its turn, or has it wait for one.
func (q *fairQueue) begin(request reconcile.Request, priority int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	of := q.namespaces[request.Namespace]
	if of == nil {
		of = &turns{}
		q.namespaces[request.Namespace] = of
	}
	at := slices.IndexFunc(of.waiting, func(w waiter) bool { return w.request == request })
	if of.running < q.share {
		if of.running++; at >= 0 {
			of.waiting = slices.Delete(of.waiting, at, at+1) // it was asked for again, and this is its turn
		}
		return true
	}
	if at < 0 {
		of.waiting = append(of.waiting, waiter{request, priority})
	} else {
		of.waiting[at].priority = max(of.waiting[at].priority, priority)
	}
	return false
}

// Done ends a turn, and lets the namespace have another: of what is most urgent, the one that has waited longest.
func (q *fairQueue) Done(request reconcile.Request) {
	q.PriorityQueue.Done(request)
	q.mu.Lock()
	defer q.mu.Unlock()
	of := q.namespaces[request.Namespace]
	of.running--
	if len(of.waiting) == 0 {
		if of.running == 0 {
			delete(q.namespaces, request.Namespace)
		}
		return
	}
	next := 0
	for i, w := range of.waiting {
		if w.priority > of.waiting[next].priority {
			next = i
		}
	}
	w := of.waiting[next]
	of.waiting = slices.Delete(of.waiting, next, next+1)
	q.AddWithOpts(priorityqueue.AddOpts{Priority: &w.priority}, w.request)
}
