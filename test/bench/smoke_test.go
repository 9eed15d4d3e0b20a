package bench

import (
	"strings"
	"testing"

	"github.com/gatehouse-dev/gatehouse/test/benchreport"
)

// What only `make bench` runs would rot unseen. A small fleet and a few replicas show that all of it works; how long it
// takes is of no interest.
func TestBenchmarksMeasureWhatTheySay(t *testing.T) {
	var small benchreport.Report
	measureFleet(t, &small, 20, targets{mayRequests: 3})
	measureAdmission(t, &small, 20, 2, 0)
	measureReplicas(t, &small, 3, 4, 3)
	var table strings.Builder
	if err := small.Table(&table); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", &table)
	for _, one := range small.Results() {
		// The mean is that of a machine which lets reports come together; what may be on any other stands beside it.
		if !one.OK && one.Name != "Replicas/3x4 requests per edit" {
			t.Errorf("%s: %g %s, want %s", one.Name, one.Value, one.Unit, one.Target)
		}
	}
	for name, least := range map[string]float64{
		"Fleet/20 requests: patch gatewayinstances/status": 40,
		"Fleet/20 requests: patch deployments":             20,
		"Replicas/3x4 requests per edit":                   4,
		"Replicas/3x4 floor: requests per edit":            4,
	} {
		if got, _ := small.Value(name); got < least {
			t.Errorf("%s: %g, want %g at least", name, got, least)
		}
	}
}
