package executor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Sharers are the other Executors that have one of an Executor's scopes too, as the cache has them. An object of another
// kind shares nothing.
func Sharers(ctx context.Context, reader client.Reader, object client.Object) ([]types.NamespacedName, error) {
	shared, err := sharers(ctx, reader, object)
	var names []types.NamespacedName
	for _, found := range shared {
		names = append(names, found...)
	}
	slices.SortFunc(names, compareNames)
	return slices.Compact(names), err
}

// Sharing says who else has one of an Executor's scopes, and what follows. It is empty if nobody has.
func Sharing(ctx context.Context, reader client.Reader, object client.Object) (string, error) {
	shared, err := sharers(ctx, reader, object)
	if err != nil || len(shared) == 0 {
		return "", err
	}
	var parts []string
	for scope, names := range shared {
		var who []string
		for _, name := range names {
			who = append(who, name.Name)
		}
		parts = append(parts, fmt.Sprintf("%s is a scope of %s too", scope, strings.Join(who, ", ")))
	}
	slices.Sort(parts)
	kind := "Executors"
	if object.GetNamespace() != "" {
		kind = "NamespacedExecutors"
	}
	return strings.Join(parts, "; ") + "; an image must pass all " + kind + " of an equal scope: give each scope to one of them if that is not meant", nil
}

func sharers(ctx context.Context, reader client.Reader, object client.Object) (map[Scope][]types.NamespacedName, error) {
	e := common(object)
	if e == nil {
		return nil, nil
	}
	scopes, _ := ParseScopes(e.Spec.Scopes) // what is malformed is shared with nobody
	return rivals(ctx, reader, e.name(), scopes)
}
