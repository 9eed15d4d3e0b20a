package app

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// requestDeadline is how long the API server may take for an answer: half of what it allows itself.
const requestDeadline = 30 * time.Second

// errNoAnswer ends a request that has waited for too long. It counts as a timeout.
type errNoAnswer struct{ after time.Duration }

func (e errNoAnswer) Error() string {
	return fmt.Sprintf("the API server has not answered within %s", e.after)
}
func (errNoAnswer) Timeout() bool { return true }

// deadline gives every request an end, so that one that is never answered, as by a proxy that has lost it, holds no
// worker for ever. A watch goes on for as long as it likes once it has begun.
type deadline struct {
	next  http.RoundTripper
	limit time.Duration
}

func (d deadline) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(request.Context())
	timer := time.AfterFunc(d.limit, func() { cancel(errNoAnswer{d.limit}) })
	end := func() {
		timer.Stop()
		cancel(nil)
	}
	response, err := d.next.RoundTrip(request.WithContext(ctx))
	if err != nil {
		end()
		return nil, err
	}
	if isWatch(request) {
		timer.Stop()
	}
	response.Body = endingBody{response.Body, end}
	return response, nil
}

// WrappedRoundTripper is where client-go looks for what is behind.
func (d deadline) WrappedRoundTripper() http.RoundTripper { return d.next }

func isWatch(request *http.Request) bool {
	watch := request.URL.Query().Get("watch")
	return watch == "true" || watch == "1"
}

// endingBody ends its request's time when it is closed.
type endingBody struct {
	io.ReadCloser
	end func()
}

func (b endingBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}
