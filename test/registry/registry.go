package registry

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/gatehouse-dev/gatehouse/internal/image"
)

// Registry is one running registry.
type Registry struct {
	// Host is the address as it stands in a reference: 127.0.0.1:port.
	Host string
	// CA is the PEM certificate of the authority that signed the certificate of
	// a registry with TLS.
	CA []byte

	content http.Handler // the real registry
	handler http.Handler // the same behind counting, faults and authentication
	auth    authentication
	tls     bool
	names   []string
	pushed  atomic.Int64
	native  bool          // the content serves what there is of a referrers API
	rtt     time.Duration // is waited before each answer

	mu          sync.Mutex
	server      *httptest.Server // nil while down
	cancel      func()           // ends the requests of server that hang
	faults      []scopedFault
	requests    []Request
	connections int
	referrers   referrers
}

// Request is one that a registry got.
type Request struct {
	Method, Host, Path, Query, Authorization string
}

// Option of Start.
type Option func(*Registry)

// WithTLS serves HTTPS, with a certificate for 127.0.0.1 and these names.
func WithTLS(names ...string) Option {
	return func(r *Registry) { r.tls, r.names = true, names }
}

// WithBasicAuth asks for these credentials.
func WithBasicAuth(user, password string) Option {
	return func(r *Registry) {
		r.auth = authentication{kind: basic, user: user, password: password}
	}
}

// WithTokenAuth asks for a token, which its own token service at /token gives
// for these credentials; no credentials are needed if they are empty.
func WithTokenAuth(user, password string) Option {
	return func(r *Registry) {
		r.auth = authentication{kind: token, user: user, password: password}
	}
}

// WithRealm asks for a token of another token service.
func WithRealm(url string) Option {
	return func(r *Registry) { r.auth.realm = url }
}

// WithContent serves another registry than that of go-containerregistry.
func WithContent(content http.Handler) Option {
	return func(r *Registry) { r.content, r.native = content, true }
}

// WithRoundTrip lets each answer wait as if the registry were so far away.
func WithRoundTrip(rtt time.Duration) Option { return func(r *Registry) { r.rtt = rtt } }

// Start runs a registry until the test ends.
func Start(tb testing.TB, options ...Option) *Registry {
	tb.Helper()
	r := &Registry{content: ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)))}
	for _, option := range options {
		option(r)
	}
	if r.native {
		r.referrers.off = true
	} else {
		r.referrers.known = map[string][]ocispec.Descriptor{}
		r.content = r.referring(r.content)
	}
	r.handler = r.counted(r.distant(r.faulty(r.authenticated(r.content))))
	r.serve(tb, "127.0.0.1:0")
	tb.Cleanup(r.Down)
	return r
}

// Down closes the registry: connections to it are refused. Requests under way
// are cut.
func (r *Registry) Down() {
	r.mu.Lock()
	server, cancel := r.server, r.cancel
	r.server = nil
	r.mu.Unlock()
	if server != nil {
		// In this order no new request comes in, and none goes on hanging.
		server.Listener.Close()
		cancel()
		server.CloseClientConnections()
		server.Close()
	}
}

// Up serves again after Down, at the same address with the same content.
func (r *Registry) Up(tb testing.TB) {
	tb.Helper()
	r.serve(tb, r.Host)
}

func (r *Registry) serve(tb testing.TB, address string) {
	tb.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		tb.Fatal(err)
	}
	server := httptest.NewUnstartedServer(r.handler)
	server.Listener.Close()
	server.Listener = listener
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	ctx, cancel := context.WithCancel(context.Background())
	server.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			r.mu.Lock()
			r.connections++
			r.mu.Unlock()
		}
	}
	if r.tls {
		if r.CA == nil {
			authority := newAuthority(tb)
			r.CA, r.auth.certificate = authority.pem, authority.issue(tb, r.names)
		}
		server.TLS = serverConfig(r.auth.certificate)
		server.StartTLS()
	} else {
		server.Start()
	}
	r.mu.Lock()
	r.server, r.cancel = server, cancel
	r.Host = listener.Addr().String()
	r.mu.Unlock()
}

