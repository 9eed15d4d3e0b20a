package app

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
)

func newTestWatches(t *testing.T) (*watches, *clocktesting.FakePassiveClock, *bytes.Buffer) {
	t.Helper()
	var logs bytes.Buffer
	log, err := (&Config{LogLevel: "info", LogFormat: "text"}).logger(&logs)
	if err != nil {
		t.Fatal(err)
	}
	c := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	return newWatches(c, log), c, &logs
}

// A kind that cannot be read is counted, logged once a minute, and after a minute makes the replica not ready; it is
// ready again when the failures end.
func TestAKindThatCannotBeReadShows(t *testing.T) {
	w, c, logs := newTestWatches(t)
	ready := readiness{watches: w}
	ready.synced.Store(true)
	answer := func() (int, string) {
		r := httptest.NewRecorder()
		ready.ServeHTTP(r, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		return r.Code, r.Body.String()
	}
	reader, begin := &version{at: "7"}, c.Now()
	for _, at := range []time.Duration{0, 20 * time.Second, 59 * time.Second} {
		c.SetTime(begin.Add(at))
		w.failed(reader, "GatewayInstance", errors.New("cannot unmarshal"))
		if code, body := answer(); code != http.StatusOK {
			t.Errorf("after %s: %d %s", at, code, body)
		}
	}
	c.SetTime(begin.Add(time.Minute))
	w.failed(reader, "GatewayInstance", errors.New("cannot unmarshal"))
	if code, body := answer(); code != http.StatusServiceUnavailable || !strings.Contains(body, "the cache of GatewayInstance is not current: cannot unmarshal") {
		t.Errorf("after a minute: %d %s", code, body)
	}
	if n := testutil.ToFloat64(w.total.WithLabelValues("GatewayInstance")); n != 4 {
		t.Errorf("%v failures counted, want 4", n)
	}
	if n := strings.Count(logs.String(), "cannot be read"); n != 2 {
		t.Errorf("%d lines, want one a minute:\n%s", n, logs)
	}
	reader.at = "8"
	if code, body := answer(); code != http.StatusOK {
		t.Errorf("once it is read again: %d %s", code, body)
	}
	w.failed(reader, "GatewayInstance", errors.New("cannot unmarshal"))
	if code, body := answer(); code != http.StatusServiceUnavailable {
		t.Errorf("listed, and failed again: %d %s", code, body)
	}
	w.failed(&version{}, "GatewayInstance", errors.New("it has just begun"))
	c.SetTime(begin.Add(time.Minute + recoveredAfter + time.Second))
	if code, body := answer(); code != http.StatusOK {
		t.Errorf("after it has ended: %d %s", code, body)
	}
}

// What failed for a manager that has ended is nothing of the next one's.
func TestAManagerIsNotHeldToWhatFailedBefore(t *testing.T) {
	w, c, _ := newTestWatches(t)
	reader := &version{}
	w.failed(reader, "Pod", errors.New("away"))
	c.SetTime(c.Now().Add(staleAfter))
	w.failed(reader, "Pod", errors.New("away"))
	if w.stale() == "" {
		t.Fatal("it is not stale")
	}
	if w.begin(); w.stale() != "" {
		t.Error(w.stale())
	}
}

// version is a reader that has got to one.
type version struct{ at string }

func (v *version) LastSyncResourceVersion() string { return v.at }

// A manager without its roles says what to apply, once for all kinds.
func TestMissingRightsAreToldWithTheirRemedy(t *testing.T) {
	w, _, logs := newTestWatches(t)
	for _, kind := range []string{"Pod", "Secret", "Service"} {
		w.failed(&version{}, kind, apierrors.NewForbidden(schema.GroupResource{Resource: kind}, "", errors.New("no")))
	}
	if n := strings.Count(logs.String(), "apply config/rbac"); n != 1 || strings.Count(logs.String(), "\n") != 1 {
		t.Errorf("want one line that names the remedy:\n%s", logs)
	}
}

func TestKindsThatAreNotInstalledAreToldWithTheirRemedy(t *testing.T) {
	missing := fmt.Errorf("index executor:references: %w", &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "gatehouse.dev", Kind: "Executor"}})
	if err := withRemedy(missing); !errors.Is(err, missing) || !strings.Contains(err.Error(), "apply config/crd") {
		t.Error(err)
	}
	if other := errors.New("another"); withRemedy(other) != other {
		t.Error(withRemedy(other))
	}
}
