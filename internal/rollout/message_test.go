package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

func TestAMessageNamesAFewAndCountsAll(t *testing.T) {
	s := completed(t, 9)
	s.in.Spec.MaxUnavailable.IntVal = 9
	s.in.Accepted = "v2"
	s.plan()
	s.take("edge-0", "edge-1", "edge-2", "edge-3", "edge-4", "edge-5", "edge-6")
	s.plan()
	want := "0 of 9 admitted gateways converged; waiting for " +
		"tenant-a/edge-7: not heard of since it was admitted at 2026-05-01T10:00:00Z, " +
		"tenant-a/edge-8: not heard of since it was admitted at 2026-05-01T10:00:00Z, " +
		"tenant-a/edge-0: 0/1 ready since 2026-05-01T10:00:00Z (ReplicasUnavailable) and 6 more"
	if got := s.in.Status.Message; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}

	s.later(2 * time.Minute)
	s.plan()
	want = "attempt 2 failed: 7 of 9 gateways did not come back (maxFailures 1): " +
		"tenant-a/edge-0: 0/1 ready since 2026-05-01T10:00:00Z (ReplicasUnavailable), " +
		"tenant-a/edge-1: 0/1 ready since 2026-05-01T10:00:00Z (ReplicasUnavailable), " +
		"tenant-a/edge-2: 0/1 ready since 2026-05-01T10:00:00Z (ReplicasUnavailable) and 4 more; waiting for " +
		"tenant-a/edge-7: not heard of since it was admitted at 2026-05-01T10:00:00Z, " +
		"tenant-a/edge-8: not heard of since it was admitted at 2026-05-01T10:00:00Z"
	if got := s.in.Status.Message; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAMessageDoesNotAge(t *testing.T) {
	s := completed(t, 3)
	s.in.Accepted = "v2"
	s.plan()
	s.take()
	s.plan()
	s.later(30 * time.Second)
	s.isStill()
}

func TestAMessageIsBounded(t *testing.T) {
	s := completed(t, 9)
	for i := range s.in.Fleet {
		m := &s.in.Fleet[i]
		m.Namespace, m.Name = strings.Repeat("n", 63), fmt.Sprintf("%s-%d", strings.Repeat("g", 61), i)
		m.Reason = strings.Repeat("R", 1024)
	}
	s.in.Spec.MaxUnavailable.IntVal = 9
	s.in.Accepted = "v2"
	s.plan()
	s.take()
	s.later(2 * time.Minute)
	s.plan()
	if n := len(s.in.Status.Message); n > 1024 || !strings.HasSuffix(s.in.Status.Message, "…") {
		t.Errorf("%d bytes: %s", n, s.in.Status.Message)
	}
}

func TestCutKeepsRunesWhole(t *testing.T) {
	text := strings.Repeat("ü", 20)
	for limit := 3; limit <= 41; limit++ {
		got := cut(text, limit)
		if len(got) > limit || !utf8.ValidString(got) {
			t.Errorf("cut to %d: %q", limit, got)
		}
	}
	if got := cut(text, 40); got != text {
		t.Errorf("cut what fits: %q", got)
	}
}

// Old pods serve until the new ones do: "1/1 ready" alone would not say why the gateway has not come back.
func TestAGatewayThatIsStuckOnItsOldPodsSaysSo(t *testing.T) {
	since := time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
	for want, m := range map[string]Member{
		"1/1 ready with its old pods, new ones not available since 2026-05-01T10:00:00Z (Progressing)": {Reason: v1alpha1.ReasonProgressing, ReadyReplicas: 1, DesiredReplicas: 1, Since: since},
		"0/1 ready since 2026-05-01T10:00:00Z (Progressing)":                                           {Reason: v1alpha1.ReasonProgressing, DesiredReplicas: 1, Since: since},
		"1/1 ready since 2026-05-01T10:00:00Z (ForeignObject)":                                         {Reason: v1alpha1.ReasonForeignObject, ReadyReplicas: 1, DesiredReplicas: 1, Since: since},
	} {
		if got := condition(&m); got != want {
			t.Errorf("says %q, want %q", got, want)
		}
	}
}
