package podstatus

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

type report = v1alpha1.ExecutorPodStatusStatus

// serves is the report of a replica on which a generation serves.
func serves(generation int64, inputs string) *report {
	return &report{ObservedGeneration: generation, ServingGeneration: generation, Inputs: inputs, Succeeded: true}
}

// broke is the report of a replica on which a generation did not build; the one before goes on serving.
func broke(generation int64, reason, text string) *report {
	return &report{ObservedGeneration: generation, ServingGeneration: generation - 1, Inputs: "old", Reason: reason, Error: text, BriefError: text}
}

func kept(generation int64, inputs string) *report {
	s := serves(generation, inputs)
	s.Reason, s.Error, s.BriefError = v1alpha1.ReasonUnreadable, "Secret a/b cannot be read\nwhat was read last goes on serving", "Secret a/b cannot be read"
	return s
}

func on(pod string, says *report) replica {
	return replica{pod: pod, uid: types.UID("uid-" + pod), serving: true, report: says}
}

func resting(pod string, says *report) replica {
	r := on(pod, says)
	r.serving = false
	return r
}

// What a status says of the replicas together. The generation is 7; the leader trusts x.
func TestFold(t *testing.T) {
	for _, test := range []struct {
		name     string
		replicas []replica
		counts   string // expected reported ready failed notServing
		brief    string
		error    string
		reason   string // of a Ready that is False, or of trouble in spite of which it is True
		underWay string
		stalled  bool
		ready    bool
		byPod    string
	}{
		{name: "nobody serves", replicas: []replica{resting("a", serves(7, "x"))},
			counts: "0 0 0 0 1", brief: "no replica serves", error: "no replica of Gatehouse serves requests: none of its pods is Ready",
			reason: v1alpha1.ReasonNoReplica, underWay: v1alpha1.ReasonNoReplica},
		{name: "all serve it", replicas: []replica{on("b", serves(7, "x")), on("a", serves(7, "x"))},
			counts: "2 2 2 0 0", ready: true, byPod: "a+ b+"},
		{name: "one that serves has not reported", replicas: []replica{on("a", nil), on("b", serves(7, "x"))},
			counts: "2 1 1 0 0", brief: "1/2 replicas unhealthy", error: "a: has not reported",
			reason: v1alpha1.ReasonNotReported, underWay: v1alpha1.ReasonNotReported, byPod: "a- b+"},
		{name: "one reported the generation before", replicas: []replica{on("a", serves(6, "w")), on("b", serves(7, "x"))},
			counts: "2 2 1 0 0", brief: "1/2 replicas unhealthy", error: "a: has not reported generation 7; generation 6 serves there",
			reason: v1alpha1.ReasonNotReported, underWay: v1alpha1.ReasonNotReported, byPod: "a- b+"},
		{name: "one missed a rotation", replicas: []replica{on("a", serves(7, "x")), on("b", serves(7, "w")), on("c", serves(7, "x"))},
			counts: "3 3 2 0 0", brief: "1/3 replicas unhealthy", error: "b: trusts other keys or certificates: inputs w, not x",
			reason: v1alpha1.ReasonTrustDiffers, underWay: v1alpha1.ReasonTrustDiffers, byPod: "b- a+ c+"},
		{name: "all but the leader missed a rotation", replicas: []replica{on("a", serves(7, "w")), on("b", serves(7, "w")), on("leader", serves(7, "x"))},
			counts: "3 3 1 0 0", brief: "2/3 replicas unhealthy", error: "a: trusts other keys or certificates: inputs w, not x\nb: trusts other keys or certificates: inputs w, not x",
			reason: v1alpha1.ReasonTrustDiffers, underWay: v1alpha1.ReasonTrustDiffers, byPod: "a- b- leader+"},
		{name: "a spec that builds nowhere", replicas: []replica{on("a", broke(7, v1alpha1.ReasonInvalidSpec, "verifier k1: bad\ngeneration 6 goes on serving")), on("b", broke(7, v1alpha1.ReasonInvalidSpec, "verifier k1: bad"))},
			counts: "2 2 0 2 0", brief: "2/2 replicas unhealthy", error: "a: verifier k1: bad; generation 6 goes on serving\nb: verifier k1: bad",
			reason: v1alpha1.ReasonInvalidSpec, stalled: true, byPod: "a- b-"},
		{name: "a spec that builds nowhere, and one has not said so yet", replicas: []replica{on("a", broke(7, v1alpha1.ReasonInvalidSpec, "bad")), on("b", serves(6, "w"))},
			counts: "2 2 0 1 0", brief: "2/2 replicas unhealthy", error: "a: bad\nb: has not reported generation 7; generation 6 serves there",
			reason: v1alpha1.ReasonInvalidSpec, underWay: v1alpha1.ReasonNotReported, byPod: "a- b-"},
		{name: "a failure that is retried", replicas: []replica{on("a", broke(7, v1alpha1.ReasonUnreadable, "cannot be read")), on("b", serves(7, "x"))},
			counts: "2 2 1 1 0", brief: "1/2 replicas unhealthy", error: "a: cannot be read",
			reason: v1alpha1.ReasonUnreadable, underWay: v1alpha1.ReasonUnreadable, byPod: "a- b+"},
		{name: "trouble in spite of which all serve", replicas: []replica{on("a", serves(7, "x")), on("b", kept(7, "x"))},
			counts: "2 2 2 0 0", brief: "1/2 replicas cannot read again what they trust", error: "b: Secret a/b cannot be read; what was read last goes on serving",
			reason: v1alpha1.ReasonUnreadable, underWay: v1alpha1.ReasonUnreadable, ready: true, byPod: "b+ a+"},
		{name: "who does not serve changes nothing else", replicas: []replica{on("b", serves(7, "x")), resting("a", nil), resting("c", broke(7, v1alpha1.ReasonInvalidSpec, "bad"))},
			counts: "1 1 1 0 2", ready: true, byPod: "b+"},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := fold(7, "x", test.replicas)
			c := v.counts
			if got := fmt.Sprintf("%d %d %d %d %d", c.Expected, c.Reported, c.Ready, c.Failed, c.NotServing); got != test.counts {
				t.Errorf("counts %s, want %s", got, test.counts)
			}
			if want := fmt.Sprintf("%d/%d", c.Ready, c.Expected); c.Summary != want {
				t.Errorf("summary %q, want %q", c.Summary, want)
			}
			if v.brief != test.brief || v.error != test.error {
				t.Errorf("brief %q, error %q\nwant  %q, error %q", v.brief, v.error, test.brief, test.error)
			}
			if v.reason != test.reason || v.underWay != test.underWay || v.stalled != test.stalled || v.succeeded != test.ready {
				t.Errorf("reason %q, under way %q, stalled %t, ready %t", v.reason, v.underWay, v.stalled, v.succeeded)
			}
			var pods []string
			for _, p := range v.byPod {
				pods = append(pods, p.ID+map[bool]string{true: "+", false: "-"}[p.Succeeded])
			}
			if got := strings.Join(pods, " "); got != test.byPod {
				t.Errorf("by pod %q, want %q", got, test.byPod)
			}
		})
	}
}

