package registry

import (
	"bytes"
	"context"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/gatehouse-dev/gatehouse/internal/image"
)

// RequestTimeout is how long one request of a Session may take by default, with its body.
const RequestTimeout = 5 * time.Second

// SessionOptions bound a Session. A zero field means its default.
type SessionOptions struct {
	// Timeout of one request, with its body. Default RequestTimeout.
	Timeout time.Duration
	// MaxRequests of a session; requests for tokens and redirects are not counted.
	// Default 512.
	MaxRequests int
	// MaxBytes of all answers together. Default 32 MiB.
	MaxBytes int64
	// MaxPages and MaxReferrers bound a list of referrers. Defaults 16 and 2000.
	MaxPages, MaxReferrers int
}

func (o SessionOptions) withDefaults() SessionOptions {
	setDefault(&o.Timeout, RequestTimeout)
	setDefault(&o.MaxRequests, 512)
	setDefault(&o.MaxBytes, 32<<20)
	setDefault(&o.MaxPages, 16)
	setDefault(&o.MaxReferrers, 2000)
	return o
}

// Session reads one repository for one purpose, as the verification of one
// image. Its requests share a token and connections, and a budget of requests
// and bytes. What it returns was proven against the digest that it was asked by.
// It is safe for concurrent use. Every error is an *Error.
type Session struct {
	attempt *attempt
	options SessionOptions

	mu       sync.Mutex
	requests int
	bytes    int64
}

// Session begins to read the repository of an image. It sends nothing yet.
func (c *Client) Session(of image.Pinned, access Access, options SessionOptions) (*Session, error) {
	if of.IsZero() {
		return nil, &Error{Kind: NoImage, terminal: true, text: "no image is given"}
	}
	if err := access.check(of.Reference()); err != nil {
		return nil, err
	}
	return &Session{attempt: c.newAttempt(of.Reference(), access), options: options.withDefaults()}, nil
}

// Manifest is what a registry holds under a tag or a digest.
type Manifest struct {
	// Digest is that of Body.
	Digest image.Digest
	// MediaType is what the registry says it is, without parameters; empty if it
	// does not.
	MediaType string
	Body      []byte
}

// Manifest fetches the manifest with a digest.
func (s *Session) Manifest(ctx context.Context, digest image.Digest) (Manifest, error) {
	got, err := s.manifest(ctx, digest.String())
	if err != nil {
		return Manifest{}, err
	}
	if got.Digest != digest && !digest.Matches(got.Body) {
		return Manifest{}, s.attempt.fail(Mismatch, "sent a manifest that does not match its digest")
	}
	got.Digest = digest
	return got, nil
}

// Tagged fetches the manifest that a tag names.
func (s *Session) Tagged(ctx context.Context, tag string) (Manifest, error) {
	got, err := s.manifest(ctx, tag)
	if err != nil {
		return Manifest{}, err
	}
	if !strings.HasPrefix(got.Digest.String(), "sha256:") {
		got.Digest = image.DigestOf(got.Body)
	}
	return got, nil
}

// manifest is proven against the digest that the registry states of it, which may be
// none.
func (s *Session) manifest(ctx context.Context, which string) (Manifest, *Error) {
	got, err := s.get(ctx, request{
		url:    s.attempt.base + "manifests/" + which,
		accept: acceptManifests,
		limit:  s.attempt.options.MaxManifest,
		what:   which,
		noun:   "manifest",
	})
	if err != nil {
		return Manifest{}, err
	}
	if !got.digest.IsZero() && !got.digest.Matches(got.body) {
		return Manifest{}, s.attempt.fail(Mismatch, "sent a manifest that does not match its digest")
	}
	return Manifest{Digest: got.digest, MediaType: mediaType(got.mediaType), Body: got.body}, nil
}

// Blob fetches the content of a descriptor, if it is of at most limit bytes.
func (s *Session) Blob(ctx context.Context, descriptor ocispec.Descriptor, limit int64) ([]byte, error) {
	digest, failure := s.attempt.checkDescriptor(descriptor, limit)
	if failure != nil {
		return nil, failure
	}
	got, err := s.get(ctx, request{
		url:   s.attempt.base + "blobs/" + digest.String(),
		limit: limit, // and not what the descriptor says, to tell whose fault a wrong size is
		what:  digest.String(),
		noun:  "blob",
	})
	if err != nil {
		return nil, err
	}
	return got.body, s.attempt.checkBlob(descriptor, digest, got.body)
}

