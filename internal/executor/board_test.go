package executor_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gatehouse-dev/gatehouse/internal/executor"
)

// Who publishes reports is woken for what is on the board already and for what changes, and not for what is said again.
func TestBoardWakesForChangesOnly(t *testing.T) {
	board := executor.NewBoard()
	name := types.NamespacedName{Name: "production"}
	board.Put(executor.Report{Name: name, UID: "1", Attempted: 1, Reason: "Unreadable", Error: "cannot be read"})

	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	if err := board.Changes().Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	woken := func(step string, want int) {
		t.Helper()
		if got := queue.Len(); got != want {
			t.Fatalf("%s: %d are waiting, want %d", step, got, want)
		}
		for range want {
			request, _ := queue.Get()
			if request.NamespacedName != name {
				t.Fatalf("%s: woken for %s", step, request)
			}
			queue.Done(request)
		}
	}
	woken("what was there before", 1)
	board.Put(executor.Report{Name: name, UID: "1", Attempted: 1, Reason: "Unreadable", Error: "cannot be read"})
	woken("the same trouble again", 0)
	board.Put(executor.Report{Name: name, UID: "1", Attempted: 1, Serving: 1, Inputs: "abc", Succeeded: true})
	woken("another report", 1)
	board.Remove(name)
	woken("gone", 1)
	board.Remove(name)
	woken("gone already", 0)
	if _, there := board.Get(name); there || len(board.Names()) != 0 {
		t.Fatal("a report is there of an Executor that is gone")
	}
}
