package registry

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/gatehouse-dev/gatehouse/internal/image"
)

// maxExcerpt bounds what is read of an answer that is no success, in bytes. A
// body that fits is read to its end, which lets the connection be used again.
const maxExcerpt = 4 << 10

// dockerHubTokens is the token service of Docker Hub. It is the one host, apart
// from the registry itself, to which the credentials of a registry are sent.
const dockerHubTokens = "auth.docker.io"

// guard is the last thing that a request of one attempt passes before it
// leaves the process. Whatever the layers above make of a redirect or of the
// realm of a challenge, here it is decided
//
//   - that plain HTTP goes to the registry of which it was said, and nowhere else,
//   - that no credential and no token goes to another host,
//   - that an answer of trouble ends the attempt, with the time that the
//     registry asks for.
//
// It is safe for concurrent use.
type guard struct {
	next   http.RoundTripper
	clock  clock.PassiveClock
	access Access
	host   string // of the registry, as image.ComparableHost writes it
	fail   func(kind Kind, text string) *Error

	challenged atomic.Bool // the registry asked for authentication
	withheld   atomic.Bool // a token service on another host got no credentials

	mu   sync.Mutex
	sent []string // values of Authorization headers, not to be repeated
}

// RoundTrip sends req, or refuses to.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	req, err := g.admit(req)
	if err != nil {
		if req != nil && req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	if authorization := req.Header.Get("Authorization"); authorization != "" {
		_, value, _ := strings.Cut(authorization, " ")
		g.remember(value)
	}
	resp, err := g.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	excerpt, err := io.ReadAll(io.LimitReader(resp.Body, maxExcerpt))
	resp.Body.Close()
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(excerpt))
	switch {
	case resp.StatusCode == http.StatusUnauthorized:
		g.challenged.Store(true)
	case resp.StatusCode == http.StatusTooManyRequests:
		return nil, g.trouble(TooManyRequests, resp, excerpt)
	case resp.StatusCode >= http.StatusInternalServerError:
		return nil, g.trouble(ServerError, resp, excerpt)
	}
	return resp, nil
}

// admit returns req as it may leave the process.
func (g *guard) admit(req *http.Request) (*http.Request, error) {
	plain := req.URL.Scheme != "https"
	own := plain == g.access.PlainHTTP && image.ComparableHost(req.URL.Host, plain) == g.host
	if own {
		return req, nil
	}
	if plain {
		return req, g.fail(Redirected, "sends elsewhere over plain HTTP")
	}
	host := image.ComparableHost(req.URL.Host, false)
	redirect := req.Response != nil
	if !redirect && !g.access.PlainHTTP && g.host == "docker.io" && host == dockerHubTokens {
		return req, nil
	}
	if req.Body != nil && req.Body != http.NoBody {
		// An identity token would travel in the body.
		g.withheld.Store(true)
		return req, errWithheld
	}
	had := req.Header.Get("Authorization") != ""
	req = req.Clone(req.Context())
	req.Header.Del("Authorization")
	if redirect {
		return req, nil
	}
	// A request that is no redirect and goes elsewhere is for a token. It gets
	// what was given for that very host, or goes out anonymously.
	if user, password := g.access.Credentials.forTokenService(host); password != "" {
		req.SetBasicAuth(user, password)
	} else if had {
		g.withheld.Store(true)
	}
	return req, nil
}

var errWithheld = errors.New("an identity token is not sent to a token service on another host")

// trouble is the error for an answer that says the registry cannot serve now.
func (g *guard) trouble(kind Kind, resp *http.Response, excerpt []byte) *Error {
	e := g.fail(kind, answered(resp.StatusCode))
	e.Detail = g.quote(string(excerpt))
	e.retryAfter = retryAfter(resp.Header.Get("Retry-After"), g.clock.Now())
	return e
}

// quote makes text fit for a log: without any secret, quoted and cut.
func (g *guard) quote(text string) string {
	g.mu.Lock()
	sent := slices.Clone(g.sent)
	g.mu.Unlock()
	for _, secret := range append(g.access.Credentials.secrets(), sent...) {
		text = strings.ReplaceAll(text, secret, "[redacted]")
	}
	return quoted(text)
}

// remember keeps a value that must not be repeated.
func (g *guard) remember(secret string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !slices.Contains(g.sent, secret) {
		g.sent = append(g.sent, secret)
	}
}

// maxRetryAfter caps how long a registry can ask to be left alone.
const maxRetryAfter = 5 * time.Minute

// retryAfter reads a Retry-After header: seconds or a date.
func retryAfter(header string, now time.Time) time.Duration {
	var wait time.Duration
	if seconds, err := strconv.Atoi(header); err == nil {
		wait = time.Duration(min(seconds, int(maxRetryAfter/time.Second))) * time.Second
	} else if date, err := http.ParseTime(header); err == nil {
		wait = date.Sub(now)
	}
	return max(0, min(wait, maxRetryAfter))
}
