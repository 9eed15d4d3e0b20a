package podstatus

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/executor"
)

// found is what there is of this replica's reports on an Executor.
type found struct {
	report *v1alpha1.ExecutorPodStatus   // nil if there is none
	doubt  time.Time                     // when the API server is to be asked whether it is there
	strays []*v1alpha1.ExecutorPodStatus // those that say they are this pod's, under names that are not theirs
}

// find looks in the cache, and at what the cache does not show yet. Nothing that it returns may be changed.
func (r *Reporter) find(ctx context.Context, name types.NamespacedName) (found, error) {
	list := &v1alpha1.ExecutorPodStatusList{}
	if err := r.reports.List(ctx, list, client.MatchingFields{indexReportExecutor: name.String()}, client.UnsafeDisableDeepCopy); err != nil {
		return found{}, fmt.Errorf("list this replica's reports on %s: %w", executor.Describe(name), err)
	}
	pod := *r.pod.Load()
	packed := PackName(pod.Name, identityOf(name, ""))
	var f found
	var cached *v1alpha1.ExecutorPodStatus
	for i := range list.Items {
		item := &list.Items[i]
		switch {
		case item.Name == packed:
			cached = item
		case item.Spec.Pod == pod:
			f.strays = append(f.strays, item)
		}
	}
	f.report, f.doubt = r.latest.of(packed, cached)
	return f, nil
}

// refresh asks the API server itself for the report on an Executor.
func (r *Reporter) refresh(ctx context.Context, name types.NamespacedName) error {
	report := &v1alpha1.ExecutorPodStatus{}
	key := client.ObjectKey{Namespace: r.replica.Namespace, Name: PackName(r.replica.Pod, identityOf(name, ""))}
	err := r.client.Get(ctx, key, report)
	switch {
	case err == nil:
		r.latest.is(report)
		return nil
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("read this replica's report on %s: %w", executor.Describe(name), err)
	}
	f, err := r.find(ctx, name)
	if err != nil {
		return err
	}
	if r.latest.forget(key.Name); f.report != nil {
		r.latest.gone(key.Name, f.report.UID) // the cache may show it for a while
	}
	return nil
}

// publish stores what the board says of an Executor. One that is new costs two writes, anything else that differs one.
func (r *Reporter) publish(ctx context.Context, said executor.Report, report *v1alpha1.ExecutorPodStatus) error {
	want := written(r.replica, *r.pod.Load(), said)
	if report != nil && report.Spec != want.Spec {
		// Of an Executor or a pod that had the same name before.
		if report.Spec.Pod != want.Spec.Pod {
			if err := r.stillOurs(ctx); err != nil {
				return err
			}
		}
		if report.DeletionTimestamp != nil {
			return fmt.Errorf("report %s/%s has the name of this replica's report on %s; it is deleted, and kept by finalizers: remove %s from its metadata.finalizers", report.Namespace, report.Name, executor.Describe(said.Name), strings.Join(report.Finalizers, ", "))
		}
		if err := r.delete(ctx, report); err != nil {
			return err
		}
		report = nil
	}
	switch {
	case report == nil:
		report = want.DeepCopy()
		if err := r.client.Create(ctx, report, client.FieldOwner(v1alpha1.FieldOwnerReplica)); err != nil {
			return fmt.Errorf("create this replica's report on %s: %w", executor.Describe(said.Name), err)
		}
		r.latest.is(report)
	case !sameMetadata(report, want):
		mended := withMetadata(report, want)
		if err := r.client.Patch(ctx, mended, ifUnchanged(report), client.FieldOwner(v1alpha1.FieldOwnerReplica)); err != nil {
			return fmt.Errorf("mend the labels and the owner of this replica's report on %s: %w", executor.Describe(said.Name), err)
		}
		r.latest.is(mended)
		report = mended
	}
	if !sameStatus(report.Status, want.Status) {
		now := metav1.NewTime(r.clock.Now())
		want.Status.LastTransitionTime = &now
		next := report.DeepCopy()
		next.Status = want.Status
		if err := r.client.Status().Patch(ctx, next, ifUnchanged(report), client.FieldOwner(v1alpha1.FieldOwnerReplica)); err != nil {
			return fmt.Errorf("write this replica's report on %s: %w", executor.Describe(said.Name), err)
		}
		r.latest.is(next)
	}
	r.published.is(said.Name, said.UID)
	return nil
}

// retract deletes the report on an Executor that is gone.
func (r *Reporter) retract(ctx context.Context, name types.NamespacedName, report *v1alpha1.ExecutorPodStatus) error {
	r.published.isNot(name)
	if report == nil || report.Spec.Pod != *r.pod.Load() {
		return nil
	}
	return r.delete(ctx, report)
}

// delete deletes this report, and no other that may have its name by now.
func (r *Reporter) delete(ctx context.Context, report *v1alpha1.ExecutorPodStatus) error {
	if report.DeletionTimestamp != nil {
		return nil // a finalizer keeps it
	}
	gone := &v1alpha1.ExecutorPodStatus{ObjectMeta: metav1.ObjectMeta{Namespace: report.Namespace, Name: report.Name}}
	err := r.client.Delete(ctx, gone, client.Preconditions{UID: &report.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete report %s/%s on %s: %w", report.Namespace, report.Name, executor.Describe(keyOf(report.Spec.Executor)), err)
	}
	r.latest.gone(report.Name, report.UID)
	return nil
}

// ifUnchanged is what differs from a report, on the condition that it is still the one that was read.
func ifUnchanged(report *v1alpha1.ExecutorPodStatus) client.Patch {
	return client.MergeFromWithOptions(report, client.MergeFromWithOptimisticLock{})
}

// overtaken reports whether a write failed because things are not as they were read.
func overtaken(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
}
