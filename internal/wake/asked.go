// Package wake says what wakes a controller over an object of its own: a person's act, the loss of a status among them,
// and never its own status write. Without that rule a status write would wake the pass that wrote it. And what wakes it
// over a Secret or a ConfigMap that it reads.
package wake

import (
	"maps"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// Asked passes what a person did to an object: what Edited passes, and a status that was lost or set back, as by a
// restore: whoever waits for what it said would wait for the resync. No pass takes back what it has observed, or writes a
// status that has observed nothing, but for one that is forbidden to.
var Asked = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool { return edited(e) || lost(e.ObjectOld, e.ObjectNew) },
}

// Edited is for controllers that write no status. It passes a new generation, other labels, or a request for a pass now
// by the annotation gatehouse.dev/reconcile-requested-at; whatever becomes of the status.
var Edited = predicate.Funcs{UpdateFunc: edited}

func edited(e event.UpdateEvent) bool {
	return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
		!maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) ||
		requested(e.ObjectOld) != requested(e.ObjectNew)
}

// lost says whether a status was taken away or set back. One that is empty may have been written and lost between two
// looks at it.
func lost(before, now client.Object) bool {
	type tells interface{ StatusGeneration() *int64 }
	was, ok := before.(tells)
	is, _ := now.(tells)
	if !ok || is == nil {
		return false
	}
	empty := *is.StatusGeneration() == 0 && before.GetResourceVersion() != now.GetResourceVersion()
	return empty || *is.StatusGeneration() < *was.StatusGeneration()
}

func requested(object client.Object) string {
	return object.GetAnnotations()[v1alpha1.AnnotationReconcileRequestedAt]
}