// While the leader has not built the generation itself, replicas are compared with what most of them trust.
func TestFoldWithoutWhatTheLeaderTrusts(t *testing.T) {
	all := []replica{on("a", serves(7, "x")), on("b", serves(7, "y")), on("c", serves(7, "x"))}
	if v := fold(7, "", all); v.counts.Ready != 2 || v.byPod[0].ID != "b" {
		t.Errorf("%+v", v)
	}
	if v := fold(7, "", all[:1]); !v.succeeded {
		t.Errorf("%+v", v)
	}
}

func drawReplicas(t *rapid.T) []replica {
	text := rapid.OneOf(rapid.StringN(0, 300, 4096), rapid.Just(strings.Repeat("é<\"\n", 800)), rapid.Just("short"))
	drawn := rapid.Custom(func(t *rapid.T) *report {
		s := &report{
			ObservedGeneration: rapid.Int64Range(5, 8).Draw(t, "observed"),
			ServingGeneration:  rapid.Int64Range(0, 8).Draw(t, "serving"),
			Inputs:             rapid.SampledFrom([]string{"", "x", "y", strings.Repeat("f", 64)}).Draw(t, "inputs"),
			Succeeded:          rapid.Bool().Draw(t, "succeeded"),
			LastTransitionTime: &metav1.Time{Time: time.Unix(1_800_000_000, 0)},
		}
		if rapid.Bool().Draw(t, "trouble") {
			s.Reason = rapid.SampledFrom([]string{"", v1alpha1.ReasonInvalidSpec, v1alpha1.ReasonMaterialMissing, v1alpha1.ReasonUnreadable, v1alpha1.ReasonNotCompiled}).Draw(t, "reason")
			s.Error = text.Draw(t, "error")
			s.BriefError = strings.ToValidUTF8(s.Error[:min(len(s.Error), 256)], "")
		}
		return s
	})
	n := rapid.OneOf(rapid.IntRange(0, 12), rapid.IntRange(90, 130)).Draw(t, "replicas")
	all := make([]replica, n)
	for i := range all {
		all[i] = replica{
			pod: fmt.Sprintf("gatehouse-%d", i), uid: types.UID(fmt.Sprint(i)),
			serving: rapid.IntRange(0, 4).Draw(t, "serves") > 0,
		}
		if rapid.IntRange(0, 4).Draw(t, "reports") > 0 {
			all[i].report = drawn.Draw(t, "report")
		}
	}
	return all
}

