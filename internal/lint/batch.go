package lint

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// Batch checks files that are applied together. Of what they hold twice a cluster would keep what was applied last, so
// that is wrong, whichever files it stands in. A Batch is for one goroutine.
type Batch struct {
	linter *Linter
	first  map[identity]place
	// Manifests is how many the files hold, of any kind.
	Manifests int
}

// identity is what a cluster has one object for.
type identity struct {
	group, kind, namespace, name string
}

// place is where a manifest is written.
type place struct {
	file string
	line int
}

// Batch begins with no file.
func (l *Linter) Batch() *Batch {
	return &Batch{linter: l, first: map[identity]place{}}
}

// File returns what is wrong with the manifests of one more file, or weak, in the order of the file.
func (b *Batch) File(ctx context.Context, name string, data []byte) []Problem {
	_, problems := b.Objects(ctx, name, data)
	return problems
}

// Objects is File, and returns the manifests besides, also those of other kinds. Those of Gatehouse's have the defaults
// that the API server gives them.
func (b *Batch) Objects(ctx context.Context, name string, data []byte) ([]map[string]any, []Problem) {
	return b.read(ctx, name, data, Document.Line)
}

// Made returns what is wrong with manifests that were made from what stands at a line of a file, or weak.
func (b *Batch) Made(ctx context.Context, name string, line int, data []byte) []Problem {
	_, problems := b.read(ctx, name, data, func(Document, string) int { return line })
	for i := range problems {
		problems[i].Line = line
	}
	return problems
}

func (b *Batch) read(ctx context.Context, name string, data []byte, line func(Document, string) int) ([]map[string]any, []Problem) {
	found, problems := ReadDocuments(data)
	var objects []map[string]any
	for _, d := range found {
		problems = append(problems, b.linter.document(ctx, d)...)
		if problem, twice := b.twice(d, place{name, line(d, "metadata.name")}); twice {
			problems = append(problems, problem)
		}
		objects = append(objects, d.Object)
	}
	b.Manifests += len(objects)
	for i := range problems {
		problems[i].File = name
	}
	return objects, sorted(problems)
}

// twice tells of a manifest that another has the name of. It looks at Gatehouse's kinds, and at those whose objects they
// name: an image could pass by the wrong one of two keys.
func (b *Batch) twice(d Document, at place) (Problem, bool) {
	apiVersion, _ := d.Object["apiVersion"].(string)
	kind, _ := d.Object["kind"].(string)
	version, err := schema.ParseGroupVersion(apiVersion)
	named := apiVersion == "v1" && (kind == "Secret" || kind == "ConfigMap")
	name := nameOf(d.Object)
	if err != nil || name == "" || version.Group != v1alpha1.GroupVersion.Group && !named {
		return Problem{}, false
	}
	metadata, _ := d.Object["metadata"].(map[string]any)
	namespace, _ := metadata["namespace"].(string)
	is := identity{version.Group, kind, namespace, name}
	before, twice := b.first[is]
	if !twice {
		b.first[is] = at
		return Problem{}, false
	}
	return Problem{
		Line: at.line, Kind: kind, Name: name, Field: "metadata.name",
		Message: fmt.Sprintf("is written twice, first at %s:%d, and a cluster keeps what is applied last; keep the one that is meant", before.file, before.line),
	}, true
}
