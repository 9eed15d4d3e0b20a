package wake

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// DataChanged is for the Secrets and ConfigMaps that objects are made of. It passes those that hold something else than
// before.
var DataChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		switch before := e.ObjectOld.(type) {
		case *corev1.Secret:
			now, ok := e.ObjectNew.(*corev1.Secret)
			return !ok || before.Type != now.Type || !equality.Semantic.DeepEqual(before.Data, now.Data)
		case *corev1.ConfigMap:
			now, ok := e.ObjectNew.(*corev1.ConfigMap)
			return !ok || !maps.Equal(before.Data, now.Data) || !equality.Semantic.DeepEqual(before.BinaryData, now.BinaryData)
		}
		return true
	},
}
