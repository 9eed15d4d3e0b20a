package manifest

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/revision"
)

// Object is one object of a gateway, ready to be applied.
type Object struct {
	// Kind is what it is.
	Kind schema.GroupVersionKind
	// Key is where it is.
	Key client.ObjectKey
	// Inputs is the hash of what it was rendered from, which is also its annotation.
	Inputs string

	content map[string]any
}

// Configuration is what to apply, made anew at every call: the client writes the server's answer into it, and applying
// that again would claim every default.
func (o Object) Configuration() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: runtime.DeepCopyJSON(o.content)}
}

// Typed reads the object into one of its own kind.
func (o Object) Typed(into client.Object) error {
	return runtime.DefaultUnstructuredConverter.FromUnstructured(o.content, into)
}

// SpecError is a tenant's mistake: the gateway's spec does not fit the revision that it runs.
type SpecError struct {
	// Field is the path in the GatewayInstance.
	Field string
	// Reason says what is wrong and what to do about it.
	Reason string
}

func (e *SpecError) Error() string { return e.Field + ": " + e.Reason }

// Render makes the objects of a gateway that has recorded a revision, those that others need first. The error is a
// *SpecError, unless the revision itself cannot be read.
func Render(gateway *v1alpha1.GatewayInstance, given revision.Revision, recorded v1alpha1.RecordedRevision) ([]Object, error) {
	r := renderer{gateway: gateway, revision: given, recorded: recorded}
	for _, step := range []func() error{
		r.serviceAccount, r.roleBindings, r.configMap, r.networkPolicy, r.deployment, r.service, r.disruptionBudget,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return r.objects, nil
}

type renderer struct {
	gateway  *v1alpha1.GatewayInstance
	revision revision.Revision
	recorded v1alpha1.RecordedRevision
	objects  []Object
}

// add completes an object: its name and namespace are those that it has or the gateway's, its labels and its owner are
// the gateway's, and its inputs are the hash of parts.
func (r *renderer) add(kind schema.GroupVersionKind, object client.Object, parts ...any) error {
	if object.GetName() == "" {
		object.SetName(r.gateway.Name)
	}
	object.SetNamespace(r.gateway.Namespace)
	object.SetLabels(Labels(r.gateway.Name))
	object.SetOwnerReferences([]metav1.OwnerReference{Owner(r.gateway)})

	inputs, err := hash(append([]any{kind.Kind, r.gateway.UID}, parts...))
	if err != nil {
		return fmt.Errorf("%s %s: %w", kind.Kind, object.GetName(), err)
	}
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[v1alpha1.AnnotationInputs] = inputs
	object.SetAnnotations(annotations)

	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return fmt.Errorf("%s %s: %w", kind.Kind, object.GetName(), err)
	}
	content["apiVersion"], content["kind"] = kind.GroupVersion().String(), kind.Kind
	dropZeroValues(content)
	r.objects = append(r.objects, Object{
		Kind:    kind,
		Key:     client.ObjectKeyFromObject(object),
		Inputs:  inputs,
		content: content,
	})
	return nil
}

// Labels are on every object and every pod of a gateway.
func Labels(gateway string) map[string]string {
	return map[string]string{
		v1alpha1.LabelManagedBy: v1alpha1.ManagedBy,
		v1alpha1.LabelGateway:   gateway,
		labelInstance:           gateway,
	}
}

// Selector selects the pods of a gateway. It can never change: a Deployment's selector is immutable.
func Selector(gateway string) map[string]string {
	return map[string]string{v1alpha1.LabelGateway: gateway, labelInstance: gateway}
}

const labelInstance = "app.kubernetes.io/instance"

// Owner is the controller reference by which a gateway's objects go when it goes. It does not block the deletion of the
// gateway, which would need a verb on its finalizers.
func Owner(gateway *v1alpha1.GatewayInstance) metav1.OwnerReference {
	yes := true
	return metav1.OwnerReference{
		APIVersion: v1alpha1.GroupVersion.String(),
		Kind:       "GatewayInstance",
		Name:       gateway.Name,
		UID:        gateway.UID,
		Controller: &yes,
	}
}

// dropZeroValues removes what a typed object writes without having been given it: applying a field claims it.
func dropZeroValues(content map[string]any) {
	delete(content, "status")
	dropCreationTimestamp(content)
	template, found, _ := unstructured.NestedMap(content, "spec", "template")
	if !found {
		return
	}
	dropCreationTimestamp(template)
	for _, list := range []string{"containers", "initContainers"} {
		containers, _, _ := unstructured.NestedSlice(template, "spec", list)
		for _, container := range containers {
			container := container.(map[string]any)
			if resources, ok := container["resources"].(map[string]any); ok && len(resources) == 0 {
				delete(container, "resources")
			}
		}
		if len(containers) > 0 {
			_ = unstructured.SetNestedSlice(template, containers, "spec", list)
		}
	}
	_ = unstructured.SetNestedMap(content, template, "spec", "template")
}

func dropCreationTimestamp(content map[string]any) {
	if metadata, ok := content["metadata"].(map[string]any); ok && metadata["creationTimestamp"] == nil {
		delete(metadata, "creationTimestamp")
	}
}
