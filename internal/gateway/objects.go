package gateway

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// ownedKind is a kind of object that a gateway may have.
type ownedKind struct {
	kind schema.GroupVersionKind
	// object and list make empty ones.
	object func() client.Object
	list   func() client.ObjectList
	// decided are the fields in which nobody else has a say.
	decided [][]string
	// content is what counts of a kind that has no generation; nil for one that has.
	content func(client.Object) any
}

func empty[T any, P interface {
	*T
	client.Object
}]() client.Object {
	return P(new(T))
}

func emptyList[T any, P interface {
	*T
	client.ObjectList
}]() client.ObjectList {
	return P(new(T))
}

// ownedKinds are all of them. Somebody else's additions to an object that has no generation are not looked at: only
// what Gatehouse sets counts, so that a controller which annotates Services causes no writes here.
var ownedKinds = []ownedKind{
	{kind: appsv1.SchemeGroupVersion.WithKind("Deployment"), object: empty[appsv1.Deployment], list: emptyList[appsv1.DeploymentList], decided: [][]string{{"spec"}}},
	{kind: networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"), object: empty[networkingv1.NetworkPolicy], list: emptyList[networkingv1.NetworkPolicyList], decided: [][]string{{"spec"}}},
	{kind: policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), object: empty[policyv1.PodDisruptionBudget], list: emptyList[policyv1.PodDisruptionBudgetList], decided: [][]string{{"spec"}}},
	{
		kind: corev1.SchemeGroupVersion.WithKind("Service"), object: empty[corev1.Service], list: emptyList[corev1.ServiceList],
		decided: [][]string{{"spec", "ports"}, {"spec", "selector"}}, // the rest is the cluster's: addresses, families
		content: func(o client.Object) any {
			spec := o.(*corev1.Service).Spec
			ports := []any{}
			for _, p := range spec.Ports {
				ports = append(ports, []any{p.Name, p.Protocol, p.Port, p.TargetPort.String(), p.AppProtocol})
			}
			return []any{spec.Type, spec.Selector, ports}
		},
	},
	{
		kind: corev1.SchemeGroupVersion.WithKind("ServiceAccount"), object: empty[corev1.ServiceAccount], list: emptyList[corev1.ServiceAccountList],
		content: func(o client.Object) any {
			return []any{o.(*corev1.ServiceAccount).AutomountServiceAccountToken, o.GetAnnotations()}
		},
	},
	{
		kind: corev1.SchemeGroupVersion.WithKind("ConfigMap"), object: empty[corev1.ConfigMap], list: emptyList[corev1.ConfigMapList],
		decided: [][]string{{"data"}, {"binaryData"}},
		content: func(o client.Object) any { return filesOf(o.(*corev1.ConfigMap)) },
	},
	{
		kind: rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), object: empty[rbacv1.RoleBinding], list: emptyList[rbacv1.RoleBindingList],
		content: func(o client.Object) any {
			binding := o.(*rbacv1.RoleBinding)
			return []any{binding.RoleRef, binding.Subjects}
		},
	},
}

func kindOf(kind schema.GroupVersionKind) ownedKind {
	for _, owned := range ownedKinds {
		if owned.kind == kind {
			return owned
		}
	}
	panic("gateway: " + kind.String() + " is rendered but not among the owned kinds")
}

// id tells a gateway's objects apart; all of them are in its namespace.
type id struct{ kind, name string }

func byKindAndName(a, b id) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name))
}

func (i id) String() string { return i.kind + " " + i.name }

// objects are a gateway's objects as last seen.
type objects map[id]client.Object

// marks tell whether an object is as it was after the last apply.
type marks map[id]string

func (work *work) deployment() *appsv1.Deployment {
	if object, found := work.live[id{"Deployment", work.gateway.Name}]; found {
		return object.(*appsv1.Deployment)
	}
	return nil
}

// look reads what lives of the gateway, from caches alone. It is not copied: nobody modifies it. What bears the gateway's
// label and is controlled by something else is not the gateway's; that it has the name of something of the gateway's
// comes out when they are compared.
func (r *reconciler) look(ctx context.Context, work *work) error {
	gateway := work.gateway
	work.live, work.marks = objects{}, marks{}
	for _, owned := range ownedKinds {
		list := owned.list()
		if err := r.local.List(ctx, list, client.UnsafeDisableDeepCopy, client.InNamespace(gateway.Namespace), client.MatchingFields{indexGateway: gateway.Name}); err != nil {
			return fmt.Errorf("list %ss of the gateway: %w", owned.kind.Kind, err)
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			object := item.(client.Object)
			if owner := metav1.GetControllerOf(object); owner == nil || owner.UID == gateway.UID {
				work.live[id{owned.kind.Kind, object.GetName()}] = object
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	pods := &corev1.PodList{}
	if err := r.local.List(ctx, pods, client.UnsafeDisableDeepCopy, client.InNamespace(gateway.Namespace), client.MatchingFields{indexGateway: gateway.Name}); err != nil {
		return fmt.Errorf("list Pods of the gateway: %w", err)
	}
	work.pods = pods.Items
	for _, applied := range gateway.Status.Applied {
		work.marks[id{applied.Kind, applied.Name}] = applied.Mark
	}
	return r.memory.recall(work)
}

// mark is what an object looks like to us: its UID, its generation or content, and the labels and the owner by which it
// is found and collected.
func mark(owned ownedKind, object client.Object) (string, error) {
	controller := ""
	if owner := metav1.GetControllerOf(object); owner != nil {
		controller = string(owner.UID)
	}
	parts := []any{controller}
	for _, label := range []string{v1alpha1.LabelManagedBy, v1alpha1.LabelGateway} {
		parts = append(parts, object.GetLabels()[label])
	}
	generation := "-"
	if owned.content != nil {
		parts = append(parts, owned.content(object))
	} else {
		generation = fmt.Sprint(object.GetGeneration())
	}
	raw, err := json.Marshal(parts)
	if err != nil {
		return "", fmt.Errorf("mark %s %s: %w", owned.kind.Kind, object.GetName(), err)
	}
	sum := sha256.Sum256(raw)
	return fmt.Sprintf("%s/%s/%s", object.GetUID(), generation, hex.EncodeToString(sum[:8])), nil
}

// applied writes marks as status does: sorted.
func (m marks) applied() []v1alpha1.AppliedObject {
	out := make([]v1alpha1.AppliedObject, 0, len(m))
	for _, key := range slices.SortedFunc(maps.Keys(m), byKindAndName) {
		out = append(out, v1alpha1.AppliedObject{Kind: key.kind, Name: key.name, Mark: m[key]})
	}
	return out
}
