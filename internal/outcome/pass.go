package outcome

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// Object is a kind whose status a Pass writes.
type Object interface {
	client.Object
	// StatusConditions points at status.conditions.
	StatusConditions() *[]metav1.Condition
	// StatusGeneration points at status.observedGeneration.
	StatusGeneration() *int64
}

// Finisher holds what every pass of one controller needs at its end.
type Finisher struct {
	// Client writes status.
	Client client.StatusClient
	// Recorder sends events.
	Recorder events.EventRecorder
	// Clock tells the time for wake-ups.
	Clock clock.PassiveClock
	// Metrics counts passes; nil counts nothing.
	Metrics *Metrics
	// Controller is the controller's name in metrics.
	Controller string
	// FieldOwner names the writer of status.
	FieldOwner string
	// Resync is within what time every object is passed over again; each wait is shortened by up to a fifth at random.
	Resync time.Duration
	// Settled, if set, is told of every status that a pass comes to, before it is written, with the version that it was
	// made from.
	Settled func(Object)
}

// Pass is one pass over one object, from Begin to Finish.
type Pass struct {
	finisher *Finisher
	object   Object
	before   Object
	started  time.Time
	pending  []event
}

type event struct{ kind, reason, note string }

// Begin keeps what was read. Everything after it only fills in the object's status.
func (f *Finisher) Begin(object Object) *Pass {
	return &Pass{
		finisher: f,
		object:   object,
		before:   object.DeepCopyObject().(Object),
		started:  f.Clock.Now(),
	}
}

// Set sets a condition for the generation that was read.
func (p *Pass) Set(condition string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(p.object.StatusConditions(), metav1.Condition{
		Type:               condition,
		Status:             status,
		ObservedGeneration: p.object.GetGeneration(),
		LastTransitionTime: metav1.NewTime(p.finisher.Clock.Now()),
		Reason:             reason,
		Message:            Bound(message, MessageLimit),
	})
}

// Clear removes a condition, for those that are present only while they are true.
func (p *Pass) Clear(condition string) {
	meta.RemoveStatusCondition(p.object.StatusConditions(), condition)
}

// Event is sent once the pass has written its status; a pass that changes nothing sends none.
func (p *Pass) Event(kind, reason, note string) {
	p.pending = append(p.pending, event{kind, reason, note})
}

// Record writes status now, for what has to be on record before anything moves, and goes on from what came back.
// A conflict means that the pass was stale: return the error, Finish starts over.
func (p *Pass) Record(ctx context.Context) error {
	if err := p.write(ctx); err != nil {
		return fmt.Errorf("record status: %w", err)
	}
	p.before = p.object.DeepCopyObject().(Object)
	return nil
}

func (p *Pass) changed() bool {
	// Only status is ever changed by a pass; comparing whole objects compares just that.
	return !equality.Semantic.DeepEqual(p.before, p.object)
}

func (p *Pass) write(ctx context.Context) error {
	if !p.changed() {
		return nil
	}
	patch := client.MergeFromWithOptions(p.before, client.MergeFromWithOptimisticLock{})
	return p.finisher.Client.Status().Patch(ctx, p.object, patch, client.FieldOwner(p.finisher.FieldOwner))
}

// Option shapes the end of a pass.
type Option func(*Pass, *time.Duration)

// WakeAt asks for a pass at t at the latest; a zero t asks for nothing.
func WakeAt(t time.Time) Option {
	return func(p *Pass, wait *time.Duration) {
		if t.IsZero() {
			return
		}
		*wait = min(*wait, max(t.Sub(p.finisher.Clock.Now()), time.Millisecond))
	}
}

