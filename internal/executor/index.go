package executor

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// The indexes by which a change finds the Executors that it concerns. They are named after this controller, because a
// cache has one index of a name for all controllers.
const (
	// indexRefs finds the Executors of a namespace (or of the cluster) that refer to a Secret or ConfigMap.
	indexRefs = "executor:references"
	// indexScopes finds those that have a scope, however they spell it.
	indexScopes = "executor:scopes"
	// indexRevisions finds the stored specs of an Executor.
	indexRevisions = "executor:revisions"
)

func addIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	spec := func(values func(*v1alpha1.ExecutorSpec) []string) client.IndexerFunc {
		return func(object client.Object) []string {
			switch e := object.(type) {
			case *v1alpha1.Executor:
				return values(&e.Spec)
			case *v1alpha1.NamespacedExecutor:
				shared := e.Spec.ExecutorSpec()
				return values(&shared)
			}
			return nil
		}
	}
	refs := spec(func(s *v1alpha1.ExecutorSpec) []string {
		var keys []string
		for _, ref := range References(s) {
			keys = append(keys, ref.indexKey())
		}
		return keys
	})
	scopes := spec(func(s *v1alpha1.ExecutorSpec) []string {
		var keys []string
		parsed, _ := ParseScopes(s.Scopes) // what is malformed is equal to nothing
		for _, scope := range parsed {
			keys = append(keys, scope.String())
		}
		return keys
	})
	for _, index := range []struct {
		kind   client.Object
		name   string
		values client.IndexerFunc
	}{
		{&v1alpha1.Executor{}, indexRefs, refs},
		{&v1alpha1.NamespacedExecutor{}, indexRefs, refs},
		{&v1alpha1.Executor{}, indexScopes, scopes},
		{&v1alpha1.NamespacedExecutor{}, indexScopes, scopes},
		{&appsv1.ControllerRevision{}, indexRevisions, func(object client.Object) []string {
			if owner := object.GetAnnotations()[v1alpha1.AnnotationExecutor]; owner != "" {
				return []string{owner}
			}
			return nil
		}},
	} {
		if err := indexer.IndexField(ctx, index.kind, index.name, index.values); err != nil {
			return fmt.Errorf("index %s: %w", index.name, err)
		}
	}
	return nil
}

func (r Ref) indexKey() string { return string(r.Kind) + "/" + r.Name }

// indexed lists the Executors of a namespace, or of the cluster, that an index has under a key.
func indexed(ctx context.Context, reader client.Reader, namespace, index, key string) ([]types.NamespacedName, error) {
	var names []types.NamespacedName
	if namespace == "" {
		found := &v1alpha1.ExecutorList{}
		if err := reader.List(ctx, found, client.MatchingFields{index: key}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, err
		}
		for i := range found.Items {
			names = append(names, client.ObjectKeyFromObject(&found.Items[i]))
		}
		return names, nil
	}
	found := &v1alpha1.NamespacedExecutorList{}
	if err := reader.List(ctx, found, client.InNamespace(namespace), client.MatchingFields{index: key}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	for i := range found.Items {
		names = append(names, client.ObjectKeyFromObject(&found.Items[i]))
	}
	return names, nil
}

// rivals are the other Executors that have one of these scopes too, sorted, by scope.
func rivals(ctx context.Context, reader client.Reader, name types.NamespacedName, scopes []Scope) (map[Scope][]types.NamespacedName, error) {
	found := map[Scope][]types.NamespacedName{}
	for _, scope := range scopes {
		names, err := indexed(ctx, reader, name.Namespace, indexScopes, scope.String())
		if err != nil {
			return nil, fmt.Errorf("find who else has scope %s: %w", scope, err)
		}
		names = slices.DeleteFunc(names, func(other types.NamespacedName) bool { return other == name })
		if len(names) > 0 {
			slices.SortFunc(names, compareNames)
			found[scope] = names
		}
	}
	return found, nil
}

func requests(names []types.NamespacedName) []reconcile.Request {
	all := make([]reconcile.Request, len(names))
	for i, name := range names {
		all[i] = reconcile.Request{NamespacedName: name}
	}
	return all
}
