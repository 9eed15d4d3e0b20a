package registry

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-dev/gatehouse/internal/image"
)

// Fault is a way to misbehave: it answers in place of next, or spoils what
// next answers.
type Fault func(w http.ResponseWriter, req *http.Request, next http.Handler)

type scopedFault struct {
	fault Fault
	path  string // a part of the path; empty is every path
}

// Break makes every request misbehave until Heal. It replaces other faults.
func (r *Registry) Break(fault Fault) { r.BreakPath("", fault) }

// BreakPath is Break for the requests with part in their path.
func (r *Registry) BreakPath(part string, fault Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = []scopedFault{{fault, part}}
}

// Heal ends all faults, for the requests to come.
func (r *Registry) Heal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = nil
}

func (r *Registry) faulty(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		faults := r.faults
		r.mu.Unlock()
		for _, f := range faults {
			if strings.Contains(req.URL.Path, f.path) {
				f.fault(w, req, next)
				return
			}
		}
		next.ServeHTTP(w, req)
	})
}

// Together misbehaves in each of these ways, the last one first.
func Together(faults ...Fault) Fault {
	return func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		for _, fault := range faults[1:] {
			inner := next
			next = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { fault(w, req, inner) })
		}
		faults[0](w, req, next)
	}
}

// ForMethod misbehaves in answer to requests of one method.
func ForMethod(method string, fault Fault) Fault {
	return func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if req.Method != method {
			next.ServeHTTP(w, req)
			return
		}
		fault(w, req, next)
	}
}

// Answer answers with a status alone.
func Answer(status int) Fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.WriteHeader(status)
		fmt.Fprintf(w, "the peer says %d", status)
	}
}

// AnswerRetryAfter answers with a status, and when to come back: seconds or a
// date.
func AnswerRetryAfter(status int, retryAfter string) Fault {
	return func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		w.Header().Set("Retry-After", retryAfter)
		Answer(status)(w, req, next)
	}
}

// AnswerText answers with a status and a text of the peer's own.
func AnswerText(status int, text string) Fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.WriteHeader(status)
		fmt.Fprint(w, text)
	}
}

// Hang takes the request and never answers.
func Hang() Fault {
	return func(_ http.ResponseWriter, req *http.Request, _ http.Handler) {
		<-req.Context().Done()
		panic(http.ErrAbortHandler) // to return would be to answer
	}
}

// Drip answers rightly, a byte an interval.
func Drip(interval time.Duration) Fault {
	return func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		answer := record(req, next)
		replay(w, answer)
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for _, b := range answer.Body.Bytes() {
			if _, err := w.Write([]byte{b}); err != nil {
				return
			}
			if flusher, ok := w.(http.Flusher); ok {
				flusher.Flush()
			}
			select {
			case <-ticker.C:
			case <-req.Context().Done():
				return
			}
		}
	}
}

// Cut closes the connection in the middle of the body.
func Cut() Fault {
	return func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		answer := record(req, next)
		replay(w, answer)
		_, _ = w.Write(answer.Body.Bytes()[:answer.Body.Len()/2])
		if flusher, ok := w.(http.Flusher); ok {
			flusher.Flush()
		}
		panic(http.ErrAbortHandler)
	}
}

// LieAboutDigest states another digest than the content has.
func LieAboutDigest(digest image.Digest) Fault {
	return spoil(func(_ *http.Request, answer *httptest.ResponseRecorder) {
		answer.Header().Set("Docker-Content-Digest", digest.String())
	})
}

// HideDigest states no digest.
func HideDigest() Fault {
	return spoil(func(_ *http.Request, answer *httptest.ResponseRecorder) {
		answer.Header().Del("Docker-Content-Digest")
	})
}

// LieAboutSize states a size that is off by so many bytes.
func LieAboutSize(off int) Fault {
	return spoil(func(_ *http.Request, answer *httptest.ResponseRecorder) {
		size, _ := strconv.Atoi(answer.Header().Get("Content-Length"))
		answer.Header().Set("Content-Length", strconv.Itoa(size+off))
	})
}

// LieAboutType states another media type.
func LieAboutType(mediaType string) Fault {
	return spoil(func(_ *http.Request, answer *httptest.ResponseRecorder) {
		answer.Header().Set("Content-Type", mediaType)
	})
}

// Forge answers with other content under the headers of the right one.
func Forge(content string) Fault {
	return spoil(func(req *http.Request, answer *httptest.ResponseRecorder) {
		answer.Header().Set("Content-Length", strconv.Itoa(len(content)))
		if req.Method != http.MethodHead {
			answer.Body = bytes.NewBufferString(content)
		}
	})
}

// Giant answers with a body of so many bytes, without saying how many.
func Giant(size int) Fault {
	return func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		answer := record(req, next)
		answer.Header().Del("Content-Length")
		replay(w, answer)
		chunk := bytes.Repeat([]byte(" "), 64<<10)
		for sent := 0; sent < size; sent += len(chunk) {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}
}

// RedirectLoop redirects to itself.
func RedirectLoop() Fault {
	return func(w http.ResponseWriter, req *http.Request, _ http.Handler) {
		http.Redirect(w, req, req.URL.Path+"?again", http.StatusTemporaryRedirect)
	}
}

// RedirectTo redirects to the same path at another base URL.
func RedirectTo(base string) Fault {
	return func(w http.ResponseWriter, req *http.Request, _ http.Handler) {
		http.Redirect(w, req, base+req.URL.Path, http.StatusTemporaryRedirect)
	}
}

// spoil changes the right answer before it is sent.
func spoil(change func(*http.Request, *httptest.ResponseRecorder)) Fault {
	return func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		answer := record(req, next)
		change(req, answer)
		replay(w, answer)
		body := answer.Body.Bytes()
		if size, err := strconv.Atoi(answer.Header().Get("Content-Length")); err == nil && size < len(body) {
			body = body[:size] // of a longer one nothing would be sent at all
		}
		_, _ = w.Write(body)
	}
}

func record(req *http.Request, next http.Handler) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	next.ServeHTTP(answer, req)
	if answer.Header().Get("Content-Length") == "" && req.Method != http.MethodHead {
		answer.Header().Set("Content-Length", strconv.Itoa(answer.Body.Len()))
	}
	return answer
}

func replay(w http.ResponseWriter, answer *httptest.ResponseRecorder) {
	for key, values := range answer.Header() {
		w.Header()[key] = values
	}
	w.WriteHeader(answer.Code)
}

// AnswerHeaders answers 200 with headers and a body of the peer's own.
func AnswerHeaders(headers map[string]string, body string) Fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		for key, value := range headers {
			w.Header().Set(key, value)
		}
		fmt.Fprint(w, body)
	}
}
