package registry_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/registry"
	testregistry "github.com/gatehouse-dev/gatehouse/test/registry"
)

const signature = "application/vnd.example.signature"

// signed is an image with referrers, in a registry.
type signed struct {
	hub       *testregistry.Registry
	subject   image.Digest
	referrers []image.Digest
}

func newSigned(tb testing.TB, n int, options ...testregistry.Option) *signed {
	tb.Helper()
	s := &signed{hub: testregistry.Start(tb, options...)}
	s.subject = s.hub.PushImage(tb, "team/gw", "1.0")
	for i := range n {
		s.refer(tb, signature, fmt.Sprint("signature ", i))
	}
	return s
}

func (s *signed) refer(tb testing.TB, artifactType, content string) {
	tb.Helper()
	s.referrers = append(s.referrers, s.hub.PushReferrer(tb, "team/gw", ocispec.Manifest{
		ArtifactType: artifactType,
		Subject:      &ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.Digest(s.subject.String()), Size: 1},
	}, []byte(content)))
}

func (s *signed) session(tb testing.TB, access registry.Access, options registry.SessionOptions) *registry.Session {
	tb.Helper()
	pinned, err := image.ParsePinned(s.hub.Host + "/team/gw@" + s.subject.String())
	if err != nil {
		tb.Fatal(err)
	}
	session, err := client(tb, registry.Options{}).Session(pinned, access, options)
	if err != nil {
		tb.Fatal(err)
	}
	s.hub.Forget()
	return session
}

// list collects all pages.
func list(ctx context.Context, s *registry.Session, subject image.Digest, artifactType string) (all []string, err error) {
	for page, pageErr := range s.Referrers(ctx, subject, artifactType) {
		if pageErr != nil {
			return all, pageErr
		}
		for _, d := range page {
			all = append(all, string(d.Digest))
		}
	}
	return all, nil
}

func texts(digests []image.Digest) []string {
	var all []string
	for _, d := range digests {
		all = append(all, d.String())
	}
	return all
}

func TestReferrersAreListed(t *testing.T) {
	for name, row := range map[string]struct {
		options  []testregistry.Option
		n        int
		requests int
	}{
		"by the API":               {nil, 3, 1},
		"on pages":                 {[]testregistry.Option{testregistry.WithPages(2)}, 5, 3},
		"none by the API":          {nil, 0, 1},
		"under the referrers tag":  {[]testregistry.Option{testregistry.WithoutReferrers()}, 3, 2},
		"none and no API":          {[]testregistry.Option{testregistry.WithoutReferrers()}, 0, 2},
		"behind a token, over TLS": {[]testregistry.Option{testregistry.WithTLS(), testregistry.WithTokenAuth("", ""), testregistry.WithPages(1)}, 2, 4}, // 401, token, two pages
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSigned(t, row.n, row.options...)
			access := plain
			if s.hub.CA != nil {
				access = registry.Access{CABundle: s.hub.CA}
			}
			got, err := list(t.Context(), s.session(t, access, registry.SessionOptions{}), s.subject, "")
			if err != nil || !slices.Equal(got, texts(s.referrers)) {
				t.Errorf("got %v %v, want %v", got, err, s.referrers)
			}
			if n := len(s.hub.Requests()); n != row.requests {
				t.Errorf("%d requests, want %d: %v", n, row.requests, s.hub.Requests())
			}
		})
	}
}

func TestTheReferrersAPIIsProbedAnew(t *testing.T) {
	s := newSigned(t, 1)
	session := s.session(t, plain, registry.SessionOptions{})
	s.hub.BreakPath("/referrers/", testregistry.Answer(404))
	if got, err := list(t.Context(), session, s.subject, ""); err != nil || len(got) != 0 {
		t.Fatalf("without the API: %v %v", got, err)
	}
	s.hub.Heal()
	if got, err := list(t.Context(), session, s.subject, ""); err != nil || len(got) != 1 {
		t.Errorf("with it again: %v %v", got, err)
	}
}

