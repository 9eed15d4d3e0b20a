package kwokstage

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
)

var digest = "sha256:" + strings.Repeat("0123456789abcdef", 4)

func TestNothingButADigestGetsIntoAStage(t *testing.T) {
	for _, bad := range []string{
		"", "latest", "sha256:abc", digest + "0", strings.ToUpper(digest),
		`sha256:") | error`, digest + "\n", "sha512:" + strings.Repeat("0", 128),
	} {
		if _, err := Stages(bad, NeverReady); err == nil || !strings.Contains(err.Error(), "64 hexadecimal digits") {
			t.Errorf("%q: %v, want an error that says what a digest is", bad, err)
		}
		if err := Heal(t.Context(), nil, bad); err == nil {
			t.Errorf("healing %q: no error", bad)
		}
	}
}

func TestABehaviourThatIsNoneIsRefused(t *testing.T) {
	if _, err := Stages(digest, Behaviour{}); err == nil {
		t.Error("the zero Behaviour made stages")
	}
}

func TestStagesOfADigestCanBeFoundAgainAndDoNotMeetThoseOfOthers(t *testing.T) {
	other := "sha256:" + strings.Repeat("f", 64)
	names := map[string]string{}
	for _, d := range []string{digest, other} {
		for _, b := range []Behaviour{NeverReady, CrashLoop, Flap, ReadyAfter(time.Second)} {
			stages, err := Stages(d, b)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range stages {
				if previous, taken := names[s.GetName()]; taken {
					t.Errorf("%s of %s has the name of one of %s", s.GetName(), b, previous)
				}
				names[s.GetName()] = b.String()
				if errs := validation.IsDNS1123Subdomain(s.GetName()); len(errs) > 0 {
					t.Errorf("name %q: %v", s.GetName(), errs)
				}
				value := s.GetLabels()[digestLabel]
				if errs := validation.IsValidLabelValue(value); len(errs) > 0 || value != labelValue(d) {
					t.Errorf("label of %s: %q (%v), want %q", s.GetName(), value, errs, labelValue(d))
				}
				if weight, _, _ := unstructured.NestedInt64(s.Object, "spec", "weight"); weight <= 0 {
					t.Errorf("%s weighs %d and would lose to kwok's own stages", s.GetName(), weight)
				}
			}
		}
	}
}

func TestABehaviourSaysItsNameAndPace(t *testing.T) {
	for want, b := range map[string]Behaviour{
		"NeverReady": NeverReady, "CrashLoop(500ms)": CrashLoop, "Flap(1s)": Flap, "ReadyAfter(3s)": ReadyAfter(3 * time.Second),
	} {
		if got := b.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
