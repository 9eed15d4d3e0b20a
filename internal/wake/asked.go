// Package wake says what wakes a controller over an object of its own: a person's act, and never its own status write.
// Without that rule a status write would wake the pass that wrote it.
package wake

import (
	"maps"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// Asked passes what a person did to an object: a new generation, other labels, or a request for a pass now by the
// annotation gatehouse.dev/reconcile-requested-at.
var Asked = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
			!maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) ||
			requested(e.ObjectOld) != requested(e.ObjectNew)
	},
}

func requested(object client.Object) string {
	return object.GetAnnotations()[v1alpha1.AnnotationReconcileRequestedAt]
}
