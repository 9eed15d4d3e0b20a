package podstatus

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/executor"
	"github.com/gatehouse-dev/gatehouse/internal/outcome"
)

// This file is all that the aggregator knows of Executors. Another object of which every replica makes something of its
// own would need the same.

// subject is what is reported on: an Executor or a NamespacedExecutor.
type subject struct {
	types.NamespacedName
	identity   v1alpha1.ExecutorIdentity
	generation int64
	object     outcome.Object
	status     *v1alpha1.ExecutorStatus // of object
	// remark is added to what a good status says.
	remark string
}

// subjects are the kinds that there are.
func subjects() []client.Object {
	return []client.Object{&v1alpha1.Executor{}, &v1alpha1.NamespacedExecutor{}}
}

// statusOf is where the status of a subject stands.
func statusOf(object client.Object) *v1alpha1.ExecutorStatus {
	switch e := object.(type) {
	case *v1alpha1.Executor:
		return &e.Status
	case *v1alpha1.NamespacedExecutor:
		return &e.Status
	}
	panic(fmt.Sprintf("a %T is no Executor", object)) // subjects lists all kinds that are watched
}

// find reads a subject by name; it is nil if it is gone, or on its way.
func find(ctx context.Context, reader client.Reader, name types.NamespacedName) (*subject, error) {
	s := &subject{NamespacedName: name}
	mode := v1alpha1.ModeEnforce
	if name.Namespace == "" {
		e := &v1alpha1.Executor{}
		if err := reader.Get(ctx, name, e); err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		s.object, mode = e, e.Spec.Mode
	} else {
		e := &v1alpha1.NamespacedExecutor{}
		if err := reader.Get(ctx, name, e); err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		s.object, mode = e, e.Spec.Mode
	}
	if !s.object.GetDeletionTimestamp().IsZero() {
		return nil, nil
	}
	s.identity, s.generation, s.status = identityOf(name, s.object.GetUID()), s.object.GetGeneration(), statusOf(s.object)
	if mode == v1alpha1.ModeAudit {
		s.remark = "; in mode Audit it reports, and satisfies nothing"
	}
	return s, nil
}

// names are those of all subjects.
func names(ctx context.Context, reader client.Reader) ([]types.NamespacedName, error) {
	var all []types.NamespacedName
	cluster := &v1alpha1.ExecutorList{}
	if err := reader.List(ctx, cluster, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Executors: %w", err)
	}
	for i := range cluster.Items {
		all = append(all, client.ObjectKeyFromObject(&cluster.Items[i]))
	}
	tenants := &v1alpha1.NamespacedExecutorList{}
	if err := reader.List(ctx, tenants, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list NamespacedExecutors: %w", err)
	}
	for i := range tenants.Items {
		all = append(all, client.ObjectKeyFromObject(&tenants.Items[i]))
	}
	return all, nil
}

// related are the subjects whose status depends on this one's spec.
func related(ctx context.Context, reader client.Reader, object client.Object) ([]types.NamespacedName, error) {
	return executor.Sharers(ctx, reader, object)
}

// relate says in the status what follows from other subjects.
func relate(ctx context.Context, reader client.Reader, pass *outcome.Pass, s *subject) error {
	message, err := executor.Sharing(ctx, reader, s.object)
	if err != nil {
		return err
	}
	if message == "" {
		pass.Clear(v1alpha1.ConditionSharedScope)
	} else {
		pass.Set(v1alpha1.ConditionSharedScope, metav1.ConditionTrue, v1alpha1.ReasonEqualScope, message)
	}
	return nil
}
