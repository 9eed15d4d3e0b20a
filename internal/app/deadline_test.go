package app

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// Fails when a request that is never answered is waited for for ever, or when a watch is cut while it goes on.
func TestARequestThatIsNotAnsweredEnds(t *testing.T) {
	const limit = 200 * time.Millisecond
	hang := func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	begin := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		select {
		case <-time.After(3 * limit):
			_, _ = io.WriteString(w, "an event")
		case <-r.Context().Done():
		}
	}
	for _, test := range []struct {
		name, query string
		serve       http.HandlerFunc
		ends        bool
	}{
		{"a request without an answer", "", hang, true},
		{"a watch without an answer", "?watch=true", hang, true},
		{"an answer that stops in the middle", "", begin, true},
		{"a watch that waits for events", "?watch=true", begin, false},
		{"a watch that waits for events, as some write it", "?watch=1", begin, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(test.serve)
			t.Cleanup(server.Close)
			client := http.Client{Transport: deadline{&http.Transport{}, limit}}
			response, err := client.Get(server.URL + test.query)
			var text []byte
			if err == nil {
				text, err = io.ReadAll(response.Body)
				_ = response.Body.Close()
			}
			switch {
			case test.ends && err == nil:
				t.Errorf("answered: %q", text)
			case test.ends:
				var timeout interface{ Timeout() bool }
				if !errors.As(err, &timeout) || !timeout.Timeout() {
					t.Errorf("it does not count as a timeout: %v", err)
				}
			case err != nil || string(text) != "an event":
				t.Errorf("got %q, %v", text, err)
			}
		})
	}
}