// URL is the base URL.
func (r *Registry) URL() string {
	if r.tls {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// Reference is what a person writes for a tag here.
func (r *Registry) Reference(repository, tag string) string {
	return r.Host + "/" + repository + ":" + tag
}

// PushImage makes a small image that is like no other, and tags it.
func (r *Registry) PushImage(tb testing.TB, repository, tag string) image.Digest {
	tb.Helper()
	img, err := mutate.Config(empty.Image, v1.Config{
		Labels: map[string]string{"pushed": fmt.Sprintf("%s/%s:%s#%d", r.Host, repository, tag, r.pushed.Add(1))},
	})
	if err != nil {
		tb.Fatal(err)
	}
	if err := remote.Write(r.tag(tb, repository, tag), img, r.past()); err != nil {
		tb.Fatal(err)
	}
	return digestOf(tb, img)
}

// PushIndex makes an index of one new image, and tags it.
func (r *Registry) PushIndex(tb testing.TB, repository, tag string) image.Digest {
	tb.Helper()
	img, err := mutate.Config(empty.Image, v1.Config{
		Labels: map[string]string{"pushed": fmt.Sprintf("%s/%s:%s#%d", r.Host, repository, tag, r.pushed.Add(1))},
	})
	if err != nil {
		tb.Fatal(err)
	}
	index := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: img})
	if err := remote.WriteIndex(r.tag(tb, repository, tag), index, r.past()); err != nil {
		tb.Fatal(err)
	}
	return digestOf(tb, index)
}

// PushManifest stores any bytes as a manifest, and tags them.
func (r *Registry) PushManifest(tb testing.TB, repository, tag, mediaType, manifest string) image.Digest {
	tb.Helper()
	req := httptest.NewRequest(http.MethodPut, "http://registry/v2/"+repository+"/manifests/"+tag, strings.NewReader(manifest))
	req.Header.Set("Content-Type", mediaType)
	answer := httptest.NewRecorder()
	r.content.ServeHTTP(answer, req)
	if answer.Code != http.StatusCreated {
		tb.Fatalf("push of a manifest: %d %s", answer.Code, answer.Body)
	}
	return image.DigestOf([]byte(manifest))
}

// MoveTag lets a tag name a digest that was pushed before.
func (r *Registry) MoveTag(tb testing.TB, repository, tag string, digest image.Digest) {
	tb.Helper()
	ref, err := name.NewDigest(r.Host+"/"+repository+"@"+digest.String(), name.Insecure)
	if err != nil {
		tb.Fatal(err)
	}
	described, err := remote.Get(ref, r.past())
	if err != nil {
		tb.Fatal(err)
	}
	if err := remote.Tag(r.tag(tb, repository, tag), described, r.past()); err != nil {
		tb.Fatal(err)
	}
}

// DeleteTag takes a tag away; what it named stays.
func (r *Registry) DeleteTag(tb testing.TB, repository, tag string) {
	tb.Helper()
	if err := remote.Delete(r.tag(tb, repository, tag), r.past()); err != nil {
		tb.Fatal(err)
	}
}

// Requests returns what the registry was asked so far, in order.
func (r *Registry) Requests() []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests)
}

// Connections returns how many connections were made to it so far.
func (r *Registry) Connections() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.connections
}

// Forget forgets the requests so far.
func (r *Registry) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = nil
}

func (r *Registry) distant(next http.Handler) http.Handler {
	if r.rtt == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		arrived := time.NewTimer(r.rtt)
		defer arrived.Stop()
		select {
		case <-arrived.C:
			next.ServeHTTP(w, req)
		case <-req.Context().Done():
		}
	})
}

func (r *Registry) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		r.requests = append(r.requests, Request{
			Method: req.Method, Host: req.Host, Path: req.URL.Path, Query: req.URL.RawQuery, Authorization: req.Header.Get("Authorization"),
		})
		r.mu.Unlock()
		next.ServeHTTP(w, req)
	})
}

func (r *Registry) tag(tb testing.TB, repository, tag string) name.Tag {
	tb.Helper()
	ref, err := name.NewTag(r.Reference(repository, tag), name.Insecure)
	if err != nil {
		tb.Fatal(err)
	}
	return ref
}

// past is a way to the content that passes by the network and all faults.
func (r *Registry) past() remote.Option {
	return remote.WithTransport(roundTripper(func(req *http.Request) (*http.Response, error) {
		received := req.Clone(req.Context())
		if received.Body == nil {
			received.Body = http.NoBody // a server never sees none
		}
		answer := httptest.NewRecorder()
		r.content.ServeHTTP(answer, received)
		response := answer.Result()
		response.Request = req
		return response, nil
	}))
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func digestOf(tb testing.TB, content interface{ Digest() (v1.Hash, error) }) image.Digest {
	tb.Helper()
	hash, err := content.Digest()
	if err != nil {
		tb.Fatal(err)
	}
	digest, err := image.ParseDigest(hash.String())
	if err != nil {
		tb.Fatal(err)
	}
	return digest
}
