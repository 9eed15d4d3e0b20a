package lint

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// MaxFile bounds a file, in bytes.
const MaxFile = 8 << 20

// Linter checks manifests. It is safe for concurrent use.
type Linter struct {
	definitions map[schema.GroupVersionKind]*definition
}

// New makes a Linter for the kinds of this version of Gatehouse.
func New() (*Linter, error) {
	found, err := definitions()
	if err != nil {
		return nil, fmt.Errorf("read the definitions of the kinds: %w", err)
	}
	return &Linter{definitions: found}, nil
}

// File returns what is wrong with the manifests of a file that stands alone, or weak, in
// the order of the file.
func (l *Linter) File(ctx context.Context, name string, data []byte) []Problem {
	return l.Batch().File(ctx, name, data)
}

func (l *Linter) document(ctx context.Context, d Document) []Problem {
	kind, _ := d.Object["kind"].(string)
	report := reporter{Document: d, kind: kind, name: nameOf(d.Object)}
	definition := l.definitionOf(&report)
	if definition == nil {
		return report.problems
	}
	for _, fault := range definition.check(ctx, d.Object) {
		report.add(fault.Field, "%s", words(fault))
	}
	if len(report.problems) == 0 {
		examine(&report)
	}
	return report.problems
}

// definitionOf is what a manifest is checked by: nil, and nothing is reported, if it is of another kind.
func (l *Linter) definitionOf(report *reporter) *definition {
	apiVersion, _ := report.Object["apiVersion"].(string)
	version, err := schema.ParseGroupVersion(apiVersion)
	_, named := l.definitions[v1alpha1.GroupVersion.WithKind(report.kind)]
	switch {
	case named && (err != nil || apiVersion == ""):
		report.add("apiVersion", "%q is no version of an API; write %s", apiVersion, v1alpha1.GroupVersion)
		return nil
	case err != nil || version.Group != v1alpha1.GroupVersion.Group:
		return nil
	}
	definition, ok := l.definitions[version.WithKind(report.kind)]
	if !ok {
		report.add("kind", "%s has no kind %q; write one of %s", apiVersion, report.kind, l.kinds())
	}
	return definition
}

// kinds lists what there is.
func (l *Linter) kinds() string {
	var names []string
	for gvk := range l.definitions {
		names = append(names, gvk.Version+" "+gvk.Kind)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func nameOf(object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	return name
}

// reporter collects the problems of one object.
type reporter struct {
	Document
	kind, name string
	problems   []Problem
}

func (r *reporter) add(field, format string, args ...any) {
	r.problems = append(r.problems, Problem{
		Line: r.Line(field), Kind: r.kind, Name: r.name, Field: field, Message: fmt.Sprintf(format, args...),
	})
}

func (r *reporter) warn(field, format string, args ...any) {
	r.add(field, format, args...)
	r.problems[len(r.problems)-1].Warning = true
}
