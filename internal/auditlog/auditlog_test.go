package auditlog

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// A request was on its way when the mark was made: its event comes after the mark, and is not of what was sent since.
func TestWhatWasOnItsWayIsNotCounted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	arrived := func(at time.Time, userAgent string) {
		if _, err := fmt.Fprintf(file, "{\"requestReceivedTimestamp\":%q,\"userAgent\":%q}\n", at.UTC().Format("2006-01-02T15:04:05.000000Z"), userAgent); err != nil {
			t.Error(err)
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived(time.Now(), r.UserAgent())
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}`)
	}))
	defer server.Close()
	log := Log{File: path, Config: &rest.Config{Host: server.URL}}

	arrived(time.Now(), "before")
	sent := time.Now()
	mark, err := log.End(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	arrived(sent, "on its way")
	arrived(time.Now(), "since")
	events, next, err := log.Read(t.Context(), mark)
	if err != nil {
		t.Fatal(err)
	}
	if len(events) != 1 || events[0].UserAgent != "since" {
		t.Errorf("read %v", events)
	}
	if events, _, err := log.Read(t.Context(), next); err != nil || len(events) > 0 {
		t.Errorf("read again %v %v", events, err)
	}
	if events, _, err := log.Read(t.Context(), 0); err != nil || len(events) != 3 {
		t.Errorf("read from the beginning %v %v", events, err)
	}
}
