package rollout

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

func TestThePageExplainsEveryFieldAndState(t *testing.T) {
	page, err := os.ReadFile("../../docs/rollouts.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []any{v1alpha1.RolloutSpec{}, v1alpha1.RolloutStatus{}, v1alpha1.FleetStatus{}, v1alpha1.InFlightGateway{}} {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(of)) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if !strings.Contains(string(page), name+"`") && !strings.Contains(string(page), name+":") {
				t.Errorf("docs/rollouts.md does not explain %s of %T", name, of)
			}
		}
	}
	for _, state := range []v1alpha1.RolloutState{
		v1alpha1.RolloutProgressing, v1alpha1.RolloutPaused, v1alpha1.RolloutFailed, v1alpha1.RolloutComplete,
	} {
		if !strings.Contains(string(page), "| `"+string(state)+"` |") {
			t.Errorf("docs/rollouts.md does not explain the state %s", state)
		}
	}
}
