package app

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/gatehouse-dev/gatehouse/internal/executor"
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

// A replica is not ready before every Executor that there was at its start has been attempted, and says which it awaits.
func TestAReplicaIsReadyOnceItsExecutorsAreAttempted(t *testing.T) {
	watches, _, _ := newTestWatches(t)
	ready := readiness{watches: watches}
	ready.synced.Store(true)
	live := executor.NewLive(clock.RealClock{})
	ready.live.Store(live)
	name := types.NamespacedName{Name: "production"}
	for _, step := range []struct {
		do   func()
		code int
		body string
	}{
		{func() {}, http.StatusServiceUnavailable, "Executors: not listed yet\n"},
		{func() { live.Expect([]types.NamespacedName{name}) }, http.StatusServiceUnavailable, "Executors: not compiled yet: Executor production\n"},
		{func() { live.Put(&executor.Served{Name: name, Problem: "it does not compile"}) }, http.StatusOK, "ok\n"},
	} {
		step.do()
		answer := httptest.NewRecorder()
		ready.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		if answer.Code != step.code || answer.Body.String() != step.body {
			t.Errorf("%d %q, want %d %q", answer.Code, answer.Body, step.code, step.body)
		}
	}
}
