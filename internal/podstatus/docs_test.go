package podstatus

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// The page shows the status that three replicas with two troubles make, and says what each field of it is.
func TestTheExampleOfTheReplicasPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/replicas.md")
	if err != nil {
		t.Fatal(err)
	}
	since := func(hour, minute int) *metav1.Time {
		return &metav1.Time{Time: time.Date(2026, 11, 30, hour, minute, 0, 0, time.UTC)}
	}
	missing := broke(2, v1alpha1.ReasonMaterialMissing, "verifier builders: key k1: Secret gatehouse-system/keys not found; create it, or correct spec.verifiers")
	missing.Inputs, missing.LastTransitionTime = "41d2c0b9a7e3", since(11, 56)
	missed, well := serves(2, "9f31c2aa04d7"), serves(2, "c07be1f5528a")
	missed.LastTransitionTime, well.LastTransitionTime = since(9, 0), since(11, 56)
	replicas := []replica{
		on("gatehouse-7d9f-2xkqp", missing), on("gatehouse-7d9f-8m4tz", missed), on("gatehouse-7d9f-c5wjn", well), resting("gatehouse-7d9f-zr6vd", nil),
	}
	for n := range replicas {
		replicas[n].uid = "…"
	}
	v := fold(2, well.Inputs, replicas)
	text, err := yaml.Marshal(map[string]any{"status": map[string]any{
		"briefError": v.brief, "error": v.error, "replicas": v.counts, "byPod": v.byPod, "succeeded": v.succeeded,
	}})
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	if example, _, _ := strings.Cut(rest, "```\n"); example != string(text) {
		t.Errorf("the page shows\n%s\nand a status is\n%s", example, text)
	}
	for _, of := range []any{v1alpha1.ReplicaCounts{}, v1alpha1.ReplicaStatus{}} {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(of)) {
			if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); !strings.Contains(string(page), "`"+name+"`") {
				t.Errorf("docs/replicas.md does not explain %s of %T", name, of)
			}
		}
	}
}
