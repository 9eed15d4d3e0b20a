package release_test

import (
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/revision"
	"github.com/gatehouse-dev/gatehouse/internal/rollout"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
)

func (b *bench) gateway(follows *v1alpha1.GatewayRelease) *v1alpha1.GatewayInstance {
	b.Helper()
	made := &v1alpha1.GatewayInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.tenant, Name: "gateway-" + rand.String(8)},
		Spec:       v1alpha1.GatewayInstanceSpec{ReleaseRef: v1alpha1.ReleaseReference{Name: follows.Name}},
	}
	b.create(made)
	return made
}

// obey lets every gateway take what the window gives it, and be Ready on it the next time unless its image is broken.
func (b *bench) obey() error {
	gateways := &v1alpha1.GatewayInstanceList{}
	if err := b.client.List(b.Context(), gateways, client.InNamespace(b.tenant)); err != nil {
		return err
	}
	for i := range gateways.Items {
		if err := b.obeyOne(&gateways.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) obeyOne(gateway *v1alpha1.GatewayInstance) error {
	follows := &v1alpha1.GatewayRelease{}
	if err := b.client.Get(b.Context(), client.ObjectKey{Name: gateway.Spec.ReleaseRef.Name}, follows); err != nil {
		return client.IgnoreNotFound(err)
	}
	before := gateway.DeepCopy()
	decision := rollout.Decide(follows.Name, follows.Status.Rollout, rollout.Gateway{
		UID: gateway.UID, Generation: gateway.Generation, Record: gateway.Status.Revision,
	})
	moved := false
	if decision.Action == rollout.Take && !b.deaf {
		moved = gateway.Status.Revision == nil || gateway.Status.Revision.Name != decision.Record.Name
		given, err := b.revision(decision.Record.Name)
		if err != nil {
			return err
		}
		decision.Record.Image = given.Image.String()
		gateway.Status.Revision = &decision.Record
	}
	gateway.Status.ObservedGeneration = gateway.Generation
	ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonWaitingForWindow}
	if gateway.Status.Revision != nil {
		ready.Reason = v1alpha1.ReasonReplicasUnavailable
		if !moved && !b.broken[gateway.Status.Revision.Image] {
			ready.Status, ready.Reason = metav1.ConditionTrue, v1alpha1.ReasonReplicasAvailable
		}
	}
	ready.ObservedGeneration = gateway.Generation
	meta.SetStatusCondition(&gateway.Status.Conditions, ready)
	return b.client.Status().Patch(b.Context(), gateway, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

func (b *bench) revision(name string) (revision.Revision, error) {
	stored := &appsv1.ControllerRevision{}
	if err := b.client.Get(b.Context(), client.ObjectKey{Namespace: b.namespace, Name: name}, stored); err != nil {
		return revision.Revision{}, err
	}
	return revision.FromControllerRevision(stored)
}

// reaches waits until the release, with gateways that obey, is as check wants it.
func (b *bench) reaches(object *v1alpha1.GatewayRelease, check func() error) {
	b.Helper()
	eventually.Succeeds(b.T, within, func() error {
		if err := b.obey(); err != nil {
			return err
		}
		return b.is(object, check)
	})
}

func (b *bench) is(object *v1alpha1.GatewayRelease, check func() error) error {
	if err := b.client.Get(b.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		return err
	}
	if object.Status.ObservedGeneration != object.Generation {
		return fmt.Errorf("generation %d is not observed, %d is", object.Generation, object.Status.ObservedGeneration)
	}
	return check()
}

// summary is a check of the exact summary.
func summary(object *v1alpha1.GatewayRelease, want string) func() error {
	return func() error {
		if object.Status.Summary != want {
			return fmt.Errorf("summary is %q, want %q", object.Status.Summary, want)
		}
		return nil
	}
}

// condition is a check of a condition's status and reason, of the present generation.
func condition(object *v1alpha1.GatewayRelease, kind string, status metav1.ConditionStatus, reason string) func() error {
	return func() error {
		got := meta.FindStatusCondition(object.Status.Conditions, kind)
		if got == nil {
			return fmt.Errorf("no condition %s: %s", kind, object.Status.Summary)
		}
		if got.Status != status || got.Reason != reason || got.ObservedGeneration != object.Generation {
			return fmt.Errorf("%s is %s, %s for generation %d (%s), want %s, %s for %d", kind, got.Status, got.Reason, got.ObservedGeneration, got.Message, status, reason, object.Generation)
		}
		return nil
	}
}

func absent(object *v1alpha1.GatewayRelease, kind string) func() error {
	return func() error {
		if got := meta.FindStatusCondition(object.Status.Conditions, kind); got != nil {
			return fmt.Errorf("condition %s is there: %s %s", kind, got.Status, got.Message)
		}
		return nil
	}
}

func all(checks ...func() error) func() error {
	return func() error {
		var errs []error
		for _, check := range checks {
			errs = append(errs, check())
		}
		return errors.Join(errs...)
	}
}

// complete is a check that the whole fleet runs what the release says now.
func complete(object *v1alpha1.GatewayRelease, image string) func() error {
	return all(
		summary(object, "Available"),
		condition(object, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRolloutComplete),
		absent(object, v1alpha1.ConditionReconciling), absent(object, v1alpha1.ConditionStalled),
		func() error {
			s := object.Status
			if s.Image != image || s.Rollout.Target != s.Revision || s.Rollout.Stable != s.Revision || s.Rollout.State != v1alpha1.RolloutComplete {
				return fmt.Errorf("status is %s, revision %s, rollout %+v, want %s complete", s.Image, s.Revision, s.Rollout, image)
			}
			return nil
		})
}
