package app

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/gatehouse-dev/gatehouse/test/eventually"
)

// Fails when what a manager had in its queues at its end counts as waiting under the next one.
func TestWhatAnEndedManagerLeftInItsQueuesIsNotWaiting(t *testing.T) {
	p := &process{log: logr.Discard()}
	depth := func() float64 {
		t.Helper()
		families, err := p.Gather()
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for _, queue := range depths(families) {
			sum += queue.GetGauge().GetValue()
		}
		return sum
	}
	waiting := func(want float64) {
		t.Helper()
		eventually.Succeeds(t, 10*time.Second, func() error {
			if now := depth(); now != want {
				return fmt.Errorf("%v wait, want %v", now, want)
			}
			return nil
		})
	}
	before := priorityqueue.New[string]("abandoned")
	before.Add("one")
	before.Add("two")
	waiting(2)
	before.ShutDown()
	p.abandon()
	if left := depth(); left != 0 {
		t.Errorf("%v wait in no queue", left)
	}
	after := priorityqueue.New[string]("abandoned")
	defer after.ShutDown()
	after.Add("three")
	waiting(1)
}
