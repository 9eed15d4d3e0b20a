package executor

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// queues are those of the two controllers, of the cluster's Executors and of namespaces', for whoever wakes an Executor
// without an event of an object. Before a controller has started there is no need to: every first pass lies ahead.
type queues struct {
	mu      sync.Mutex
	cluster queue
	tenants queue
}

// source lets the controller that starts it be woken.
func (q *queues) source(of *queue) source.Source {
	return source.Func(func(_ context.Context, started queue) error {
		q.mu.Lock()
		defer q.mu.Unlock()
		*of = started
		return nil
	})
}

// add has an Executor passed over.
func (q *queues) add(name types.NamespacedName) {
	q.mu.Lock()
	of := q.cluster
	if name.Namespace != "" {
		of = q.tenants
	}
	q.mu.Unlock()
	if of != nil {
		of.Add(reconcile.Request{NamespacedName: name})
	}
}