// What holds of every status, whatever the replicas are and report.
func TestFoldProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		replicas := drawReplicas(t)
		trusted := rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "trusted")
		v := fold(7, trusted, slices.Clone(replicas))
		c := v.counts

		var serving []replica
		var reported, broken int32
		for _, r := range replicas {
			if !r.serving {
				continue
			}
			serving = append(serving, r)
			if r.report != nil {
				reported++
				if r.report.ObservedGeneration == 7 && !r.report.Succeeded {
					broken++
				}
			}
		}
		if int(c.Expected) != len(serving) || int(c.NotServing) != len(replicas)-len(serving) || c.Reported != reported || c.Failed != broken {
			t.Fatalf("counts %+v of %d replicas of which %d serve, %d have reported and %d failed", c, len(replicas), len(serving), reported, broken)
		}
		if c.Ready+c.Failed > c.Reported || c.Reported > c.Expected {
			t.Fatalf("counts %+v are not consistent", c)
		}
		if v.succeeded != (c.Expected > 0 && c.Ready == c.Expected) {
			t.Fatalf("succeeded %t with %+v", v.succeeded, c)
		}
		if v.succeeded { // then all serve this, and trust the same
			for _, r := range serving {
				if r.report == nil || r.report.ObservedGeneration != 7 || r.report.ServingGeneration != 7 || r.report.Inputs != serving[0].report.Inputs ||
					trusted != "" && r.report.Inputs != trusted {
					t.Fatalf("succeeded with %s: %+v", r.pod, r.report)
				}
			}
		} else if v.reason == "" || v.brief == "" || v.error == "" || v.stalled == (v.underWay != "") {
			t.Fatalf("not succeeded, with reason %q, brief %q, error %q, stalled %t, under way %q", v.reason, v.brief, v.error, v.stalled, v.underWay)
		}
		if v.stalled && v.succeeded {
			t.Fatal("stalled, and all is well")
		}
		if (v.underWay != "" || v.stalled) && v.message == "" {
			t.Fatal("a condition without a message")
		}

		if len(v.byPod) != min(len(serving), maxByPod) || len(v.error) > maxError || len(v.brief) > maxBrief {
			t.Fatalf("%d entries of %d, error of %d, brief of %d", len(v.byPod), len(serving), len(v.error), len(v.brief))
		}
		var well, bad int32
		for i, entry := range v.byPod {
			if entry.Succeeded {
				well++
				continue
			}
			if well > 0 {
				t.Fatalf("entry %d has trouble and comes after one that has none", i)
			}
			bad++
			if entry.BriefError == "" {
				t.Fatalf("entry %s has trouble and does not say which", entry.ID)
			}
		}
		if want := min(c.Expected-c.Ready, maxByPod); bad != want {
			t.Fatalf("%d entries with trouble, want %d", bad, want)
		}

		rand.Shuffle(len(replicas), func(i, j int) { replicas[i], replicas[j] = replicas[j], replicas[i] })
		if again := fold(7, trusted, replicas); !reflect.DeepEqual(v, again) {
			t.Fatalf("in another order:\n%+v\nand\n%+v", v, again)
		}
		alone := fold(7, trusted, serving)
		alone.counts.NotServing = c.NotServing
		if !reflect.DeepEqual(v, alone) {
			t.Fatalf("those who do not serve change more than their count:\n%+v\nand\n%+v", v, alone)
		}
	})
}

// Fifty replicas that all fail with texts as long as they may be make a status of at most 32 KiB, in which each is named.
func TestFoldFitsAStatus(t *testing.T) {
	for _, text := range []string{strings.Repeat("x", 4096), strings.Repeat("<é\"", 1024)} {
		var all []replica
		for i := range 50 {
			r := broke(7, v1alpha1.ReasonMaterialMissing, text)
			r.BriefError, r.Inputs, r.LastTransitionTime = text[:256], strings.Repeat("f", 64), &metav1.Time{Time: time.Unix(1_800_000_000, 0)}
			all = append(all, on(fmt.Sprintf("gatehouse-manager-7d9f8b6c5d-%05d", i), r))
			all[i].uid = "01234567-89ab-cdef-0123-456789abcdef"
		}
		v := fold(7, "x", all)
		status := v1alpha1.ExecutorStatus{ObservedGeneration: 7, Error: v.error, BriefError: v.brief, Replicas: v.counts, ByPod: v.byPod}
		for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionStalled, v1alpha1.ConditionSharedScope} {
			status.Conditions = append(status.Conditions, metav1.Condition{
				Type: kind, Status: metav1.ConditionFalse, ObservedGeneration: 7, Reason: v.reason, Message: v.message, LastTransitionTime: metav1.Now(),
			})
		}
		encoded, err := json.Marshal(status)
		if err != nil {
			t.Fatal(err)
		}
		if len(encoded) > 32<<10 {
			t.Errorf("a status of %d bytes", len(encoded))
		}
		if len(v.byPod) != 50 || len(v.byPod[49].BriefError) < 40 || v.byPod[49].ID == "" {
			t.Errorf("%d entries, the last %+v", len(v.byPod), v.byPod[len(v.byPod)-1])
		}
	}
}