func TestAFilterIsPassedOn(t *testing.T) {
	for _, options := range [][]testregistry.Option{nil, {testregistry.WithoutFilter()}} {
		s := newSigned(t, 1, options...)
		s.refer(t, "application/spdx+json", "an SBOM")
		got, err := list(t.Context(), s.session(t, plain, registry.SessionOptions{}), s.subject, signature)
		if want := 1 + len(options); err != nil || len(got) != want {
			t.Errorf("got %v %v, want %d", got, err, want)
		}
		if query := s.hub.Requests()[0].Query; query != "artifactType=application%2Fvnd.example.signature" {
			t.Errorf("asked %q", query)
		}
	}
}

func TestAListThatCannotBeBelievedIsAnError(t *testing.T) {
	// A link is followed within the list of this subject alone.
	link := func(target string) testregistry.Fault {
		return testregistry.AnswerHeaders(map[string]string{"Content-Type": ocispec.MediaTypeImageIndex, "Link": "<" + target + `>; rel="next"`}, `{"schemaVersion":2,"manifests":[]}`)
	}
	for name, row := range map[string]struct {
		fault testregistry.Fault
		kind  registry.Kind
		text  string
	}{
		"not JSON":            {testregistry.AnswerHeaders(map[string]string{"Content-Type": ocispec.MediaTypeImageIndex}, "{"), registry.BadAnswer, "its list of referrers is not the JSON of an index"},
		"not an index":        {testregistry.AnswerHeaders(map[string]string{"Content-Type": ocispec.MediaTypeImageIndex}, "{}"), registry.BadAnswer, "its list of referrers is no OCI index"},
		"a page of the web":   {testregistry.AnswerHeaders(map[string]string{"Content-Type": "text/html"}, "<html>"), registry.BadAnswer, "its list of referrers is no OCI index"},
		"too long":            {testregistry.Giant(5 << 20), registry.TooLarge, "sends a list of referrers that is too large"},
		"a link elsewhere":    {link("https://elsewhere.example.com/v2/"), registry.BadAnswer, "the link to its next page of referrers leads elsewhere"},
		"a link to a secret":  {link("/v2/other/referrers/" + missing), registry.BadAnswer, "the link to its next page of referrers leads elsewhere"},
		"a link to itself":    {link("?"), registry.BadAnswer, "the link to its next page of referrers leads elsewhere"},
		"a server error":      {testregistry.Answer(502), registry.ServerError, "answered 502 (bad gateway)"},
		"unauthorized":        {testregistry.Answer(403), registry.Unauthorized, "repository team/gw: unauthorized; it asks for credentials, which are sent over TLS alone"},
		"cut":                 {testregistry.Cut(), registry.BadAnswer, "broke off before the end of its answer"},
		"never":               {testregistry.Hang(), registry.Timeout, "did not answer within its deadline"},
		"a byte now and then": {testregistry.Drip(200 * time.Millisecond), registry.Timeout, "did not answer within its deadline"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSigned(t, 1)
			session := s.session(t, plain, registry.SessionOptions{Timeout: endurance(row.kind)})
			s.hub.BreakPath("/referrers/", row.fault)
			_, err := list(t.Context(), session, s.subject, "")
			var e *registry.Error
			if !errors.As(err, &e) || e.Kind != row.kind || e.Error() != "registry "+s.hub.Host+": "+row.text {
				t.Errorf("got %v (%s)\nwant %s: %s", err, detail(err), row.kind, row.text)
			}
		})
	}
}

func TestAnEndlessListEnds(t *testing.T) {
	pages := newSigned(t, 5, testregistry.WithPages(1))
	got, err := list(t.Context(), pages.session(t, plain, registry.SessionOptions{MaxPages: 3}), pages.subject, "")
	if e := asError(err); e == nil || e.Kind != registry.TooLarge || len(got) != 3 {
		t.Errorf("pages: got %d and %v", len(got), err)
	}
	many := newSigned(t, 1)
	many.hub.Doctor(func(index *ocispec.Index) {
		for len(index.Manifests) < 10_000 {
			index.Manifests = append(index.Manifests, index.Manifests[0])
		}
	})
	got, err = list(t.Context(), many.session(t, plain, registry.SessionOptions{}), many.subject, "")
	if e := asError(err); e == nil || e.Kind != registry.TooLarge || len(got) != 2000 {
		t.Errorf("10,000 referrers: got %d and %v", len(got), err)
	}
}