// Finish turns err into conditions, writes status once if anything differs, sends the events of the transitions, and
// says when the next pass is due.
//
//   - nil: Stalled goes; the other conditions are as the pass has set them.
//   - Terminal: Stalled, and not Ready.
//   - Transient: Reconciling, and not Ready unless it was Ready in this generation already: what runs keeps running.
//   - a request that the API server forbids: the same, in words of our own, since only a person can grant it; the
//     generation of the status stays what it was.
//   - anything else leaves conditions alone and is retried. A conflict starts over at once.
func (p *Pass) Finish(ctx context.Context, err error, options ...Option) (reconcile.Result, error) {
	f := p.finisher
	outcome := As(err)
	message := ""
	switch {
	case outcome != nil:
		message = err.Error()
	case apierrors.IsForbidden(err):
		outcome = &Error{Reason: v1alpha1.ReasonForbidden, err: err}
		message = "the API server forbids what has to be done: see that Gatehouse has the roles of its installation, and its log for the request"
	}
	switch {
	case err != nil && outcome == nil:
		if apierrors.IsConflict(err) {
			f.Metrics.Observe(f.Controller, "conflict", f.Clock.Since(p.started))
			return startOver(), nil
		}
		f.Metrics.Observe(f.Controller, "error", f.Clock.Since(p.started))
		return reconcile.Result{}, err
	case outcome == nil:
		p.Clear(v1alpha1.ConditionStalled)
	case outcome.Terminal:
		p.Set(v1alpha1.ConditionStalled, metav1.ConditionTrue, outcome.Reason, message)
		p.Set(v1alpha1.ConditionReady, metav1.ConditionFalse, outcome.Reason, message)
		p.Clear(v1alpha1.ConditionReconciling)
	default:
		p.Clear(v1alpha1.ConditionStalled)
		p.Set(v1alpha1.ConditionReconciling, metav1.ConditionTrue, outcome.Reason, message)
		ready := meta.FindStatusCondition(*p.object.StatusConditions(), v1alpha1.ConditionReady)
		if ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != p.object.GetGeneration() {
			p.Set(v1alpha1.ConditionReady, metav1.ConditionFalse, outcome.Reason, message)
		}
	}
	if outcome == nil || outcome.Reason != v1alpha1.ReasonForbidden {
		// A forbidden request has cut the pass short: the rest of status is still of the generation before.
		*p.object.StatusGeneration() = p.object.GetGeneration()
	}

	if f.Settled != nil {
		f.Settled(p.object)
	}
	wrote := p.changed()
	transitions := p.transitions()
	switch werr := p.write(ctx); {
	case apierrors.IsNotFound(werr):
		f.Metrics.Observe(f.Controller, "gone", f.Clock.Since(p.started))
		return reconcile.Result{}, nil
	case apierrors.IsConflict(werr):
		f.Metrics.Observe(f.Controller, "conflict", f.Clock.Since(p.started))
		return startOver(), nil
	case werr != nil:
		f.Metrics.Observe(f.Controller, "error", f.Clock.Since(p.started))
		return reconcile.Result{}, errors.Join(err, fmt.Errorf("write status: %w", werr))
	}
	if wrote {
		for _, e := range append(transitions, p.pending...) {
			f.Recorder.Eventf(p.object, nil, e.kind, e.reason, "Reconcile", "%s", e.note)
		}
	}

	if outcome != nil && !outcome.Terminal {
		f.Metrics.Observe(f.Controller, "transient", f.Clock.Since(p.started))
		if outcome.After > 0 {
			return reconcile.Result{RequeueAfter: outcome.After}, nil
		}
		return reconcile.Result{}, err
	}
	if outcome != nil {
		f.Metrics.Observe(f.Controller, "terminal", f.Clock.Since(p.started))
	} else {
		f.Metrics.Observe(f.Controller, "ok", f.Clock.Since(p.started))
	}
	wait := f.resync()
	for _, option := range options {
		option(p, &wait)
	}
	return reconcile.Result{RequeueAfter: wait}, nil
}

// transitions are the events for conditions whose status or reason this pass changed.
func (p *Pass) transitions() []event {
	var out []event
	for _, now := range *p.object.StatusConditions() {
		was := meta.FindStatusCondition(*p.before.StatusConditions(), now.Type)
		if was != nil && was.Status == now.Status && was.Reason == now.Reason {
			continue
		}
		switch {
		case now.Type == v1alpha1.ConditionStalled:
			out = append(out, event{corev1.EventTypeWarning, now.Reason, now.Message})
		case now.Type == v1alpha1.ConditionReady && now.Status == metav1.ConditionTrue:
			out = append(out, event{corev1.EventTypeNormal, now.Reason, now.Message})
		}
	}
	return out
}

// resync is the controller's resync period, shortened at random by up to a fifth so that a fleet does not come at once.
func (f *Finisher) resync() time.Duration {
	return f.Resync - time.Duration(rand.Int64N(int64(f.Resync/5)+1))
}

// startOver is the answer to a conflict: somebody else wrote, so their write is on its way to the cache.
func startOver() reconcile.Result {
	return reconcile.Result{RequeueAfter: 50*time.Millisecond + time.Duration(rand.Int64N(int64(100*time.Millisecond)))}
}
