package ratify

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// Options of a conversion.
type Options struct {
	// Namespace is Gatehouse's own, where the Secrets of Executors are found.
	Namespace string
}

// Result is what became of one manifest.
type Result struct {
	// Executor is the converted object: *v1alpha1.Executor or
	// *v1alpha1.NamespacedExecutor; nil if there are errors.
	Executor any
	// Secrets are those that it needs and whose content is known.
	Secrets []*corev1.Secret
	// Notes are what could not be carried over, in the order of the manifest.
	Notes []Note
}

// Note is about one field of a manifest.
type Note struct {
	// Field is the path in Ratify's manifest.
	Field string
	// Message says what could not be carried over and what to do.
	Message string
	// Warning says that nothing is loosened by it.
	Warning bool
}

// Failed reports whether any note is an error.
func (r Result) Failed() bool {
	return slices.ContainsFunc(r.Notes, func(n Note) bool { return !n.Warning })
}

// Convert turns one manifest, of a kind that is Known, into Gatehouse's.
func Convert(object map[string]any, options Options) Result {
	c := &converter{options: options}
	if !c.named(object) {
		return c.result
	}
	if err := decode(wanted(object), &c.from); err != nil {
		c.fail(fieldOf(err), "%v; correct it, or remove what Ratify does not know", unwrapped(err))
		return c.result
	}
	c.convert()
	if c.result.Failed() {
		c.result.Executor, c.result.Secrets = nil, nil
	}
	return c.result
}

// named refuses names that are no texts: to a reader that takes anything for one, 5 and
// true are what a person meant as "5" and "true", and a list is nothing.
func (c *converter) named(object map[string]any) bool {
	texts := func(field string, of any, keys ...string) {
		fields, ok := of.(map[string]any)
		if !ok {
			return // told when it is decoded
		}
		for _, key := range keys {
			switch value := fields[key].(type) {
			case nil, string:
			default:
				c.fail(field+"."+key, "is no text but %s; write it in quotation marks", kindOf(value))
			}
		}
	}
	texts("metadata", object["metadata"], "name", "namespace")
	if metadata, ok := object["metadata"].(map[string]any); !ok {
		c.fail("metadata", "is missing, or no object; write it with a name")
	} else if name, isText := metadata["name"]; isText && name == "" || !isText || name == nil {
		c.fail("metadata.name", "is missing; write the name of the Executor")
	}
	spec, _ := object["spec"].(map[string]any)
	for _, list := range []string{"verifiers", "stores"} {
		members, _ := spec[list].([]any)
		for i, member := range members {
			texts(fmt.Sprintf("spec.%s[%d]", list, i), member, "name", "type")
		}
	}
	texts("spec.policyEnforcer", spec["policyEnforcer"], "name", "type")
	return !c.result.Failed()
}

// kindOf says what a value is that is no text.
func kindOf(value any) string {
	switch value.(type) {
	case bool:
		return "a truth value"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return "a number"
}

// converter turns one manifest.
type converter struct {
	options Options
	from    manifest
	spec    v1alpha1.ExecutorSpec
	names   map[string]string // of verifiers, Ratify's to ours
	result  Result
}

func (c *converter) fail(field, format string, args ...any) {
	c.result.Notes = append(c.result.Notes, Note{Field: field, Message: fmt.Sprintf(format, args...)})
}

func (c *converter) warn(field, format string, args ...any) {
	c.result.Notes = append(c.result.Notes, Note{Field: field, Message: fmt.Sprintf(format, args...), Warning: true})
}

func (c *converter) namespaced() bool { return c.from.Kind == kindNamespacedExecutor }

// namespace is where the Secrets are found that the Executor names.
func (c *converter) namespace() string {
	if c.namespaced() {
		return c.from.Metadata.Namespace
	}
	return c.options.Namespace
}

func (c *converter) convert() {
	c.scopes()
	c.stores()
	c.verifiers()
	c.policy()
	if c.from.Spec.Concurrency != 0 {
		c.warn("spec.concurrency", "is not carried over: Gatehouse bounds the work of a replica, not of an Executor")
	}
	meta := metav1.ObjectMeta{Name: c.from.Metadata.Name}
	if !c.namespaced() {
		c.result.Executor = &v1alpha1.Executor{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: kindExecutor},
			ObjectMeta: meta, Spec: c.spec,
		}
		return
	}
	meta.Namespace = c.from.Metadata.Namespace
	c.warn("kind", "it judges what the gateways of its namespace are given, after the cluster's Executors have let a release move: have an Executor for its scopes, too")
	made := &v1alpha1.NamespacedExecutor{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: kindNamespacedExecutor},
		ObjectMeta: meta, Spec: v1alpha1.NamespacedExecutorSpec{VerificationSpec: c.spec.VerificationSpec},
	}
	for _, store := range c.spec.Stores {
		made.Spec.Stores = append(made.Spec.Stores, v1alpha1.NamespacedStore{Name: store.Name, Registry: store.Registry})
	}
	c.result.Executor = made
}

