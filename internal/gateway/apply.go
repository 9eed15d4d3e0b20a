package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/outcome"
)

// apply sends what differs, then deletes what is not asked for any more.
func (r *reconciler) apply(ctx context.Context, work *work, changes changes) error {
	for _, next := range changes.apply {
		if err := r.applyOne(ctx, work, next); err != nil {
			return err
		}
	}
	for _, key := range changes.remove {
		if err := r.remove(ctx, work, key); err != nil {
			return err
		}
	}
	return nil
}

// unborn is a version that no object has: the first write to a store makes its second. The API server holds an apply to
// its version only if something is there, so an apply to this one creates, or conflicts. Without a version it would
// change what another leader has created meanwhile and moved on since: both apply as the same owner of fields, and
// between those there is no conflict.
const unborn = "1"

// applyOne applies one object server-side. What is there already is changed only in the version that was read, by
// taking its fields over. What is not there is created without, and only if it is still not there: should anybody have
// created it since, the server answers with a conflict, and the next pass finds it.
func (r *reconciler) applyOne(ctx context.Context, work *work, next change) error {
	configuration := next.object.Configuration()
	options := []client.ApplyOption{
		client.FieldOwner(v1alpha1.FieldOwnerGateway),
		client.DisableReadYourWritesConsistency, // memory knows what was written
	}
	before, strayed, version := "", false, unborn
	if next.live != nil {
		before = next.live.GetResourceVersion()
		version = before
		if next.touched || next.adopted {
			var err error
			if version, strayed, err = r.claimStrays(ctx, next); err != nil {
				return err
			}
		}
		configuration.SetUID(next.live.GetUID())
		options = append(options, client.ForceOwnership)
	}
	configuration.SetResourceVersion(version)
	if err := r.local.Apply(ctx, client.ApplyConfigurationFromUnstructured(configuration), options...); err != nil {
		return refused(ctx, next, err)
	}
	answer, err := typed(next.owned, configuration)
	if err != nil {
		return err
	}
	now, err := mark(next.owned, answer)
	if err != nil {
		return err
	}
	work.live[next.key], work.marks[next.key] = answer, now
	r.memory.applied(work, next.key, answer.GetResourceVersion(), now)
	work.report(ctx, next, strayed, before != answer.GetResourceVersion())
	return nil
}

func typed(owned ownedKind, answer *unstructured.Unstructured) (client.Object, error) {
	out := owned.object()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(answer.Object, out); err != nil {
		return nil, fmt.Errorf("read what the API server made of %s %s: %w", owned.kind.Kind, answer.GetName(), err)
	}
	return out, nil
}

// report says what an apply has done, in the log and, where somebody else is concerned, as an event. strayed says that
// somebody else had a say in the object.
func (work *work) report(ctx context.Context, next change, strayed, changed bool) {
	if !changed {
		return
	}
	logger := log.FromContext(ctx).WithValues("object", next.key.String(), "revision", work.gateway.Status.Revision.Name)
	lost := next.live == nil && slices.ContainsFunc(work.before.Applied, func(applied v1alpha1.AppliedObject) bool {
		return applied.Kind == next.key.kind && applied.Name == next.key.name
	})
	switch {
	case next.adopted:
		logger.Info("object adopted")
		work.announce(v1alpha1.ReasonAdopted, next.key.String()+" is this gateway's from now on")
	case lost:
		logger.Info("drift repaired: object was deleted")
		work.announce(v1alpha1.ReasonDriftRepaired, next.key.String()+" was deleted by somebody else and has been made again")
	case next.live == nil:
		logger.Info("object created")
	case next.edited && !strayed:
		logger.Info("object changed")
	default:
		logger.Info("drift repaired: object was changed")
		work.announce(v1alpha1.ReasonDriftRepaired, next.key.String()+" was changed by somebody else and has been set back")
	}
}

// announce sends an event with the status write at the end of the pass, which is then not put off.
func (work *work) announce(reason, note string) {
	work.pass.Event(corev1.EventTypeNormal, reason, note)
	work.announced = true
}

// remove deletes an object that the gateway owns, in the version that was read.
func (r *reconciler) remove(ctx context.Context, work *work, key id) error {
	object := work.live[key]
	err := r.local.Delete(ctx, object, client.Preconditions{
		UID:             ptr.To(object.GetUID()),
		ResourceVersion: ptr.To(object.GetResourceVersion()),
	})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	delete(work.live, key)
	delete(work.marks, key)
	r.memory.gone(work, key)
	log.FromContext(ctx).Info("object deleted, it is not asked for any more", "object", key.String())
	return nil
}

// maxFields bounds how many fields of a refused object are named.
const maxFields = 4

// refused says what kept an object from being applied. The API server's own words go to the log: they may hold values.
// Status names the fields.
func refused(ctx context.Context, next change, err error) error {
	switch {
	case apierrors.IsInvalid(err) && slices.Contains(refusedFields(err), "metadata.uid"):
		// Another object has taken the name since it was read.
		return apierrors.NewConflict(corev1.Resource(next.key.kind), next.key.name, err)
	case apierrors.IsInvalid(err) && len(refusedFields(err)) > 0:
		log.FromContext(ctx).Info("object refused", "object", next.key.String(), "error", err.Error())
		return outcome.Terminal(v1alpha1.ReasonApplyFailed, fmt.Errorf(
			"%s is refused as invalid: %s; correct the gateway's spec or the profile", next.key, strings.Join(refusedFields(err), ", ")))
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		// An admission policy that refuses names no field, and may think otherwise later.
		log.FromContext(ctx).Info("object refused", "object", next.key.String(), "error", err.Error())
		return outcome.Transient(v1alpha1.ReasonApplyFailed, fmt.Errorf(
			"%s is refused as forbidden: look for a quota or an admission policy of the namespace, and at Gatehouse's roles", next.key))
	default:
		return fmt.Errorf("apply %s: %w", next.key, err)
	}
}

func refusedFields(err error) []string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	var fields []string
	for _, cause := range status.Status().Details.Causes {
		if cause.Field != "" && !slices.Contains(fields, cause.Field) {
			fields = append(fields, outcome.Bound(cause.Field, 200))
		}
	}
	slices.Sort(fields)
	return fields[:min(len(fields), maxFields)]
}