func TestContentIsProvenAgainstWhatItWasAskedBy(t *testing.T) {
	other := image.DigestOf([]byte("another"))
	for name, row := range map[string]struct {
		path  string
		fault testregistry.Fault
		want  registry.Kind
	}{
		"a manifest of other content":                     {"/manifests/", testregistry.Forge(`{"schemaVersion":2}`), registry.Mismatch},
		"a manifest with another digest":                  {"/manifests/", testregistry.LieAboutDigest(other), registry.Mismatch},
		"a manifest without end":                          {"/manifests/", testregistry.Giant(1 << 30), registry.TooLarge},
		"a blob of other content":                         {"/blobs/", testregistry.Forge("signature X"), registry.Mismatch},
		"a blob that is longer":                           {"/blobs/", testregistry.Forge("signature 0 and more"), registry.Mismatch},
		"a blob that is shorter":                          {"/blobs/", testregistry.Forge("sig"), registry.Mismatch},
		"a blob without end":                              {"/blobs/", testregistry.Giant(1 << 30), registry.TooLarge},
		"a blob that is not there":                        {"/blobs/", testregistry.Answer(404), registry.NotFound},
		"a blob that is cut":                              {"/blobs/", testregistry.Cut(), registry.BadAnswer},
		"a blob that unpacks to a thousand times as much": {"/blobs/", testregistry.AnswerHeaders(map[string]string{"Content-Encoding": "gzip"}, bomb(t)), registry.TooLarge},
		"a blob that drips":                               {"/blobs/", testregistry.Drip(time.Second), registry.Timeout},
		"a blob that is redirected":                       {"/blobs/", testregistry.RedirectLoop(), registry.Redirected},
		"a blob over plain HTTP, elsewhere":               {"/blobs/", testregistry.RedirectTo("http://elsewhere.example.com"), registry.Redirected},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSigned(t, 1)
			session := s.session(t, plain, registry.SessionOptions{Timeout: endurance(row.want)})
			s.hub.BreakPath(row.path, row.fault)
			err := read(t.Context(), session, s.referrers[0])
			if e := asError(err); e == nil || e.Kind != row.want {
				t.Errorf("got %v (%s), want %s", err, detail(err), row.want)
			}
		})
	}
}

// endurance is short where the test waits for its end.
func endurance(kind registry.Kind) time.Duration {
	if kind == registry.Timeout {
		return 2 * time.Second
	}
	return time.Minute
}

// bomb is a little that unpacks to a lot.
func bomb(t *testing.T) string {
	t.Helper()
	var packed strings.Builder
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.String()
}

// read fetches a manifest and its blobs.
func read(ctx context.Context, s *registry.Session, of image.Digest) error {
	got, err := s.Manifest(ctx, of)
	if err != nil {
		return err
	}
	var manifest ocispec.Manifest
	if err := json.Unmarshal(got.Body, &manifest); err != nil {
		return err
	}
	for _, layer := range manifest.Layers {
		if _, err := s.Blob(ctx, layer, 1<<10); err != nil {
			return err
		}
	}
	return nil
}

func asError(err error) *registry.Error {
	var e *registry.Error
	errors.As(err, &e)
	return e
}

// Whoever wrote the descriptor is told from who keeps the content.
func TestASizeThatIsWrongIsTheDescriptors(t *testing.T) {
	s := newSigned(t, 1)
	for _, size := range []int64{0, 3, 500} {
		descriptor := s.hub.PushBlob(t, "team/gw", "text/plain", []byte("content"))
		descriptor.Size = size
		session := s.session(t, plain, registry.SessionOptions{})
		if _, err := session.Blob(t.Context(), descriptor, 1<<10); asError(err) == nil || asError(err).Kind != registry.BadDescriptor {
			t.Errorf("%d: %v", size, err)
		}
	}
}