// scopes carries a registry over as everything in it.
func (c *converter) scopes() {
	for i, scope := range c.from.Spec.Scopes {
		field := fmt.Sprintf("spec.scopes[%d]", i)
		switch {
		case strings.HasPrefix(scope, "*."):
			c.warn(field, "%s means registries of one more label to Ratify, and of any number to Gatehouse: a.b.%s is verified as well", scope, scope[2:])
			c.spec.Scopes = append(c.spec.Scopes, v1alpha1.Scope(scope))
		case strings.Contains(scope, "/"):
			c.spec.Scopes = append(c.spec.Scopes, v1alpha1.Scope(scope))
		case scope == "" || strings.Contains(scope, "*"):
			c.fail(field, "%q is no scope of Ratify's; write a registry, *.DOMAIN or a repository", scope)
		default:
			c.spec.Scopes = append(c.spec.Scopes, v1alpha1.Scope(scope+"/*"))
		}
	}
	if len(c.from.Spec.Scopes) == 0 {
		c.fail("spec.scopes", "is empty; name the images that are verified")
	}
}

// sameScopes reports whether a part of an Executor is for all of its scopes,
// which is so if it names none. Gatehouse has no parts for some scopes.
func (c *converter) sameScopes(scopes []string) bool {
	return len(scopes) == 0 || slices.Contains(scopes, "*") ||
		!slices.ContainsFunc(c.from.Spec.Scopes, func(scope string) bool { return !slices.Contains(scopes, scope) })
}

const splitRemedy = "covers only some of spec.scopes; write an Executor for each, with the scopes it is for"

// label makes a name of letters, digits and '-' out of any, at most 63 long.
func label(name string) string {
	made := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, name)
	return strings.Trim(made[:min(len(made), 63)], "-")
}

// decode reads JSON as it stands: no number for a text, and no field that is not known.
func decode(content []byte, into any) error {
	unknown, err := kjson.UnmarshalStrict(content, into, kjson.DisallowUnknownFields)
	if err == nil && len(unknown) > 0 {
		err = unknown[0]
	}
	return err
}

// fieldOf is the path of the field that an error of decode is about; empty if it is of several.
func fieldOf(err error) string {
	var mistyped *json.UnmarshalTypeError
	if errors.As(err, &mistyped) {
		return mistyped.Field
	}
	return ""
}

// unwrapped is the text of an error of decode for a person.
func unwrapped(err error) error {
	var mistyped *json.UnmarshalTypeError
	if errors.As(err, &mistyped) {
		return fmt.Errorf("is a %s where a %s belongs", mistyped.Value, mistyped.Type)
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

// wanted is a manifest without what only a server writes, and without labels and
// annotations, so that the rest can be read strictly.
func wanted(object map[string]any) []byte {
	kept := maps.Clone(object)
	delete(kept, "status")
	if metadata, ok := object["metadata"].(map[string]any); ok {
		kept["metadata"] = map[string]any{"name": metadata["name"], "namespace": metadata["namespace"]}
	}
	out, err := json.Marshal(kept)
	if err != nil {
		return nil // it came from JSON, so it can be written as JSON
	}
	return out
}
