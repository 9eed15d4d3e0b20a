package rollout

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// verdict makes the named gateways not Ready for a reason that is not their replicas', which go on serving.
func (s *scene) verdict(reason string, names ...string) {
	for _, name := range names {
		m := s.member(name)
		m.Ready, m.Serves, m.Reason, m.ReadyReplicas = false, true, reason, 1
		m.Barred = reason == v1alpha1.ReasonNamespaceNotAllowed
		m.Since = s.in.Now.Truncate(time.Second)
	}
}

func (s *scene) names() []string {
	var names []string
	for _, m := range s.in.Fleet {
		names = append(names, m.Name)
	}
	return names
}

// A verdict about a gateway is no measurement of it: one that serves has something to lose, and keeps to the budget.
func TestAGatewayThatServesUsesTheBudgetWhateverItsCondition(t *testing.T) {
	for _, reason := range []string{v1alpha1.ReasonReleaseNotFound, v1alpha1.ReasonRevisionNotFound, v1alpha1.ReasonProgressing, v1alpha1.ReasonApplyFailed} {
		t.Run(reason, func(t *testing.T) {
			s := completed(t, 8)
			s.verdict(reason, s.names()...)
			s.in.Accepted = "v2"
			s.plan()
			if got := len(s.in.Status.InFlight); got != 2 {
				t.Fatalf("%d admitted, budget 2", got)
			}
			for _, entry := range s.in.Status.InFlight {
				if !entry.WasReady {
					t.Errorf("%s is excused", entry.Name)
				}
			}
			if got := s.in.Status.Fleet.AlreadyUnready; got != 0 {
				t.Errorf("alreadyUnready %d", got)
			}
		})
	}
}

func TestWhatAGatewayHasToLoseIsReadFromItsReplicas(t *testing.T) {
	for name, c := range map[string]struct {
		reason         string
		desired, ready int32
		serves         bool
	}{
		"its tenant's edit is under way":        {v1alpha1.ReasonProgressing, 1, 1, true},
		"scaled up, the new pods are to come":   {v1alpha1.ReasonProgressing, 3, 1, true},
		"its release is gone":                   {v1alpha1.ReasonReleaseNotFound, 1, 1, true},
		"its own pods are lost":                 {v1alpha1.ReasonReplicasUnavailable, 2, 1, false},
		"stuck, and its old pods serve":         {v1alpha1.ReasonNotProgressing, 1, 1, true},
		"stuck, with one of two":                {v1alpha1.ReasonNotProgressing, 2, 1, false},
		"nothing runs":                          {v1alpha1.ReasonApplyFailed, 1, 0, false},
		"nothing is asked for, nothing to lose": {v1alpha1.ReasonNotProgressing, 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := MemberOf(&v1alpha1.GatewayInstance{Status: v1alpha1.GatewayInstanceStatus{
				Replicas:   &v1alpha1.GatewayReplicas{Desired: c.desired, Ready: c.ready},
				Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: c.reason}},
			}})
			if m.loses() != c.serves {
				t.Errorf("loses %v", m.loses())
			}
		})
	}
}

// Those who may not take the target are left out, named, and not said to run it; when they may, they go through the
// window like everybody.
func TestABarredGatewayIsLeftOutUntilItMay(t *testing.T) {
	s := completed(t, 3)
	s.verdict(v1alpha1.ReasonNamespaceNotAllowed, "edge-0")
	s.in.Accepted = "v2"
	s.plan()
	s.take()
	s.comeUp("edge-1", "edge-2")
	s.later(time.Minute)
	s.plan()
	s.isState(v1alpha1.RolloutComplete, "2 of 3 gateways run v2", "1 may not take it: tenant-a/edge-0: 1/1 ready", v1alpha1.ReasonNamespaceNotAllowed)
	attempt := s.in.Status.Attempt
	if s.plan(); s.in.Status.Attempt != attempt {
		t.Errorf("a barred gateway starts attempt %d after %d", s.in.Status.Attempt, attempt)
	}
	s.member("edge-0").Barred = false
	s.comeUp("edge-0")
	s.plan()
	if got := s.window(); len(got) != 1 || got[0] != "edge-0" || s.in.Status.Attempt != attempt+1 {
		t.Errorf("window %v in attempt %d after %d", got, s.in.Status.Attempt, attempt)
	}
}

// One that was admitted before it was barred reports the attempt without the target, and frees its slot.
func TestAGatewayThatIsBarredInTheWindowFreesItsSlot(t *testing.T) {
	s := completed(t, 3)
	s.in.Accepted = "v2"
	s.plan()
	name := s.window()[0]
	s.verdict(v1alpha1.ReasonNamespaceNotAllowed, name)
	s.plan()
	if got := s.window(); len(got) != 2 || got[0] != name {
		t.Fatalf("window %v: %s has not reported yet", got, name)
	}
	m := s.member(name)
	record := *m.Record
	record.Attempt = s.in.Status.Attempt
	m.Record = &record
	attempt := s.in.Status.Attempt
	s.plan()
	for _, other := range s.window() {
		if other == name {
			t.Errorf("%s holds its slot", name)
		}
	}
	if len(s.window()) != 2 || s.in.Status.Attempt != attempt {
		t.Errorf("window %v in attempt %d, want another in the slot and attempt %d", s.window(), s.in.Status.Attempt, attempt)
	}
}

