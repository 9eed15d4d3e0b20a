package podstatus

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
)

// undoneWithin is how long what somebody else writes into a status may stand.
const undoneWithin = 3 * time.Second

// What somebody else writes into a status is undone at once, by one write, and that wakes nobody.
func TestWhatSomebodyElseWritesIsUndoneAtOnce(t *testing.T) {
	i := newInstallation(t)
	e := i.anExecutor()
	l := i.lead(leadership{})
	all := i.three(l, e)
	allWell := e.Status.DeepCopy()
	i.reports(all[2], e, broke(1, v1alpha1.ReasonUnreadable, "cannot be read"))
	truth := []func(*v1alpha1.ExecutorStatus) error{counts("3 3 2 1 0"), isNotReady(v1alpha1.ReasonUnreadable, v1alpha1.ConditionReconciling), pods("c-", "a+", "b+")}
	i.becomes(e, truth...)

	for _, forgery := range []struct {
		says string
		into func(*v1alpha1.ExecutorStatus)
	}{
		{"that it succeeded", func(s *v1alpha1.ExecutorStatus) { s.Succeeded = true }},
		{"that it is Ready", func(s *v1alpha1.ExecutorStatus) {
			meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonServing})
		}},
		{"what was so once", func(s *v1alpha1.ExecutorStatus) { *s = *allWell.DeepCopy() }},
		{"that a replica succeeded", func(s *v1alpha1.ExecutorStatus) { s.ByPod[0].Succeeded = true }},
		{"that there is another replica", func(s *v1alpha1.ExecutorStatus) {
			s.ByPod = append(s.ByPod, v1alpha1.ReplicaStatus{ID: "made-up", Succeeded: true})
		}},
		{"that there is no replica", func(s *v1alpha1.ExecutorStatus) { s.ByPod = nil }},
		{"that it is of a generation to come", func(s *v1alpha1.ExecutorStatus) { s.ObservedGeneration = 99 }},
		{"nothing", func(s *v1alpha1.ExecutorStatus) { *s = v1alpha1.ExecutorStatus{} }},
	} {
		t.Run(forgery.says, func(t *testing.T) {
			passes, mark := l.rest(), i.mark()
			was := e.Status.DeepCopy()
			forgery.into(&e.Status)
			i.must(i.client.Status().Update(t.Context(), e))
			if equality.Semantic.DeepEqual(&e.Status, was) {
				t.Fatal("nothing was forged")
			}
			forged := time.Now()
			i.becomes(e, truth...)
			if took := time.Since(forged); took > undoneWithin {
				t.Errorf("it was undone after %s", took)
			}
			if n := l.rest() - passes; n != 1 {
				t.Errorf("it took %v passes, want 1", n)
			}
			if writes := l.writes(mark); len(writes) != 1 {
				t.Errorf("it took %d writes, want 1:\n%s", len(writes), strings.Join(writes, "\n"))
			}
		})
	}
}

// A leader that was paused goes on for a while beside the next one. What the two see differs, and yet neither takes back
// what the other has written, again and again.
func TestTwoLeadersDoNotTakeTurns(t *testing.T) {
	i := newInstallation(t)
	e := i.anExecutor()
	var deposed, asked atomic.Bool
	old := i.lead(leadership{leads: func(context.Context) (bool, error) {
		asked.Store(true)
		return !deposed.Load(), nil
	}})
	all := i.three(old, e)
	old.rest()

	// The old one has missed that a key was replaced.
	deposed.Store(true)
	next := i.lead(leadership{leads: func(context.Context) (bool, error) { return true, nil }})
	next.says(e, serves(1, "rotated"))
	mark := i.mark()
	for _, pod := range all[:2] {
		i.reports(pod, e, serves(1, "rotated"))
	}
	truth := pods("c-", "a+", "b+")
	i.becomes(e, counts("3 3 2 0 0"), truth)
	eventually.Succeeds(t, within, func() error {
		if !asked.Load() {
			return errors.New("the old leader has not seen that another wrote")
		}
		return nil
	})
	next.rest()
	before := len(next.writes(mark))
	eventually.Holds(t, 3*time.Second, func() error { return nil })
	i.becomes(e, counts("3 3 2 0 0"), truth)
	if after := len(next.writes(mark)); after != before {
		t.Errorf("the new leader has written %d times more since all was said", after-before)
	}
	if writes := old.writes(mark); len(writes) > 2 { // what it saw of the reports before it saw that it is deposed
		t.Errorf("the old leader has written %d times:\n%s", len(writes), strings.Join(writes, "\n"))
	}
}
