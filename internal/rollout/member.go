package rollout

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// Member is a gateway as the planner sees it: values read from one stored version of it, which may be an old one.
type Member struct {
	UID             types.UID
	Namespace, Name string
	// Generation of the gateway's spec.
	Generation int64
	// Record is what the gateway was given and has recorded; nil when it has recorded nothing. It is not modified.
	Record *v1alpha1.RecordedRevision
	// Observed says that the gateway's status is of its current generation.
	Observed bool
	// Ready is the gateway's Ready condition, and Since the time of its last change, in whole seconds as the API stores it.
	Ready bool
	Since time.Time
	// Reason is the typed reason of the Ready condition.
	Reason string
	// ReadyReplicas of DesiredReplicas are available.
	ReadyReplicas, DesiredReplicas int32
	// Serves says that replicas are available although the gateway is not Ready, for a reason that is not theirs: an edit
	// of its tenant is under way, its release or its revision is missing, an apply is refused. It has something to lose.
	Serves bool
	// Barred says that the gateway may not take the target: its namespace or its profile does not allow it, or what its
	// namespace itself demands of signatures is not there, or could not be judged in time.
	Barred bool
	// Unapplied says that what the gateway has recorded could not be applied, so that it runs something else.
	Unapplied bool
	// Leaving says that the gateway is being deleted: it is no part of the fleet any more.
	Leaving bool
}

// MemberOf reads a gateway for the planner: its identity, its record, its numbers and its Ready condition. It never
// reads the phase, and keeps no text that the gateway's own objects may have chosen.
func MemberOf(gateway *v1alpha1.GatewayInstance) Member {
	m := Member{
		UID:        gateway.UID,
		Namespace:  gateway.Namespace,
		Name:       gateway.Name,
		Generation: gateway.Generation,
		Record:     gateway.Status.Revision,
		Observed:   gateway.Status.ObservedGeneration == gateway.Generation,
		Leaving:    !gateway.DeletionTimestamp.IsZero(),
	}
	if replicas := gateway.Status.Replicas; replicas != nil {
		m.ReadyReplicas, m.DesiredReplicas = replicas.Ready, replicas.Desired
	}
	if ready := meta.FindStatusCondition(gateway.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		m.Ready = ready.Status == metav1.ConditionTrue
		m.Since = ready.LastTransitionTime.Time
		m.Reason = ready.Reason
	}
	switch m.Reason {
	case v1alpha1.ReasonReplicasUnavailable, v1alpha1.ReasonNotProgressing:
		m.Serves = m.DesiredReplicas > 0 && m.ReadyReplicas >= m.DesiredReplicas // with its old pods
	default:
		m.Serves = m.ReadyReplicas > 0
	}
	switch m.Reason {
	case v1alpha1.ReasonNamespaceNotAllowed, v1alpha1.ReasonProfileNotFound, v1alpha1.ReasonVerificationFailed:
		m.Barred = m.Observed
	case v1alpha1.ReasonCannotVerify: // of one that runs nothing it is what it still waits for, unless it waits no longer
		m.Barred = m.Observed && meta.IsStatusConditionTrue(gateway.Status.Conditions, v1alpha1.ConditionStalled)
	case v1alpha1.ReasonApplyFailed, v1alpha1.ReasonForeignObject, v1alpha1.ReasonInvalidSpec, v1alpha1.ReasonRevisionNotFound:
		m.Unapplied = true
	}
	return m
}

// unadopted says whether the gateway has recorded nothing and runs what it may not adopt: it waits for the window.
func (m *Member) unadopted() bool {
	return m.Record == nil && m.Observed && m.Reason == v1alpha1.ReasonNotAdopted
}

// loses says whether the gateway has something to lose.
func (m *Member) loses() bool { return m.Ready || m.Serves }

// of says whether the gateway's record is of this release. A record of another release does not compare: attempts are
// numbered per release.
func (m *Member) of(release string) bool {
	return m.Record != nil && m.Record.Release == release
}

// runs says whether the gateway was given this revision by this release.
func (m *Member) runs(release, revision string) bool {
	return m.of(release) && m.Record.Name == revision
}
