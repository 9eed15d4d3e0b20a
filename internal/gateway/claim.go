package gateway

import (
	"fmt"
	"reflect"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/gateway/manifest"
	"github.com/gatehouse-dev/gatehouse/internal/outcome"
)

// foreignRecheck is how soon a gateway that is held up by somebody else's object looks again: what is not Gatehouse's
// is not watched.
const foreignRecheck = 15 * time.Second

// claim says whether an object that lives under a name is the gateway's, or becomes so now (adopted). An error leaves
// it untouched. Without a controller of its own it becomes the gateway's if it carries Gatehouse's labels and inputs
// (its owner reference was lost), or if a person has said so.
func claim(gateway *v1alpha1.GatewayInstance, object manifest.Object, live client.Object) (adopted bool, err error) {
	name := object.Kind.Kind + " " + live.GetName()
	owner := metav1.GetControllerOf(live)
	switch {
	case owner != nil && owner.UID == gateway.UID:
		return false, nil
	case owner != nil && owner.Kind == "GatewayInstance" && owner.Name == gateway.Name:
		return false, outcome.TransientAfter(v1alpha1.ReasonForeignObject, fmt.Errorf(
			"%s belongs to the deleted gateway of the same name and is being collected", name), foreignRecheck)
	case owner != nil:
		return false, foreign("%s is controlled by %s %s; delete it, or choose another name for the gateway", name, owner.Kind, owner.Name)
	case ours(gateway, live), live.GetAnnotations()[v1alpha1.AnnotationAdopt] == "true":
		return true, adoptable(name, object, live)
	default:
		return false, foreign("%s exists and is not this gateway's; annotate it with %s=true to hand it over, delete it, or choose another name for the gateway",
			name, v1alpha1.AnnotationAdopt)
	}
}

func foreign(format string, args ...any) error {
	return outcome.Terminal(v1alpha1.ReasonForeignObject, fmt.Errorf(format, args...))
}

func ours(gateway *v1alpha1.GatewayInstance, live client.Object) bool {
	return live.GetLabels()[v1alpha1.LabelManagedBy] == v1alpha1.ManagedBy &&
		live.GetLabels()[v1alpha1.LabelGateway] == gateway.Name &&
		live.GetAnnotations()[v1alpha1.AnnotationInputs] != ""
}

// adoptable refuses what can never become what is rendered, because a field that differs is immutable.
func adoptable(name string, object manifest.Object, live client.Object) error {
	switch live := live.(type) {
	case *appsv1.Deployment:
		var want appsv1.Deployment
		if err := object.Typed(&want); err != nil {
			return fmt.Errorf("read back %s: %w", name, err)
		}
		if !reflect.DeepEqual(live.Spec.Selector, want.Spec.Selector) {
			return foreign("%s cannot be adopted: its spec.selector is immutable and must be %s; delete it with --cascade=orphan, and move traffic to the gateway's own pods",
				name, metav1.FormatLabelSelector(want.Spec.Selector))
		}
	case *rbacv1.RoleBinding:
		var want rbacv1.RoleBinding
		if err := object.Typed(&want); err != nil {
			return fmt.Errorf("read back %s: %w", name, err)
		}
		if live.RoleRef != want.RoleRef {
			return foreign("%s cannot be adopted: its roleRef is immutable and must name ClusterRole %s; delete it", name, want.RoleRef.Name)
		}
	}
	return nil
}
