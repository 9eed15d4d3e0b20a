package gateway

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// record writes down what the gateway was given and that it is not Ready on it yet, before anything moves: the window
// counts on it, and so does whoever reads a Ready of before. The write is conditional on the version that the decision
// was made from. When only somebody else's edit is to be set back, there is nothing to record, and the gateway is read
// again instead: a leader that was paused may look at a gateway of long ago beside objects of now, whose versions it
// would get right.
func (r *reconciler) record(ctx context.Context, work *work, changes changes) error {
	if changes.none() {
		return nil
	}
	status := &work.gateway.Status
	given := !equality.Semantic.DeepEqual(status.Revision, work.before.Revision)
	renamed := work.before.Revision == nil || work.before.Revision.Name != status.Revision.Name
	moves := renamed || changes.rolls() && !knownUnready(work.gateway)
	if !given && !moves {
		return r.confirm(ctx, work)
	}
	if moves {
		work.progressing()
		status.ObservedGeneration = work.gateway.Generation
		status.Selector = selector(work.gateway.Name)
		measured := ptr.Deref(status.Replicas, v1alpha1.GatewayReplicas{})
		status.Replicas = replicas(ptr.Deref(work.gateway.Spec.Replicas, 1), 0, measured.Ready)
	}
	if err := work.pass.Record(ctx); err != nil {
		return err
	}
	work.before = status.DeepCopy()
	r.memory.wrote(work)
	return nil
}

// confirm says whether the gateway is still as the pass has read it.
func (r *reconciler) confirm(ctx context.Context, work *work) error {
	now := &metav1.PartialObjectMetadata{}
	now.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("GatewayInstance"))
	key := client.ObjectKeyFromObject(work.gateway)
	if err := r.hubLive.Get(ctx, key, now); err != nil {
		return fmt.Errorf("read gateway %s again: %w", key, err)
	}
	if now.UID != work.gateway.UID || now.ResourceVersion != work.gateway.ResourceVersion {
		return errBehind
	}
	return nil
}

// knownUnready reports whether status says already that the gateway is not Ready in this generation. Saying so again
// would hide why.
func knownUnready(gateway *v1alpha1.GatewayInstance) bool {
	ready := meta.FindStatusCondition(gateway.Status.Conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.Status != metav1.ConditionTrue && ready.ObservedGeneration == gateway.Generation
}

// progressing says that the gateway is on its way to what it was given.
func (work *work) progressing() {
	message := "moving to " + work.gateway.Status.Revision.Name
	work.pass.Set(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonProgressing, message)
	work.pass.Set(v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonProgressing, message)
	work.pass.Clear(v1alpha1.ConditionStalled)
	work.gateway.Status.Phase = v1alpha1.GatewayProvisioning
}
