package gateway

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// On the way, status says at once what gets worse; that more is there waits for the arrival, or for a move that takes long.
func TestWhatIsSaidOnTheWay(t *testing.T) {
	began := time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
	const soon, late = 10 * time.Second, quiet
	for name, c := range map[string]struct {
		after time.Duration
		seen  func(*v1alpha1.GatewayInstanceStatus)
		work  work
		said  bool
	}{
		"more replicas, soon": {after: soon, seen: func(s *v1alpha1.GatewayInstanceStatus) { s.Replicas.Updated, s.Replicas.Ready = 2, 3 }},
		"more replicas, late": {after: late, seen: func(s *v1alpha1.GatewayInstanceStatus) { s.Replicas.Updated = 2 }, said: true},
		"fewer are ready":     {after: soon, seen: func(s *v1alpha1.GatewayInstanceStatus) { s.Replicas.Ready = 1 }, said: true},
		"it is stuck": {after: soon, seen: func(s *v1alpha1.GatewayInstanceStatus) {
			s.Phase, s.Conditions[0].Reason = v1alpha1.GatewayFailed, v1alpha1.ReasonNotProgressing
		}, said: true},
		"it takes nothing because it serves": {after: soon, seen: func(s *v1alpha1.GatewayInstanceStatus) { s.Replicas.Ready = 3 }, work: work{declined: true}, said: true},
		"an event goes with it":              {after: soon, seen: func(s *v1alpha1.GatewayInstanceStatus) { s.Replicas.Ready = 3 }, work: work{announced: true}, said: true},
	} {
		t.Run(name, func(t *testing.T) {
			gateway := &v1alpha1.GatewayInstance{Status: v1alpha1.GatewayInstanceStatus{
				Phase:    v1alpha1.GatewayProvisioning,
				Replicas: &v1alpha1.GatewayReplicas{Desired: 3, Ready: 2},
				Conditions: []metav1.Condition{{
					Type: v1alpha1.ConditionReconciling, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonProgressing, LastTransitionTime: metav1.NewTime(began),
				}},
			}}
			c.work.gateway, c.work.before = gateway, gateway.Status.DeepCopy()
			c.seen(&gateway.Status)
			again := c.work.hush(began.Add(c.after))
			said := gateway.Status.Replicas.Updated != 0 || gateway.Status.Replicas.Ready != 2 || gateway.Status.Phase != v1alpha1.GatewayProvisioning
			if said != c.said {
				t.Errorf("said %v: %+v", said, gateway.Status.Replicas)
			}
			if !c.said && !again.Equal(began.Add(quiet)) {
				t.Errorf("counts again at %v", again)
			}
		})
	}
}
