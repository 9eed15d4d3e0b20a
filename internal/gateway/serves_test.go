package gateway

import (
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/outcome"
	"github.com/gatehouse-dev/gatehouse/internal/rollout"
)

// What a gateway does not take because it serves, the planner must read from the status that the pass ends with; or the
// one would wait for the other for ever.
func TestAGatewayThatSaysThatItServesIsSeenToServe(t *testing.T) {
	waiting := corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}},
	}}}}
	rapid.Check(t, func(t *rapid.T) {
		desired := rapid.Int32Range(0, 3).Draw(t, "desired")
		asked := rapid.SampledFrom([]int32{desired, 2}).Draw(t, "asked of the Deployment") // an edit may be under way
		available := rapid.Int32Range(0, max(desired, asked)).Draw(t, "available")
		before := rapid.SampledFrom([]string{
			v1alpha1.ReasonReplicasAvailable, v1alpha1.ReasonReplicasUnavailable, v1alpha1.ReasonProgressing, v1alpha1.ReasonNotProgressing,
		}).Draw(t, "before")
		wrong := rapid.SampledFrom([]error{
			nil, nil,
			outcome.Terminal(v1alpha1.ReasonInvalidSpec, errors.New("it cannot be rendered")),
			outcome.Transient(v1alpha1.ReasonApplyFailed, errors.New("it is refused")),
			&errWaiting{v1alpha1.ReasonNotAdopted, "it waits for the window"},
		}).Draw(t, "wrong")
		work := servesWork(desired, before, deployment(func(d *appsv1.Deployment) {
			d.Spec.Replicas = ptr.To(asked)
			d.Status.Replicas = asked
			d.Status.UpdatedReplicas = rapid.Int32Range(0, asked).Draw(t, "updated")
			d.Status.ReadyReplicas, d.Status.AvailableReplicas = available, available
			d.Generation += rapid.Int64Range(0, 1).Draw(t, "not observed")
		}))
		if rapid.Bool().Draw(t, "a pod is stuck") {
			work.pods = []corev1.Pod{waiting}
		}

		says := work.serves()
		(&reconciler{}).observe(work, wrong)
		if described := outcome.As(wrong); described != nil { // as the end of a pass does
			work.unready(described.Reason, wrong.Error())
		}
		m := rollout.MemberOf(work.gateway)
		switch {
		case says && !m.Ready && !m.Serves:
			t.Fatalf("it takes nothing, and is not seen to serve: %+v", m)
		case !says && wrong == nil && m.Serves:
			t.Fatalf("it takes what costs somebody something: %+v", m)
		}
	})
}

func servesWork(desired int32, before string, d *appsv1.Deployment) *work {
	gateway := &v1alpha1.GatewayInstance{
		ObjectMeta: metav1.ObjectMeta{Name: "edge", Generation: 4},
		Spec:       v1alpha1.GatewayInstanceSpec{Replicas: ptr.To(desired)},
		Status: v1alpha1.GatewayInstanceStatus{
			Revision:   &v1alpha1.RecordedRevision{Release: "stable", Name: "v1", Attempt: 1},
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: before}},
		},
	}
	finisher := &outcome.Finisher{Clock: clock.RealClock{}}
	return &work{
		gateway: gateway, pass: finisher.Begin(gateway), before: gateway.Status.DeepCopy(),
		live: objects{{"Deployment", "edge"}: d}, marks: marks{},
	}
}