func TestADescriptorIsRefusedBeforeAnythingIsFetched(t *testing.T) {
	s := newSigned(t, 0)
	session := s.session(t, plain, registry.SessionOptions{})
	for name, row := range map[string]struct {
		descriptor ocispec.Descriptor
		want       registry.Kind
	}{
		"a gigabyte":          {ocispec.Descriptor{Digest: missing, Size: 1 << 30}, registry.TooLarge},
		"a negative size":     {ocispec.Descriptor{Digest: missing, Size: -1}, registry.BadDescriptor},
		"no digest":           {ocispec.Descriptor{Digest: "md5:aa", Size: 1}, registry.BadDescriptor},
		"a path in its place": {ocispec.Descriptor{Digest: "sha256:../../../secret", Size: 1}, registry.BadDescriptor},
	} {
		if _, err := session.Blob(t.Context(), row.descriptor, 1<<20); asError(err) == nil || asError(err).Kind != row.want {
			t.Errorf("%s: got %v, want %s", name, err, row.want)
		}
	}
	if n := len(s.hub.Requests()); n != 0 {
		t.Errorf("%d requests", n)
	}
}

func TestASessionHasABudget(t *testing.T) {
	s := newSigned(t, 1)
	session := s.session(t, plain, registry.SessionOptions{MaxRequests: 2})
	if err := read(t.Context(), session, s.referrers[0]); err != nil {
		t.Fatal(err)
	}
	if err := read(t.Context(), session, s.referrers[0]); asError(err) == nil || asError(err).Kind != registry.TooLarge {
		t.Errorf("a third request: %v", err)
	}
	bytes := s.session(t, plain, registry.SessionOptions{MaxBytes: 100})
	if err := read(t.Context(), bytes, s.referrers[0]); asError(err) == nil || asError(err).Kind != registry.TooLarge {
		t.Errorf("more bytes: %v", err)
	}
}

// All requests of a session share a token: one is fetched, however many ask at
// once.
func TestASessionSharesAToken(t *testing.T) {
	s := newSigned(t, 1, testregistry.WithTLS(), testregistry.WithTokenAuth("robot", "hunter2"))
	access := registry.Access{CABundle: s.hub.CA, Credentials: credentials(t, map[string]string{s.hub.Host: "robot:hunter2"})}
	session := s.session(t, access, registry.SessionOptions{})
	if err := read(t.Context(), session, s.referrers[0]); err != nil {
		t.Fatal(err)
	}
	var asking sync.WaitGroup
	for range 8 {
		asking.Go(func() {
			if err := read(t.Context(), session, s.referrers[0]); err != nil {
				t.Error(err)
			}
		})
	}
	asking.Wait()
	tokens, refused := 0, 0
	for _, r := range s.hub.Requests() {
		switch {
		case r.Path == "/token":
			tokens++
		case r.Authorization == "":
			refused++
		}
	}
	if tokens != 1 || refused != 1 {
		t.Errorf("%d tokens were fetched and %d requests went out without, want 1 and 1", tokens, refused)
	}
}

// Many may ask at once before there is a token, and none is told another's trouble.
func TestASessionIsSafeForConcurrentUse(t *testing.T) {
	s := newSigned(t, 4, testregistry.WithTLS(), testregistry.WithTokenAuth("robot", "hunter2"))
	for _, secret := range []string{"robot:hunter2", "robot:wrong"} {
		access := registry.Access{CABundle: s.hub.CA, Credentials: credentials(t, map[string]string{s.hub.Host: secret})}
		session := s.session(t, access, registry.SessionOptions{})
		var asking sync.WaitGroup
		for i := range 16 {
			asking.Go(func() {
				err := read(t.Context(), session, s.referrers[i%len(s.referrers)])
				e := asError(err)
				if secret == "robot:hunter2" && err != nil || secret != "robot:hunter2" && (e == nil || e.Kind != registry.Unauthorized) {
					t.Errorf("%s: %v", secret, err)
				}
				if e != nil && strings.Contains(e.Error()+e.Detail, "wrong\"") {
					t.Errorf("a secret in %s", e.Detail)
				}
			})
		}
		asking.Wait()
	}
}