// checkDescriptor reads the digest of a descriptor whose content is wanted.
func (a *attempt) checkDescriptor(descriptor ocispec.Descriptor, limit int64) (image.Digest, *Error) {
	digest, err := image.ParseDigest(string(descriptor.Digest))
	switch {
	case err != nil:
		return image.Digest{}, a.fail(BadDescriptor, "a descriptor states a digest that is none")
	case descriptor.Size < 0:
		return image.Digest{}, a.fail(BadDescriptor, "a descriptor states a negative size")
	case descriptor.Size > limit:
		return image.Digest{}, a.fail(TooLarge, "a blob of more than "+strconv.FormatInt(limit, 10)+" bytes is not fetched")
	}
	return digest, nil
}

// checkBlob proves content against its descriptor. The result is an error or nil,
// never a nil *Error.
func (a *attempt) checkBlob(descriptor ocispec.Descriptor, digest image.Digest, content []byte) error {
	switch {
	case !digest.Matches(content):
		return a.fail(Mismatch, "sent a blob that does not match its digest")
	case int64(len(content)) != descriptor.Size:
		return a.fail(BadDescriptor, "a descriptor states another size than its blob has")
	}
	return nil
}

// request is one GET.
type request struct {
	url    string
	accept string
	limit  int64
	what   string // is asked for: a tag or a digest
	noun   string // of what it names
}

// maxBelieved bounds what is allocated for an answer because it says that it is so
// long, in bytes.
const maxBelieved = 32 << 10

// get asks once and reads the answer within all bounds.
func (s *Session) get(ctx context.Context, r request) (answer, *Error) {
	a := s.attempt
	if err := s.count(); err != nil {
		return answer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(a.scoped(ctx), http.MethodGet, r.url, nil)
	if err != nil {
		return answer{}, a.classify(ctx, err)
	}
	if r.accept != "" {
		req.Header.Set("Accept", r.accept)
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return answer{}, a.classify(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		e := a.refused(resp, r.what)
		e.status = resp.StatusCode
		return answer{}, e
	}
	got := answer{mediaType: resp.Header.Get("Content-Type"), size: resp.ContentLength, header: resp.Header}
	if stated := resp.Header.Get("Docker-Content-Digest"); stated != "" {
		if got.digest, err = image.ParseDigest(stated); err != nil {
			e := a.fail(Mismatch, "states a digest that is none")
			e.Detail = a.guard.quote(stated)
			return answer{}, e
		}
	}
	if got.size > r.limit {
		return answer{}, a.fail(TooLarge, "sends a "+r.noun+" that is too large")
	}
	body := bytes.NewBuffer(make([]byte, 0, bytes.MinRead+min(max(got.size, 0), maxBelieved)))
	if _, err := body.ReadFrom(io.LimitReader(s.metered(resp.Body), r.limit+1)); err != nil {
		return answer{}, a.classify(ctx, err)
	}
	got.body = body.Bytes()
	if int64(len(got.body)) > r.limit {
		return answer{}, a.fail(TooLarge, "sends a "+r.noun+" that is too large")
	}
	return got, nil
}

func (s *Session) count() *Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.requests >= s.options.MaxRequests {
		return s.attempt.fail(TooLarge, "not asked more than "+strconv.Itoa(s.options.MaxRequests)+" questions about one image")
	}
	s.requests++
	return nil
}

// metered counts what is read against the session's bytes.
func (s *Session) metered(body io.Reader) io.Reader { return meter{body, s} }

type meter struct {
	io.Reader
	session *Session
}

func (m meter) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	s := m.session
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes += int64(n)
	if s.bytes > s.options.MaxBytes {
		return n, s.attempt.fail(TooLarge, "not more than "+strconv.FormatInt(s.options.MaxBytes, 10)+" bytes are read for one image")
	}
	return n, err
}

// mediaType is a Content-Type without its parameters; empty if it is none.
func mediaType(header string) string {
	stated, _, err := mime.ParseMediaType(header)
	if err != nil {
		return ""
	}
	return stated
}

// Close ends the session. Its connections are kept for others.
func (s *Session) Close() {}
