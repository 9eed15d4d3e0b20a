package podstatus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/executor"
	"github.com/gatehouse-dev/gatehouse/internal/outcome"
)

// aggregator makes the status of Executors of what the replicas report. Only the leader runs it.
type aggregator struct {
	client   client.Client // reads Executors from the manager's cache
	board    *executor.Board
	crowd    *crowd                              // nil if this process is all there is
	leads    func(context.Context) (bool, error) // asks the API server; nil if nobody else can lead
	finisher *outcome.Finisher
	pace     *pace
	left     *left
	resync   time.Duration
}

// deposed is how soon a process that does not lead any more looks again whether it does. It ends soon.
const deposed = time.Second

// Reconcile makes the status of one Executor anew.
func (a *aggregator) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if wait := a.pace.wait(request.NamespacedName); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	s, err := find(ctx, a.client, request.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	if s == nil {
		a.pace.forget(request.NamespacedName)
		a.left.forget(request.NamespacedName)
		return reconcile.Result{}, nil
	}
	version := s.object.GetResourceVersion()
	if a.pace.behind(s.NamespacedName, version) {
		return reconcile.Result{RequeueAfter: catchUp}, nil
	}
	if a.leads != nil && a.left.changed(s.object) {
		// By a person, or by another replica that leads by now: two that do not see the same would go on for ever.
		switch leads, err := a.leads(ctx); {
		case err != nil:
			return reconcile.Result{}, err
		case !leads:
			return reconcile.Result{RequeueAfter: deposed}, nil
		}
	}
	before := digestOf(s.object)
	v, err := a.verdict(ctx, s)
	if err != nil {
		return reconcile.Result{}, err
	}
	if v == nil { // its first attempt here lies ahead, and the board wakes
		return reconcile.Result{RequeueAfter: a.resync}, nil
	}
	pass := a.finisher.Begin(s.object)
	trouble := v.say(pass, s)
	if err := relate(ctx, a.client, pass, s); err != nil {
		return reconcile.Result{}, err
	}
	result, err := pass.Finish(ctx, trouble)
	switch {
	case s.object.GetResourceVersion() != version:
		a.pace.wrote(s.NamespacedName, version)
	case digestOf(s.object) != before: // it was to be written, and was not
		a.left.forget(s.NamespacedName)
	}
	return result, err
}

// verdict is what is to be said of a subject; nil if that cannot be told yet.
func (a *aggregator) verdict(ctx context.Context, s *subject) (*verdict, error) {
	own, known := a.board.Get(s.NamespacedName)
	known = known && own.UID == s.identity.UID && own.Attempted == s.generation
	if a.crowd == nil {
		if !known {
			return nil, nil
		}
		v := alone(own)
		return &v, nil
	}
	trusted := ""
	if known && own.Serving == s.generation {
		trusted = own.Inputs
	}
	replicas, err := a.crowd.replicas(ctx, s)
	if err != nil {
		return nil, err
	}
	v := fold(s.generation, trusted, replicas)
	if s.status.Succeeded && s.status.ObservedGeneration == s.generation && !v.succeeded {
		if err := a.crowd.lookAgain(ctx, s, cmp.Or(trusted, mostTrusted(s.generation, replicas)), replicas); err != nil {
			return nil, err
		}
		v = fold(s.generation, trusted, replicas)
	}
	return &v, nil
}

// alone is the verdict when this process is all there is: its own words.
func alone(own executor.Report) verdict {
	report := written(Replica{}, v1alpha1.PodIdentity{}, own).Status
	v := fold(own.Attempted, own.Inputs, []replica{{serving: true, report: &report}})
	v.error, v.brief, v.message, v.byPod = own.Error, own.Brief, own.Error, nil
	return v
}

// say fills in the status. It returns what stalls the subject, if anything does.
func (v *verdict) say(pass *outcome.Pass, s *subject) error {
	s.status.Succeeded, s.status.Error, s.status.BriefError = v.succeeded, v.error, v.brief
	s.status.Replicas, s.status.ByPod = v.counts, v.byPod
	if v.succeeded {
		pass.Set(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonServing,
			fmt.Sprintf("generation %d serves, inputs %s%s", s.generation, v.inputs, s.remark))
	}
	if v.stalled {
		return outcome.Terminal(v.reason, errors.New(v.message))
	}
	if !v.succeeded {
		pass.Set(v1alpha1.ConditionReady, metav1.ConditionFalse, v.reason, v.message)
	}
	if v.underWay == "" {
		pass.Clear(v1alpha1.ConditionReconciling)
	} else {
		pass.Set(v1alpha1.ConditionReconciling, metav1.ConditionTrue, v.underWay, v.message)
	}
	return nil
}
