package executor

import (
	"context"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Report is what this replica serves of one Executor, and what is wrong with it. It holds no time: the same trouble
// makes the same report.
type Report struct {
	// Name is the Executor's; without a namespace it is the cluster's.
	Name types.NamespacedName
	// UID is the Executor's: one that is created anew under the same name is another.
	UID types.UID
	// Attempted is the generation that was last attempted; Serving is that of the spec whose build answers, 0 without one.
	Attempted, Serving int64
	// Inputs is a hash of what answers: the spec, and what it trusts.
	Inputs string
	// Succeeded says that the attempted generation answers, with everything it names.
	Succeeded bool
	// Reason, Error and Brief say what is wrong: in a word of the API's reasons, in full, and in a line. All are empty if
	// nothing is.
	Reason, Error, Brief string
}

// Board holds the newest report on each Executor that there is, for those who publish what this replica serves.
type Board struct {
	mu      sync.Mutex
	reports map[types.NamespacedName]Report
	queues  []workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// NewBoard makes an empty one.
func NewBoard() *Board { return &Board{reports: map[types.NamespacedName]Report{}} }

// Put takes in what this replica has made of an Executor. The same report again wakes nobody.
func (b *Board) Put(r Report) {
	b.mu.Lock()
	before, known := b.reports[r.Name]
	b.reports[r.Name] = r
	queues := slices.Clone(b.queues)
	b.mu.Unlock()
	if !known || before != r {
		tell(queues, r.Name)
	}
}

// Remove takes in that an Executor is gone.
func (b *Board) Remove(name types.NamespacedName) {
	b.mu.Lock()
	_, known := b.reports[name]
	delete(b.reports, name)
	queues := slices.Clone(b.queues)
	b.mu.Unlock()
	if known {
		tell(queues, name)
	}
}

// Get is the newest report on an Executor.
func (b *Board) Get(name types.NamespacedName) (Report, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r, ok := b.reports[name]
	return r, ok
}

// Names are those of all Executors that there is a report on, in no order.
func (b *Board) Names() []types.NamespacedName {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.reports))
}

// Changes wakes a controller for every Executor on the board, and for each whose report changes.
func (b *Board) Changes() source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		b.mu.Lock()
		b.queues = append(b.queues, queue)
		names := slices.Collect(maps.Keys(b.reports))
		b.mu.Unlock()
		for _, name := range names {
			queue.Add(reconcile.Request{NamespacedName: name})
		}
		return nil
	})
}

func tell(queues []workqueue.TypedRateLimitingInterface[reconcile.Request], name types.NamespacedName) {
	for _, queue := range queues {
		queue.Add(reconcile.Request{NamespacedName: name})
	}
}
