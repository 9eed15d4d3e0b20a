package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/outcome"
)

// Bounds of an Executor's status, in bytes.
const (
	maxError = 4096
	maxBrief = 256
)

// again says when a replica that does not lead passes over the Executor again.
func (r *reconciler) again(a attempt) (reconcile.Result, error) {
	if trouble := outcome.As(a.fault); trouble != nil && !trouble.Terminal {
		return reconcile.Result{}, a.fault
	}
	return reconcile.Result{RequeueAfter: min(a.wake.Sub(r.clock.Now()), r.finisher.Resync)}, nil
}

// report writes what this process made of an Executor into its status. Only the leader does, so this is what the others
// serve too, as far as it can tell.
func (r *reconciler) report(ctx context.Context, e *executor, a attempt) (reconcile.Result, error) {
	pass := r.finisher.Begin(e.object)
	others, err := rivals(ctx, r.client, e.name(), a.served.Scopes)
	if err != nil {
		return pass.Finish(ctx, err)
	}
	describe(pass, e, a, others)
	result, err := pass.Finish(ctx, a.fault, outcome.WakeAt(a.wake))
	if a.whole {
		err = errors.Join(err, r.history.keep(ctx, e))
	}
	return result, err
}

// describe fills in the status. What it says is a function of the spec, of what it names, and of who else has its scopes.
func describe(pass *outcome.Pass, e *executor, a attempt, others map[Scope][]types.NamespacedName) {
	share(pass, e.Namespace, others)
	if a.fault == nil {
		pass.Set(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonServing, serving(a.served))
		pass.Clear(v1alpha1.ConditionReconciling)
		e.status.Succeeded, e.status.Error, e.status.BriefError = true, "", ""
		return
	}
	ready := meta.FindStatusCondition(e.status.Conditions, v1alpha1.ConditionReady)
	stands := a.whole && ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == e.Generation
	if a.whole && !stands {
		// What could not be read again is what it was when it could, and it serves.
		pass.Set(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonServing, serving(a.served))
	}
	if !a.whole && ready != nil && ready.Status == metav1.ConditionTrue {
		pass.Set(v1alpha1.ConditionReady, metav1.ConditionFalse, outcome.As(a.fault).Reason, a.fault.Error())
	}
	said := a.report(e)
	e.status.Succeeded, e.status.Error, e.status.BriefError = said.Succeeded, said.Error, said.Brief
}

// report is what this replica says of an Executor: a function of the spec, and of what it names.
func (a attempt) report(e *executor) Report {
	said := Report{Name: e.name(), UID: e.UID, Attempted: e.Generation, Serving: a.served.Generation, Succeeded: a.whole}
	if a.served.Compiled != nil {
		said.Inputs = a.served.Compiled.Inputs()
	}
	if a.fault == nil {
		return said
	}
	text := a.fault.Error()
	if trouble := outcome.As(a.fault); trouble != nil {
		said.Reason = trouble.Reason
	}
	said.Error = outcome.Bound(text+"\n"+goesOn(e, a), maxError)
	first, rest, more := strings.Cut(text, "\n")
	if more {
		suffix := fmt.Sprintf(" (and %d more)", 1+strings.Count(rest, "\n"))
		first = outcome.Bound(first, maxBrief-len(suffix)) + suffix
	}
	said.Brief = outcome.Bound(first, maxBrief)
	return said
}

// goesOn says what serves meanwhile.
func goesOn(e *executor, a attempt) string {
	switch {
	case a.served.Compiled == nil:
		return "nothing serves: images in scope cannot be decided"
	case a.served.Generation != e.Generation:
		return fmt.Sprintf("generation %d goes on serving", a.served.Generation)
	case a.whole:
		return "what was read last goes on serving"
	default:
		return "it serves without what is missing: nobody is trusted by that"
	}
}

func serving(s *Served) string {
	text := fmt.Sprintf("generation %d serves, inputs %s", s.Generation, s.Compiled.Inputs())
	if s.Mode == v1alpha1.ModeAudit {
		text += "; in mode Audit it reports, and satisfies nothing"
	}
	return text
}

// share says who else has one of the Executor's scopes.
func share(pass *outcome.Pass, namespace string, others map[Scope][]types.NamespacedName) {
	if len(others) == 0 {
		pass.Clear(v1alpha1.ConditionSharedScope)
		return
	}
	var parts []string
	for scope, names := range others {
		var who []string
		for _, name := range names {
			who = append(who, name.Name)
		}
		parts = append(parts, fmt.Sprintf("%s is a scope of %s too", scope, strings.Join(who, ", ")))
	}
	slices.Sort(parts)
	kind := "Executors"
	if namespace != "" {
		kind = "NamespacedExecutors"
	}
	pass.Set(v1alpha1.ConditionSharedScope, metav1.ConditionTrue, v1alpha1.ReasonEqualScope,
		strings.Join(parts, "; ")+"; an image must pass all "+kind+" of an equal scope: give each scope to one of them if that is not meant")
}
