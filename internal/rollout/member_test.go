package rollout

import (
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

func TestMemberOfReadsStatusAndNeverThePhase(t *testing.T) {
	since := time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
	gateway := &v1alpha1.GatewayInstance{}
	gateway.UID, gateway.Namespace, gateway.Name, gateway.Generation = "uid", "tenant-a", "edge", 3
	gateway.Status = v1alpha1.GatewayInstanceStatus{
		ObservedGeneration: 3,
		Phase:              v1alpha1.GatewayFailed,
		Revision:           &v1alpha1.RecordedRevision{Release: "stable", Attempt: 5, Name: "v1"},
		Replicas:           &v1alpha1.GatewayReplicas{Desired: 2, Updated: 2, Ready: 1},
		Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue},
			{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "ReplicasAvailable", Message: "as somebody put it", LastTransitionTime: metav1.Time{Time: since}},
		},
	}
	want := Member{
		UID: "uid", Namespace: "tenant-a", Name: "edge", Generation: 3, Record: gateway.Status.Revision,
		Observed: true, Ready: true, Since: since, Reason: "ReplicasAvailable", Serves: true, ReadyReplicas: 1, DesiredReplicas: 2,
	}
	if got := MemberOf(gateway); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}

	gateway.Generation = 4
	gateway.Status.Conditions[1].Status = metav1.ConditionUnknown
	gateway.DeletionTimestamp = &metav1.Time{Time: since}
	if got := MemberOf(gateway); got.Observed || got.Ready || !got.Leaving {
		t.Errorf("got %+v", got)
	}
	if got := MemberOf(&v1alpha1.GatewayInstance{}); got.Record != nil || got.Ready || got.Leaving {
		t.Errorf("of an empty gateway: %+v", got)
	}
}

// Of one that runs nothing it is the reason of Ready while it waits, too: its slot is still its own.
func TestWhoWaitsToBeJudgedIsBarredOnceItDoesNotAnyMore(t *testing.T) {
	gateway := &v1alpha1.GatewayInstance{}
	gateway.Status.Conditions = []metav1.Condition{
		{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonCannotVerify},
		{Type: v1alpha1.ConditionReconciling, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonCannotVerify},
	}
	if MemberOf(gateway).Barred {
		t.Error("barred while it waits")
	}
	gateway.Status.Conditions[1].Type = v1alpha1.ConditionStalled
	if !MemberOf(gateway).Barred {
		t.Error("not barred")
	}
	gateway.Generation = 2
	if MemberOf(gateway).Barred {
		t.Error("barred by what it said of an earlier spec")
	}
}

func TestWhoMayNotTakeTheTargetIsBarred(t *testing.T) {
	for reason, barred := range map[string]bool{
		v1alpha1.ReasonNamespaceNotAllowed: true, v1alpha1.ReasonProfileNotFound: true, v1alpha1.ReasonVerificationFailed: true,
		v1alpha1.ReasonCannotVerify: false, v1alpha1.ReasonVerifying: false, v1alpha1.ReasonReplicasAvailable: false,
	} {
		gateway := &v1alpha1.GatewayInstance{}
		gateway.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason}}
		if got := MemberOf(gateway).Barred; got != barred {
			t.Errorf("%s: barred %t", reason, got)
		}
		gateway.Generation = 2 // and its tenant has edited it since
		if MemberOf(gateway).Barred {
			t.Errorf("%s: barred by what it said of an earlier spec", reason)
		}
	}
}
