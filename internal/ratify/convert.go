package ratify

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

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
	if err := yaml.UnmarshalStrict(wanted(object), &c.from); err != nil {
		c.fail("", "%v; correct it, or remove what Ratify does not know", unwrapped(err))
		return c.result
	}
	c.convert()
	if c.result.Failed() {
		c.result.Executor, c.result.Secrets = nil, nil
	}
	return c.result
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

// unwrapped is the innermost text of a YAML error.
func unwrapped(err error) error {
	text := err.Error()
	for _, prefix := range []string{"error unmarshaling JSON: ", "while decoding JSON: ", "error converting YAML to JSON: ", "json: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	return errors.New(text)
}

// wanted is a manifest without what only a server writes, and without labels and
// annotations, so that the rest can be read strictly.
func wanted(object map[string]any) []byte {
	kept := maps.Clone(object)
	delete(kept, "status")
	if metadata, ok := object["metadata"].(map[string]any); ok {
		kept["metadata"] = map[string]any{"name": metadata["name"], "namespace": metadata["namespace"]}
	}
	out, err := yaml.Marshal(kept)
	if err != nil {
		return nil // it came from JSON, so it can be written as JSON
	}
	return out
}
