package gateway

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// A release's write wakes only those whose part of it has changed.
func TestAReleasesWriteWakesThoseWhosePartChanged(t *testing.T) {
	entry := func(name string, attempt int64) v1alpha1.InFlightGateway {
		return v1alpha1.InFlightGateway{UID: types.UID(name), Name: name, Attempt: attempt}
	}
	costly := func(e v1alpha1.InFlightGateway) v1alpha1.InFlightGateway {
		e.WasReady = true
		return e
	}
	window := func(target string, entries ...v1alpha1.InFlightGateway) *v1alpha1.RolloutStatus {
		return &v1alpha1.RolloutStatus{Target: target, InFlight: entries}
	}
	without := func(s *v1alpha1.RolloutStatus, revisions ...string) *v1alpha1.RolloutStatus {
		s.Withheld = revisions
		return s
	}
	for name, tc := range map[string]struct {
		before, now *v1alpha1.RolloutStatus
		want        []string
	}{
		"a target that is withheld":      {window("a", entry("x", 1)), without(window("a", entry("x", 1)), "a"), nil},
		"a target that is given again":   {without(window("a", entry("x", 1)), "a", "b"), without(window("a", entry("x", 1)), "b"), []string{"x"}},
		"the first entries":              {nil, window("a", entry("x", 1)), []string{"x"}},
		"one more":                       {window("a", entry("x", 1)), window("a", entry("x", 1), entry("y", 1)), []string{"y"}},
		"one left":                       {window("a", entry("x", 1), entry("y", 1)), window("a", entry("y", 1)), nil},
		"another attempt":                {window("a", entry("x", 1), entry("y", 1)), window("a", entry("x", 2), entry("y", 1)), []string{"x"}},
		"another target, other attempts": {window("a", entry("x", 1)), window("b", entry("x", 2)), []string{"x"}},
		"as one that uses the budget":    {window("a", entry("x", 1), entry("y", 1)), window("a", costly(entry("x", 1)), entry("y", 1)), []string{"x"}},
		"only counts":                    {window("a", entry("x", 1)), window("a", entry("x", 1)), nil},
		"nothing any more":               {window("a", entry("x", 1)), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, e := range admittedAnew(tc.before, tc.now) {
				got = append(got, e.Name)
			}
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("woke %v, want %v", got, tc.want)
			}
		})
	}
}

func TestGatewaysThatRunNothingAreWokenWhenThereIsSomethingElseToInstall(t *testing.T) {
	for name, tc := range map[string]struct {
		before, now *v1alpha1.RolloutStatus
		want        bool
	}{
		"the first rollout":     {nil, &v1alpha1.RolloutStatus{Target: "a"}, true},
		"the first to complete": {&v1alpha1.RolloutStatus{Target: "a"}, &v1alpha1.RolloutStatus{Target: "a", Stable: "a"}, true},
		"another to complete":   {&v1alpha1.RolloutStatus{Target: "b", Stable: "a"}, &v1alpha1.RolloutStatus{Target: "b", Stable: "b"}, true},
		"what was withheld":     {&v1alpha1.RolloutStatus{Target: "b", Stable: "a", Withheld: []string{"a"}}, &v1alpha1.RolloutStatus{Target: "b", Stable: "a"}, true},
		"what is withheld":      {&v1alpha1.RolloutStatus{Target: "b", Stable: "a"}, &v1alpha1.RolloutStatus{Target: "b", Stable: "a", Withheld: []string{"a"}}, true},
		"only counts":           {&v1alpha1.RolloutStatus{Target: "b", Stable: "a"}, &v1alpha1.RolloutStatus{Target: "b", Stable: "a", Fleet: v1alpha1.FleetStatus{Total: 1}}, false},
		"another target":        {&v1alpha1.RolloutStatus{Target: "b", Stable: "a"}, &v1alpha1.RolloutStatus{Target: "c", Stable: "a"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := installable(tc.before, tc.now); got != tc.want {
				t.Errorf("%v", got)
			}
		})
	}
}