// One that its own namespace cannot judge holds its slot until progressDeadline has passed, and then nobody up: not one
// that was given its slot, nor the completion. It goes through the window when it can be judged.
func TestWhoCannotBeJudgedInTimeHoldsNobodyUp(t *testing.T) {
	s := completed(t, 3)
	s.in.Spec.MaxUnavailable = ptr(intstr.FromInt32(1))
	s.in.Accepted = "v2"
	s.plan()
	name := s.window()[0]
	m := s.member(name)
	decision := Decide("stable", s.in.Status, Gateway{UID: m.UID, Generation: m.Generation, Record: m.Record, Serves: true})
	deadline := Deadline(s.in.Spec, decision.Given)
	if decision.Action != Take || !deadline.Equal(s.in.Now.Add(time.Minute+time.Second)) {
		t.Fatalf("%+v, deadline %s at %s", decision, deadline, s.in.Now)
	}
	s.in.Now = deadline.Add(-time.Second)
	if s.plan(); s.window()[0] != name {
		t.Fatalf("window %v before %s has reported", s.window(), name)
	}
	s.in.Now = deadline
	kept := *m.Record
	kept.Attempt = decision.Record.Attempt
	*m = MemberOf(&v1alpha1.GatewayInstance{
		ObjectMeta: metav1.ObjectMeta{UID: m.UID, Namespace: m.Namespace, Name: m.Name},
		Status: v1alpha1.GatewayInstanceStatus{
			Revision: &kept, Replicas: &v1alpha1.GatewayReplicas{Desired: 1, Ready: 1},
			Conditions: []metav1.Condition{
				{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonCannotVerify},
				{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonCannotVerify},
			},
		},
	})
	attempt := s.in.Status.Attempt
	for s.plan(); len(s.window()) > 0; s.plan() {
		if s.window()[0] == name {
			t.Fatalf("%s is in the window again", name)
		}
		s.take()
		s.comeUp(s.window()...)
		s.later(time.Minute / 2)
	}
	s.isState(v1alpha1.RolloutComplete, "2 of 3 gateways run v2", "1 may not take it: tenant-a/"+name+": 1/1 ready (CannotVerify)")
	if s.in.Status.Attempt != attempt || s.in.Status.Fleet.Failed != 0 {
		t.Errorf("got %s", encode(s.in.Status))
	}
	m.Barred = false
	s.comeUp(name)
	s.plan()
	if got := s.window(); len(got) != 1 || got[0] != name || s.in.Status.Attempt != attempt+1 {
		t.Fatalf("window %v in attempt %d after %d", got, s.in.Status.Attempt, attempt)
	}
	s.converge()
	s.isState(v1alpha1.RolloutComplete, "3 of 3 gateways run v2")
}

func TestWhatCouldNotBeAppliedDoesNotRun(t *testing.T) {
	s := completed(t, 2)
	s.member("edge-0").Unapplied = true
	s.verdict(v1alpha1.ReasonApplyFailed, "edge-0")
	if s.plan(); s.in.Status.Fleet.Updated != 1 {
		t.Errorf("updated %d", s.in.Status.Fleet.Updated)
	}
}

// A completed attempt keeps the failures that it tolerated, and gets no new ones from what happens later.
func TestWhatHappensAfterCompletionIsNoFailureOfIt(t *testing.T) {
	s := completed(t, 4)
	s.in.Spec.MaxUnavailable = ptr(*s.in.Spec.MaxUnavailable)
	s.in.Spec.MaxUnavailable.IntVal = 4
	s.in.Accepted = "v2"
	s.plan()
	s.take()
	s.comeUp("edge-1", "edge-2", "edge-3")
	s.later(2 * time.Minute)
	s.plan()
	s.isState(v1alpha1.RolloutComplete, "1 did not come back (maxFailures 1): tenant-a/edge-0")
	s.later(time.Minute)
	s.verdict(v1alpha1.ReasonProgressing, "edge-1", "edge-2")
	s.goDown("edge-3")
	s.plan()
	s.isState(v1alpha1.RolloutComplete)
	if got := s.in.Status.Fleet.Failed; got != 1 {
		t.Errorf("failed %d, want the one that was tolerated", got)
	}
}

// After a completion, one that runs what another release gave, and has lost its status, is moved through the window too.
func TestAGatewayThatMayNotAdoptWhatItRunsIsAdmittedAfterCompletion(t *testing.T) {
	s := completed(t, 2)
	m := gateway("edge-9", ready)
	m.Ready, m.Serves, m.Reason = false, true, v1alpha1.ReasonNotAdopted
	s.in.Fleet = append(s.in.Fleet, m)
	s.plan()
	if got := s.window(); len(got) != 1 || got[0] != "edge-9" || !s.in.Status.InFlight[0].WasReady {
		t.Errorf("window %+v", s.in.Status.InFlight)
	}
}
