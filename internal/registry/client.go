package registry

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/gatehouse-dev/gatehouse/internal/image"
)

// Options of a Client. A zero field means its default.
type Options struct {
	// Deadline of one attempt, all its requests together. Default 20s.
	Deadline time.Duration
	// ConnectTimeout of one connection, and of its TLS handshake. Default 5s.
	ConnectTimeout time.Duration
	// ResponseHeaderTimeout of one request. Default 10s.
	ResponseHeaderTimeout time.Duration
	// IdleTimeout is how long an unused connection is kept. Default 90s.
	IdleTimeout time.Duration
	// MaxManifest is the largest manifest that is read, in bytes. Default 4 MiB.
	MaxManifest int64
	// MaxRedirects of one request. Default 5.
	MaxRedirects int
	// UserAgent is how the client introduces itself. Default "gatehouse".
	UserAgent string
	// Reach says which addresses are dialled. Default public ones.
	Reach Reach
	// Resolver looks names up. Default that of the system.
	Resolver *net.Resolver
	// Dial makes connections, in place of the network and the proxies that the
	// environment names. What it connects to is held to Reach.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Clock dates the answers. Default the real one.
	Clock clock.PassiveClock
	// Registerer gets the client's metrics; nil registers none.
	Registerer prometheus.Registerer
}

