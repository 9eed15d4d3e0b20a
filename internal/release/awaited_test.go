package release

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// Fails when a revision may be deleted while a gateway may be taking what an earlier status gave it, or when one that
// takes nothing holds back for ever what nothing needs.
func TestWhoMayBeTakingSomething(t *testing.T) {
	record := func(release string, attempt int64) func(*v1alpha1.GatewayInstance) {
		return func(g *v1alpha1.GatewayInstance) {
			g.Status.Revision = &v1alpha1.RecordedRevision{Release: release, Name: release + "-x", Attempt: attempt}
		}
	}
	says := func(reason string) func(*v1alpha1.GatewayInstance) {
		return func(g *v1alpha1.GatewayInstance) {
			g.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason}}
		}
	}
	leaving := func(g *v1alpha1.GatewayInstance) { now := metav1.Now(); g.DeletionTimestamp = &now }
	type gateway = []func(*v1alpha1.GatewayInstance)
	for name, test := range map[string]struct {
		gateway  gateway
		admitted bool
		stable   string
		want     bool
	}{
		"on record":                              {gateway{record("stable", 6)}, false, "stable-x", false},
		"admitted, on record":                    {gateway{record("stable", 7)}, true, "stable-x", false},
		"admitted, on record of before":          {gateway{record("stable", 6)}, true, "stable-x", true},
		"admitted, on record of another":         {gateway{record("other", 9)}, true, "stable-x", true},
		"admitted, nothing on record":            {nil, true, "", true},
		"admitted, leaving":                      {gateway{leaving}, true, "stable-x", false},
		"nothing on record":                      {nil, false, "stable-x", true},
		"nothing on record, nothing is stable":   {nil, false, "", false},
		"nothing on record, waits":               {gateway{says(v1alpha1.ReasonWaitingForRelease)}, false, "stable-x", true},
		"nothing on record, barred":              {gateway{says(v1alpha1.ReasonNamespaceNotAllowed)}, false, "stable-x", false},
		"nothing on record, runs another's":      {gateway{says(v1alpha1.ReasonNotAdopted)}, false, "stable-x", false},
		"on record of another, not admitted":     {gateway{record("other", 9)}, false, "stable-x", false},
		"admitted, on record of a later attempt": {gateway{record("stable", 8)}, true, "stable-x", false},
	} {
		t.Run(name, func(t *testing.T) {
			release := &v1alpha1.GatewayRelease{ObjectMeta: metav1.ObjectMeta{Name: "stable"}}
			release.Status.Rollout = &v1alpha1.RolloutStatus{Target: "stable-y", Stable: test.stable, Attempt: 7}
			if test.admitted {
				release.Status.Rollout.InFlight = []v1alpha1.InFlightGateway{{UID: "a", Attempt: 7}}
			}
			g := v1alpha1.GatewayInstance{ObjectMeta: metav1.ObjectMeta{UID: "a"}}
			for _, change := range test.gateway {
				change(&g)
			}
			if got := awaited(release, []v1alpha1.GatewayInstance{g}); got != test.want {
				t.Errorf("awaited: %v, want %v", got, test.want)
			}
		})
	}
}
