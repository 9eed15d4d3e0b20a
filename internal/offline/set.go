package offline

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/executor"
	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/lint"
	"github.com/gatehouse-dev/gatehouse/internal/registry"
)

// Set is what was read from files.
type Set struct {
	executors []entry
	// objects are the Secrets and ConfigMaps in the files, by namespace.
	objects map[string]executor.Material
}

// entry is one Executor.
type entry struct {
	name types.NamespacedName
	spec v1alpha1.ExecutorSpec
}

// Read takes the manifests of a file into the set. The problems are what is
// wrong with them, warnings left out; with any of them the set is no use: of what is written
// twice a cluster would have the one that was applied last, and an image could pass without
// the other. So the batch is one for the whole set.
func (s *Set) Read(ctx context.Context, batch *lint.Batch, name string, data []byte) ([]lint.Problem, error) {
	objects, problems := batch.Objects(ctx, name, data)
	problems = slices.DeleteFunc(problems, func(p lint.Problem) bool { return p.Warning })
	if len(problems) > 0 {
		return problems, nil
	}
	for _, manifest := range objects {
		if err := s.add(manifest); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil, nil
}

func (s *Set) add(manifest map[string]any) error {
	metadata, _ := manifest["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	namespace, _ := metadata["namespace"].(string)
	key := types.NamespacedName{Namespace: namespace, Name: name}
	apiVersion, _ := manifest["apiVersion"].(string)
	kind, _ := manifest["kind"].(string)
	switch {
	case apiVersion == "v1" && (kind == string(executor.Secret) || kind == string(executor.ConfigMap)):
		read, err := object(manifest)
		if err != nil {
			return fmt.Errorf("%s %s: %w", kind, name, err)
		}
		if s.objects == nil {
			s.objects = map[string]executor.Material{}
		}
		if s.objects[namespace] == nil {
			s.objects[namespace] = executor.Material{}
		}
		s.objects[namespace][executor.Ref{Kind: executor.RefKind(kind), Name: name}] = read
	case apiVersion != v1alpha1.GroupVersion.String():
	case kind == "Executor":
		var made v1alpha1.Executor
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(manifest, &made); err != nil {
			return fmt.Errorf("%s %s: %w", kind, name, err)
		}
		s.executors = append(s.executors, entry{key, made.Spec})
	case kind == "NamespacedExecutor":
		var made v1alpha1.NamespacedExecutor
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(manifest, &made); err != nil {
			return fmt.Errorf("%s %s: %w", kind, name, err)
		}
		if namespace == "" {
			return fmt.Errorf("%s %s: write metadata.namespace, since it is for what runs there", kind, name)
		}
		s.executors = append(s.executors, entry{key, made.Spec.ExecutorSpec()})
	}
	return nil
}

// Empty reports whether there is no Executor in the set.
func (s *Set) Empty() bool { return len(s.executors) == 0 }

// Namespaces are those of the NamespacedExecutors, sorted.
func (s *Set) Namespaces() []string {
	found := map[string]struct{}{}
	for _, e := range s.executors {
		if e.name.Namespace != "" {
			found[e.name.Namespace] = struct{}{}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// Judges are the compiled Executors of a set.
type Judges struct {
	live   *executor.Live
	access map[types.NamespacedName]registry.Access
}

// Compile compiles every Executor. What they name is looked for in the files and
// in the folder, in that order; namespace is Gatehouse's own, where the
// cluster's Executors find it. What is not found is an error that names it.
func (s *Set) Compile(folder, namespace string, tools executor.Tools) (*Judges, error) {
	j := &Judges{live: executor.NewLive(clock.RealClock{}), access: map[types.NamespacedName]registry.Access{}}
	var names []types.NamespacedName
	for _, e := range s.executors {
		names = append(names, e.name)
		material, err := s.material(e, folder, namespace)
		if err != nil {
			return nil, err
		}
		compiled, err := executor.Compile(strings.TrimPrefix(e.name.String(), "/"), &e.spec, material, "", tools)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e, err)
		}
		if problems := compiled.Problems(); len(problems) > 0 {
			return nil, fmt.Errorf("%s: %w", e, problems[0])
		}
		scopes, err := executor.ParseScopes(e.spec.Scopes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e, err)
		}
		j.live.Put(&executor.Served{
			Name: e.name, UID: types.UID(e.name.String()), Scopes: scopes,
			Mode: e.spec.Mode, Tenancy: e.spec.Tenancy, Generation: 1, Attempted: 1, Compiled: compiled,
		})
		j.access[e.name] = compiled.Access()
	}
	j.live.Expect(names)
	return j, nil
}

func (e entry) String() string {
	if e.name.Namespace == "" {
		return "Executor " + e.name.Name
	}
	return "NamespacedExecutor " + e.name.String()
}

// material is what an Executor names. A Secret without a namespace in a file is
// anybody's.
func (s *Set) material(e entry, folder, namespace string) (executor.Material, error) {
	refs := executor.References(&e.spec)
	material, err := Folder(folder, refs)
	if err != nil {
		return nil, err
	}
	if e.name.Namespace != "" {
		namespace = e.name.Namespace
	}
	for _, from := range []string{"", namespace} {
		for _, ref := range refs {
			if object, ok := s.objects[from][ref]; ok {
				material[ref] = object
			}
		}
	}
	for _, ref := range refs {
		if _, ok := material[ref]; !ok {
			material[ref] = executor.Object{Err: fmt.Errorf("not found; add its manifest to the files, or its keys to --secret-dir as files %s/KEY", ref.Name)}
		}
	}
	return material, nil
}

// Access says how the registry of an image is reached: as the Executors that
// judge it do. It is false if nobody judges it.
func (j *Judges) Access(ref image.Reference, namespace string) (registry.Access, bool) {
	match := j.live.Match(ref, namespace)
	for _, served := range slices.Concat(match.Enforced, match.Audited) {
		return j.access[served.Name], true
	}
	return registry.Access{}, false
}

// Verify has an image judged by everybody who does.
func (j *Judges) Verify(ctx context.Context, subject image.Pinned, namespace string) executor.Verdict {
	return j.live.Match(subject.Reference(), namespace).Verify(ctx, subject)
}
