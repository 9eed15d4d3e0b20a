package executor

import (
	"context"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/outcome"
)

// executor is an Executor or a NamespacedExecutor, in the form that both share.
type executor struct {
	types.NamespacedName
	UID        types.UID
	Generation int64
	Spec       v1alpha1.ExecutorSpec
	deleted    bool
	object     outcome.Object
	status     *v1alpha1.ExecutorStatus // of object
}

func (e *executor) name() types.NamespacedName { return e.NamespacedName }

// materialNamespace is where what it refers to is: beside it, or for the cluster's own kind in Gatehouse's namespace.
func (e *executor) materialNamespace(own string) string {
	if e.Namespace == "" {
		return own
	}
	return e.Namespace
}

// The defaults of the API, for objects that did not pass through it.
const (
	defaultRefresh  = time.Hour
	defaultMaxStale = 24 * time.Hour
)

func refreshInterval(spec *v1alpha1.ExecutorSpec) time.Duration {
	if spec.RefreshInterval == nil || spec.RefreshInterval.Duration <= 0 {
		return defaultRefresh
	}
	return spec.RefreshInterval.Duration
}

func maxStale(spec *v1alpha1.ExecutorSpec) time.Duration {
	if spec.MaxStale == nil {
		return defaultMaxStale
	}
	return spec.MaxStale.Duration
}

// get reads an Executor by name: with a namespace it is a NamespacedExecutor. It is nil if there is none.
func get(ctx context.Context, reader client.Reader, name types.NamespacedName) (*executor, error) {
	if name.Namespace == "" {
		found := &v1alpha1.Executor{}
		if err := reader.Get(ctx, name, found); err != nil {
			return nil, ignoreNotFound(err)
		}
		return fromCluster(found), nil
	}
	found := &v1alpha1.NamespacedExecutor{}
	if err := reader.Get(ctx, name, found); err != nil {
		return nil, ignoreNotFound(err)
	}
	return fromNamespace(found), nil
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func fromCluster(e *v1alpha1.Executor) *executor {
	return &executor{
		NamespacedName: client.ObjectKeyFromObject(e), UID: e.UID, Generation: e.Generation, Spec: e.Spec,
		deleted: !e.DeletionTimestamp.IsZero(), object: e, status: &e.Status,
	}
}

func fromNamespace(e *v1alpha1.NamespacedExecutor) *executor {
	return &executor{
		NamespacedName: client.ObjectKeyFromObject(e), UID: e.UID, Generation: e.Generation, Spec: e.Spec.ExecutorSpec(),
		deleted: !e.DeletionTimestamp.IsZero(), object: e, status: &e.Status,
	}
}

// common is the shared form of an object of either kind; nil of any other.
func common(object client.Object) *executor {
	switch e := object.(type) {
	case *v1alpha1.Executor:
		return fromCluster(e)
	case *v1alpha1.NamespacedExecutor:
		return fromNamespace(e)
	}
	return nil
}

// listAll are the names of all Executors of both kinds.
func listAll(ctx context.Context, reader client.Reader) ([]types.NamespacedName, error) {
	var names []types.NamespacedName
	cluster := &v1alpha1.ExecutorList{}
	if err := reader.List(ctx, cluster, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	for i := range cluster.Items {
		names = append(names, client.ObjectKeyFromObject(&cluster.Items[i]))
	}
	namespaced := &v1alpha1.NamespacedExecutorList{}
	if err := reader.List(ctx, namespaced, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	for i := range namespaced.Items {
		names = append(names, client.ObjectKeyFromObject(&namespaced.Items[i]))
	}
	return names, nil
}

// reportName is how an Executor is called in reports.
func reportName(name types.NamespacedName) string { return strings.TrimPrefix(name.String(), "/") }
