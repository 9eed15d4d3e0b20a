package registry

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gatehouse-dev/gatehouse/internal/image"
)

// Of accesses no more is kept than of answers, and nothing of what they are made of.
func TestLanesGoWithTheirQuestions(t *testing.T) {
	const room = 5
	ctx, cancel := context.WithCancel(t.Context())
	p := NewPool(New(Options{}), PoolOptions{MaxResults: room})
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	if err := p.Completions().Start(ctx, queue); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.Start(ctx) }()
	t.Cleanup(func() { cancel(); queue.ShutDown(); <-ended })
	for i := range 10 * room {
		ref, err := image.Parse(fmt.Sprintf("registry-%d.example/team/gw:1", i%2))
		if err != nil {
			t.Fatal(err)
		}
		Ask(p, Question[int]{
			Key: "q", Access: fmt.Sprint("secret", i), Reference: ref, Owner: types.NamespacedName{Name: "owner"},
			Ask:   func(context.Context) (int, bool, error) { return i, false, &Error{Kind: Untrusted} },
			Heard: func(Answer[int], Answer[int]) {},
		})
		request, _ := queue.Get() // it has an answer
		queue.Done(request)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	lanes := 0
	for _, at := range p.sites {
		lanes += len(at.lanes)
	}
	if lanes != room || len(p.entries) != room {
		t.Errorf("%d lanes for %d questions, of which there is room for %d", lanes, len(p.entries), room)
	}
}
