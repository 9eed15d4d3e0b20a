package app

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/spf13/pflag"
)

func TestProfilesAreServedOnlyToWhomAsksForThem(t *testing.T) {
	var config Config
	config.AddFlags(pflag.NewFlagSet("manager", pflag.ContinueOnError))
	if config.ProfileAddress != "0" {
		t.Errorf("profiles are served at %q unless told otherwise", config.ProfileAddress)
	}
	for name, handler := range map[string]http.Handler{"metrics": metricsHandler(&process{}), "probes": probes(&readiness{}), "profiles": profiles()} {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/debug/pprof/heap", nil))
		if served := answer.Code == http.StatusOK; served != (name == "profiles") {
			t.Errorf("the %s endpoint answers %d when asked for a profile", name, answer.Code)
		}
	}
}
