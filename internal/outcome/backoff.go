package outcome

import (
	"math/rand/v2"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// Backoff bounds of one object's retries.
const (
	backoffBase = 100 * time.Millisecond
	backoffMax  = 2 * time.Minute
)

// NewRateLimiter returns the back-off of a controller's queue: exponential per object from 100 ms to 2 minutes, each
// wait jittered by a fifth either way, without a bucket that objects share.
func NewRateLimiter[request comparable]() workqueue.TypedRateLimiter[request] {
	return jittered[request]{workqueue.NewTypedItemExponentialFailureRateLimiter[request](backoffBase, backoffMax)}
}

type jittered[request comparable] struct {
	workqueue.TypedRateLimiter[request]
}

func (j jittered[request]) When(item request) time.Duration {
	wait := j.TypedRateLimiter.When(item)
	return wait*4/5 + time.Duration(rand.Int64N(int64(wait*2/5)+1))
}