func (o Options) withDefaults() Options {
	setDefault(&o.Deadline, 20*time.Second)
	setDefault(&o.ConnectTimeout, 5*time.Second)
	setDefault(&o.ResponseHeaderTimeout, 10*time.Second)
	setDefault(&o.IdleTimeout, 90*time.Second)
	setDefault(&o.MaxManifest, 4<<20)
	setDefault(&o.MaxRedirects, 5)
	setDefault(&o.UserAgent, "gatehouse")
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// maxVerified bounds how many manifests are remembered as verified.
const maxVerified = 4096

// Client resolves references, one attempt a call. It is safe for concurrent
// use.
type Client struct {
	options    Options
	transports *transports
	verified   *lru.Cache // of verifiedManifest
	attempts   *prometheus.CounterVec
}

// verifiedManifest is one that came with the right digest: as long as it is
// remembered it need not be fetched again to know that it is there.
type verifiedManifest struct {
	repository string
	access     accessKey
	digest     image.Digest
}

// New makes a Client.
func New(options Options) *Client {
	options = options.withDefaults()
	return &Client{
		options:    options,
		transports: newTransports(options),
		verified:   lru.New(maxVerified),
		attempts:   newAttempts(options.Registerer),
	}
}

// Close drops the connections that are not in use.
func (c *Client) Close() { c.transports.closeIdle() }

// Resolve makes one attempt to find the digest of what ref names, an image or
// an index of images. Where ref states a digest, that is the answer once the
// registry has shown that it holds it. An error is always an *Error.
func (c *Client) Resolve(ctx context.Context, ref image.Reference, access Access) (image.Digest, error) {
	digest, err := c.resolve(ctx, ref, access)
	if err != nil {
		c.attempts.WithLabelValues(string(err.Kind)).Inc()
		return image.Digest{}, err
	}
	c.attempts.WithLabelValues(outcomeResolved).Inc()
	return digest, nil
}

func (c *Client) resolve(ctx context.Context, ref image.Reference, access Access) (image.Digest, *Error) {
	if ref.IsZero() {
		return image.Digest{}, &Error{Kind: NoImage, terminal: true, text: "no image reference is given"}
	}
	if err := access.check(ref); err != nil {
		return image.Digest{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.options.Deadline)
	defer cancel()
	a := c.newAttempt(ref, access)
	wanted := ref.Digest()
	if wanted.IsZero() {
		head, err := a.ask(ctx, http.MethodHead, ref.Tag())
		if err != nil {
			return image.Digest{}, err
		}
		if head.digest.IsZero() {
			// A registry need not say the digest: then the content tells it.
			got, err := a.ask(ctx, http.MethodGet, ref.Tag())
			if err != nil {
				return image.Digest{}, err
			}
			return a.verify(got, image.DigestOf(got.body))
		}
		wanted = head.digest
		if c.isVerified(a, wanted) {
			return wanted, nil
		}
		a.size = head.size
	}
	method := http.MethodGet
	if c.isVerified(a, wanted) {
		method = http.MethodHead
	}
	got, err := a.ask(ctx, method, wanted.String())
	if err != nil && err.Kind == NotFound && ref.Digest().IsZero() {
		return image.Digest{}, a.fail(Mismatch, "repository "+ref.Path()+": it states a digest for tag "+ref.Tag()+" that it does not hold")
	}
	if err != nil {
		return image.Digest{}, err
	}
	if method == http.MethodHead {
		return wanted, nil
	}
	digest, err := a.verify(got, wanted)
	if err == nil {
		c.verified.Add(verifiedManifest{a.ref.Repository(), a.accessKey, digest}, nil)
	}
	return digest, err
}

func (c *Client) isVerified(a *attempt, digest image.Digest) bool {
	_, ok := c.verified.Get(verifiedManifest{a.ref.Repository(), a.accessKey, digest})
	return ok
}

// attempt is one resolving of one reference.
type attempt struct {
	options   Options
	ref       image.Reference
	access    Access
	accessKey accessKey
	base      string // URL of the repository, with a slash
	guard     *guard
	client    *auth.Client
	scope     context.Context // holds what a token is asked for, and nothing else
	size      int64           // what a first answer said of the manifest's size; not positive if it did not
}

func (c *Client) newAttempt(ref image.Reference, access Access) *attempt {
	a := &attempt{options: c.options, ref: ref, access: access, accessKey: access.key()}
	scheme := "https"
	if access.PlainHTTP {
		scheme = "http"
	}
	host := a.orasReference().Host()
	a.scope = auth.AppendRepositoryScope(context.Background(), a.orasReference(), auth.ActionPull)
	a.base = scheme + "://" + host + "/v2/" + ref.Path() + "/"
	comparable := image.ComparableHost(ref.Registry(), access.PlainHTTP)
	a.guard = &guard{
		next:   c.transports.forBundle(access.CABundle),
		clock:  c.options.Clock,
		access: access,
		host:   comparable,
		fail:   a.fail,
	}
	a.client = &auth.Client{
		Client: &http.Client{
			Transport: a.guard,
			CheckRedirect: func(_ *http.Request, via []*http.Request) error {
				if len(via) > c.options.MaxRedirects {
					return a.fail(Redirected, "redirects too often")
				}
				return nil
			},
		},
		Header:   http.Header{"User-Agent": {c.options.UserAgent}},
		ClientID: c.options.UserAgent,
		// The dialer decides where a realm may lead, by the address that is dialled.
		BlockedRealmPrefixes: []netip.Prefix{},
		Cache:                auth.NewCache(), // of this attempt alone: a rotated credential applies at once
		Credential: func(_ context.Context, asking string) (auth.Credential, error) {
			if asking != host {
				return auth.EmptyCredential, nil
			}
			return access.Credentials.forRepository(comparable, ref.Path()), nil
		},
	}
	return a
}

// orasReference names the repository for the layers below.
func (a *attempt) orasReference() registry.Reference {
	return registry.Reference{Registry: a.ref.Registry(), Repository: a.ref.Path()}
}

// scoped is ctx, with what a token is asked for where one is needed.
func (a *attempt) scoped(ctx context.Context) context.Context { return scopedContext{ctx, a.scope} }

// scopedContext is one context with the values of another, which are the same for
// all requests of an attempt.
type scopedContext struct {
	context.Context
	scope context.Context
}

// Value is that of the scope, or else of the context.
func (c scopedContext) Value(key any) any {
	if value := c.scope.Value(key); value != nil {
		return value
	}
	return c.Context.Value(key)
}

// answer is what a registry said of a manifest.
type answer struct {
	mediaType string
	digest    image.Digest // as the registry states it; zero if it does not
	size      int64        // likewise; negative if it does not
	body      []byte       // of a GET
	header    http.Header  // of a session's GET
}

// ask sends one question about a manifest, by tag or digest, and reads the
// answer within the bounds.
func (a *attempt) ask(ctx context.Context, method, which string) (answer, *Error) {
	req, err := http.NewRequestWithContext(a.scoped(ctx), method, a.base+"manifests/"+which, nil)
	if err != nil {
		return answer{}, a.classify(ctx, err)
	}
	req.Header.Set("Accept", acceptManifests)
	resp, err := a.client.Do(req)
	if err != nil {
		return answer{}, a.classify(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return answer{}, a.refused(resp, which)
	}
	got := answer{mediaType: resp.Header.Get("Content-Type"), size: resp.ContentLength}
	if stated := resp.Header.Get("Docker-Content-Digest"); stated != "" {
		if got.digest, err = image.ParseDigest(stated); err != nil {
			e := a.fail(Mismatch, "states a digest that is none")
			e.Detail = a.guard.quote(stated)
			return answer{}, e
		}
	}
	if method == http.MethodHead {
		return got, nil
	}
	tooLarge := got.size > a.options.MaxManifest
	if !tooLarge {
		if got.body, err = io.ReadAll(io.LimitReader(resp.Body, a.options.MaxManifest+1)); err != nil {
			return answer{}, a.classify(ctx, err)
		}
		tooLarge = int64(len(got.body)) > a.options.MaxManifest
	}
	if tooLarge {
		return answer{}, a.fail(BadAnswer, "sends a manifest that is too large")
	}
	return got, nil
}

// verify believes a manifest when it is what was said: by its bytes, by the
// header it came with, by the size stated before, and by its content.
func (a *attempt) verify(got answer, wanted image.Digest) (image.Digest, *Error) {
	if !wanted.Matches(got.body) || (!got.digest.IsZero() && !got.digest.Matches(got.body)) {
		return image.Digest{}, a.fail(Mismatch, "sent a manifest that does not match its digest")
	}
	if a.size > 0 && a.size != int64(len(got.body)) {
		return image.Digest{}, a.fail(Mismatch, "sent a manifest that has not the size it stated")
	}
	if fault := manifestFault(got.mediaType, got.body); fault != "" {
		e := a.fail(NoImage, a.which(a.wantedText())+" is not an image: "+fault)
		e.Detail = a.guard.quote(got.mediaType)
		e.terminal = !a.ref.Digest().IsZero() // what a digest names never changes
		return image.Digest{}, e
	}
	return wanted, nil
}

func (a *attempt) wantedText() string {
	if d := a.ref.Digest(); !d.IsZero() {
		return d.String()
	}
	return a.ref.Tag()
}

// which names what was asked for, in the words of a summary.
func (a *attempt) which(tagOrDigest string) string {
	noun := "tag "
	if tagOrDigest != a.ref.Tag() {
		noun = "digest "
	}
	return "repository " + a.ref.Path() + ": " + noun + tagOrDigest
}

// fail makes an error that names the registry.
func (a *attempt) fail(kind Kind, text string) *Error {
	return &Error{Kind: kind, text: "registry " + a.ref.Registry() + ": " + text}
}

// refused explains an answer that is neither a success nor trouble.
func (a *attempt) refused(resp *http.Response, which string) *Error {
	var e *Error
	switch resp.StatusCode {
	case http.StatusNotFound:
		e = a.fail(NotFound, a.which(which)+" not found")
	case http.StatusUnauthorized, http.StatusForbidden:
		e = a.unauthorized()
	default:
		e = a.fail(BadAnswer, answered(resp.StatusCode))
	}
	if excerpt, err := io.ReadAll(io.LimitReader(resp.Body, maxExcerpt)); err == nil && len(excerpt) > 0 {
		e.Detail = a.guard.quote(string(excerpt))
	}
	return e
}

// unauthorized says what to do about it.
func (a *attempt) unauthorized() *Error {
	text := "repository " + a.ref.Path() + ": unauthorized; "
	credential := a.access.Credentials.forRepository(a.guard.host, a.ref.Path())
	switch {
	case a.guard.withheld.Load():
		text += "its token service is on another host, to which the credentials are not sent; give an entry for that host beside them"
	case credential != auth.EmptyCredential:
		text += "the credentials are wrong or do not allow to pull"
	case a.access.Credentials != nil:
		text += "the credentials have no entry for this repository"
	case a.access.PlainHTTP:
		text += "it asks for credentials, which are sent over TLS alone"
	default:
		text += "it does not exist or needs credentials"
	}
	return a.fail(Unauthorized, text)
}

// asError returns the *Error in err, if there is one.
func asError(err error) (*Error, bool) {
	var e *Error
	ok := errors.As(err, &e)
	return e, ok
}
