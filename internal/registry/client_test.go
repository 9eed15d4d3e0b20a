package registry_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/registry"
	testregistry "github.com/gatehouse-dev/gatehouse/test/registry"
)

const missing = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

var plain = registry.Access{PlainHTTP: true}

func parse(tb testing.TB, s string) image.Reference {
	tb.Helper()
	ref, err := image.Parse(s)
	if err != nil {
		tb.Fatal(err)
	}
	return ref
}

func client(tb testing.TB, options registry.Options) *registry.Client {
	tb.Helper()
	options.Reach.Loopback = true // where test registries are
	c := registry.New(options)
	tb.Cleanup(c.Close)
	return c
}

// failure resolves and expects an *Error.
func failure(tb testing.TB, c *registry.Client, ref string, access registry.Access) *registry.Error {
	tb.Helper()
	digest, err := c.Resolve(tb.Context(), parse(tb, ref), access)
	var e *registry.Error
	if !errors.As(err, &e) {
		tb.Fatalf("%s: got %v and %v, want an *Error", ref, digest, err)
	}
	if !digest.IsZero() {
		tb.Errorf("%s: a digest beside an error", ref)
	}
	return e
}

func success(tb testing.TB, c *registry.Client, ref string, access registry.Access) image.Digest {
	tb.Helper()
	digest, err := c.Resolve(tb.Context(), parse(tb, ref), access)
	if err != nil {
		tb.Fatalf("%s: %v (%s)", ref, err, detail(err))
	}
	return digest
}

func detail(err error) string {
	var e *registry.Error
	if errors.As(err, &e) {
		return e.Detail
	}
	return ""
}

func TestATagAndADigestResolveToWhatTheyName(t *testing.T) {
	hub := testregistry.Start(t)
	one := hub.PushImage(t, "team/gw", "1.0")
	index := hub.PushIndex(t, "team/gw", "multi")
	c := client(t, registry.Options{})
	for ref, want := range map[string]image.Digest{
		hub.Reference("team/gw", "1.0"):                               one,
		hub.Reference("team/gw", "multi"):                             index,
		hub.Host + "/team/gw@" + one.String():                         one,
		hub.Reference("team/gw", "ignored") + "@" + index.String():    index,
		strings.ToUpper(hub.Host) + "/team/gw:1.0":                    one,
		hub.Reference("team/gw", "1.0") + "@" + index.String():        index,
		hub.Host + "/team/gw@" + one.String() + strings.Repeat("", 1): one,
	} {
		for range 2 { // the second time what was verified is remembered
			if got := success(t, c, ref, plain); got != want {
				t.Errorf("%s: got %s, want %s", ref, got, want)
			}
		}
	}
}

func TestAMovedTagIsSeen(t *testing.T) {
	hub := testregistry.Start(t)
	one := hub.PushImage(t, "team/gw", "stable")
	two := hub.PushImage(t, "team/gw", "2.0")
	c := client(t, registry.Options{})
	ref := hub.Reference("team/gw", "stable")
	for _, want := range []image.Digest{one, two, one} {
		hub.MoveTag(t, "team/gw", "stable", want)
		if got := success(t, c, ref, plain); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestWatchingATagFetchesNothingTwice(t *testing.T) {
	hub := testregistry.Start(t)
	hub.PushImage(t, "team/gw", "1.0")
	c := client(t, registry.Options{})
	for range 5 {
		success(t, c, hub.Reference("team/gw", "1.0"), plain)
	}
	gets := 0
	for _, req := range hub.Requests() {
		if req.Method == http.MethodGet {
			gets++
		}
	}
	// A registry that counts pulls counts a GET of a manifest as one.
	if gets != 1 {
		t.Errorf("%d manifests were fetched, want 1: %v", gets, hub.Requests())
	}
}

func TestDockerHubIsAskedAtItsRegistry(t *testing.T) {
	hub := testregistry.Start(t, testregistry.WithTLS("registry-1.docker.io"))
	want := hub.PushImage(t, "library/nginx", "1.27")
	c := client(t, registry.Options{Dial: dialTo(map[string]string{"registry-1.docker.io:443": hub.Host})})
	if got := success(t, c, "nginx:1.27", registry.Access{CABundle: hub.CA}); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// dialTo sends names to test registries.
func dialTo(addresses map[string]string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		to, ok := addresses[address]
		if !ok {
			return nil, &net.DNSError{Err: "no such host", Name: address, IsNotFound: true}
		}
		return (&net.Dialer{}).DialContext(ctx, network, to)
	}
}

func TestTroubleIsNamedInWordsThatDoNotChange(t *testing.T) {
	other := image.DigestOf([]byte("another"))
	elsewhere := testregistry.Start(t)
	for name, row := range map[string]struct {
		fault    testregistry.Fault
		path     string // where the fault is; empty is everywhere
		kind     registry.Kind
		text     string // after "registry HOST: "
		byDigest bool   // a reference by digest rather than by tag
	}{
		"too many requests":          {fault: testregistry.Answer(429), kind: registry.TooManyRequests, text: "answered 429 (too many requests)"},
		"an error":                   {fault: testregistry.Answer(500), kind: registry.ServerError, text: "answered 500 (internal server error)"},
		"unavailable":                {fault: testregistry.Answer(503), kind: registry.ServerError, text: "answered 503 (service unavailable)"},
		"a status nobody knows":      {fault: testregistry.Answer(799), kind: registry.ServerError, text: "answered 799"},
		"a refusal of another kind":  {fault: testregistry.Answer(418), kind: registry.BadAnswer, text: "answered 418 (i'm a teapot)"},
		"no content":                 {fault: testregistry.Answer(204), kind: registry.BadAnswer, text: "answered 204 (no content)"},
		"forbidden":                  {fault: testregistry.Answer(403), kind: registry.Unauthorized, text: "repository team/gw: unauthorized; it does not exist or needs credentials"},
		"unauthorized, no challenge": {fault: testregistry.Answer(401), kind: registry.Unauthorized, text: "repository team/gw: unauthorized; it does not exist or needs credentials"},
		"hangs":                      {fault: testregistry.Hang(), kind: registry.Timeout, text: "did not answer within its deadline"},
		"drips":                      {fault: testregistry.Drip(time.Second), kind: registry.Timeout, text: "did not answer within its deadline"},
		"breaks off":                 {fault: testregistry.Cut(), kind: registry.BadAnswer, text: "broke off before the end of its answer", byDigest: true},
		"redirects in a circle":      {fault: testregistry.RedirectLoop(), kind: registry.Redirected, text: "redirects too often"},
		"redirects to plain HTTP":    {fault: testregistry.RedirectTo(elsewhere.URL()), kind: registry.Redirected, text: "sends elsewhere over plain HTTP"},
		"lies about the digest":      {fault: testregistry.LieAboutDigest(other), kind: registry.Mismatch, text: "repository team/gw: it states a digest for tag 1.0 that it does not hold"},
		"lies about a digest's":      {fault: testregistry.LieAboutDigest(other), kind: registry.Mismatch, text: "sent a manifest that does not match its digest", byDigest: true},
		"says less than it sends":    {fault: testregistry.LieAboutSize(-1), kind: registry.Mismatch, text: "sent a manifest that does not match its digest"},
		"says more than it sends":    {fault: testregistry.LieAboutSize(1), kind: registry.BadAnswer, text: "broke off before the end of its answer"},
		"other content":              {fault: testregistry.Forge(`{"schemaVersion":2}`), kind: registry.Mismatch, text: "sent a manifest that does not match its digest"},
		"other content by digest":    {fault: testregistry.Forge(`{"schemaVersion":2}`), kind: registry.Mismatch, text: "sent a manifest that does not match its digest", byDigest: true},
		"other content, no digest stated": {
			fault: testregistry.Together(testregistry.Forge(`{"schemaVersion":2}`), testregistry.HideDigest()),
			kind:  registry.Mismatch, text: "sent a manifest that does not match its digest", byDigest: true,
		},
		"two sizes": {
			fault: testregistry.ForMethod(http.MethodHead, testregistry.LieAboutSize(1)),
			kind:  registry.Mismatch, text: "sent a manifest that has not the size it stated",
		},
		"a giant":                      {fault: testregistry.Giant(16 << 20), kind: registry.BadAnswer, text: "sends a manifest that is too large"},
		"a giant that says so":         {fault: testregistry.LieAboutSize(5 << 20), kind: registry.BadAnswer, text: "sends a manifest that is too large", byDigest: true},
		"another media type":           {fault: testregistry.LieAboutType("text/html"), kind: registry.NoImage, text: "repository team/gw: tag 1.0 is not an image: it states another media type than the registry does"},
		"headers without end":          {fault: giantHeader, kind: registry.BadAnswer, text: "its answer cannot be understood"},
		"a digest that is none":        {fault: badDigest, kind: registry.Mismatch, text: "states a digest that is none"},
		"a redirect to nowhere at all": {fault: redirectNowhere, kind: registry.BadAnswer, text: "its answer cannot be understood"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hub := testregistry.Start(t, testregistry.WithTLS())
			digest := hub.PushImage(t, "team/gw", "1.0")
			hub.BreakPath(row.path, row.fault)
			c := client(t, registry.Options{Deadline: 2 * time.Second, ResponseHeaderTimeout: time.Second})
			ref := hub.Reference("team/gw", "1.0")
			if row.byDigest {
				ref = hub.Host + "/team/gw@" + digest.String()
			}
			for range 2 {
				e := failure(t, c, ref, registry.Access{CABundle: hub.CA})
				if e.Kind != row.kind || e.Error() != "registry "+hub.Host+": "+row.text {
					t.Errorf("got %s, %q (%s)", e.Kind, e, e.Detail)
				}
				if e.Terminal() {
					t.Error("only another spec could cure it")
				}
			}
			hub.Heal()
			if got := success(t, c, ref, registry.Access{CABundle: hub.CA}); got != digest {
				t.Errorf("when it is over: got %s, want %s", got, digest)
			}
		})
	}
}

func giantHeader(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
	w.Header().Set("X-Giant", strings.Repeat("x", 1<<20))
}

func badDigest(w http.ResponseWriter, req *http.Request, next http.Handler) {
	w.Header().Set("Docker-Content-Digest", "sha256:\"<script>")
	w.WriteHeader(http.StatusOK)
}

func redirectNowhere(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
	w.Header().Set("Location", "gopher://[::")
	w.WriteHeader(http.StatusTemporaryRedirect)
}

func TestNoConnectionIsNamed(t *testing.T) {
	down := testregistry.Start(t)
	down.PushImage(t, "team/gw", "1.0")
	down.Down()
	withoutTLS := testregistry.Start(t)
	private := testregistry.Start(t, testregistry.WithTLS())
	c := client(t, registry.Options{})
	named := client(t, registry.Options{Dial: dialTo(map[string]string{"other.example.com:443": private.Host})})
	for name, row := range map[string]struct {
		client *registry.Client
		host   string
		access registry.Access
		kind   registry.Kind
		text   string
	}{
		"down":             {c, down.Host, plain, registry.Unreachable, "connection refused"},
		"no such host":     {named, "gone.example.com", registry.Access{}, registry.Unreachable, "no such host"},
		"no TLS":           {c, withoutTLS.Host, registry.Access{}, registry.Untrusted, "does not speak TLS; set plainHTTP if that is meant"},
		"a private CA":     {c, private.Host, registry.Access{}, registry.Untrusted, "its certificate is signed by an unknown authority; give that in caBundle"},
		"for another host": {named, "other.example.com", registry.Access{CABundle: private.CA}, registry.Untrusted, "its certificate is for another host"},
		"TLS unexpected":   {c, private.Host, plain, registry.BadAnswer, "answered 400 (bad request)"},
	} {
		e := failure(t, row.client, row.host+"/team/gw:1.0", row.access)
		if e.Kind != row.kind || e.Error() != "registry "+row.host+": "+row.text || e.Terminal() {
			t.Errorf("%s: got %s, %q (%s)", name, e.Kind, e, e.Detail)
		}
	}
	down.Up(t)
	success(t, c, down.Reference("team/gw", "1.0"), plain)
}

func TestWhatIsNotThereIsNotFound(t *testing.T) {
	hub := testregistry.Start(t)
	hub.PushImage(t, "team/gw", "1.0")
	c := client(t, registry.Options{})
	for ref, text := range map[string]string{
		hub.Reference("team/gw", "2.0"):      "repository team/gw: tag 2.0 not found",
		hub.Reference("team/other", "1.0"):   "repository team/other: tag 1.0 not found",
		hub.Host + "/team/gw@" + missing:     "repository team/gw: digest " + missing + " not found",
		hub.Host + "/team/gw:1.0@" + missing: "repository team/gw: digest " + missing + " not found",
	} {
		e := failure(t, c, ref, plain)
		if e.Kind != registry.NotFound || e.Error() != "registry "+hub.Host+": "+text || e.Terminal() {
			t.Errorf("%s: got %s, %q", ref, e.Kind, e)
		}
	}
}

func TestOnlyImagesAndIndexesAreAccepted(t *testing.T) {
	const ociImage, ociIndex = "application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.index.v1+json"
	hub := testregistry.Start(t)
	c := client(t, registry.Options{})
	for name, row := range map[string]struct{ mediaType, manifest, fault string }{
		"schema 1":             {"application/vnd.docker.distribution.manifest.v1+json", `{"schemaVersion":1}`, "its media type is neither that of an image nor that of an index"},
		"an image that is not": {ociImage, `{"schemaVersion":2}`, "its content is not that of an image"},
		"an index that is not": {ociIndex, `{"schemaVersion":2,"layers":[]}`, "its content is not that of an index"},
		"both":                 {ociIndex, `{"schemaVersion":2,"manifests":[],"layers":[],"config":{}}`, "its content is not that of an index"},
		"two types":            {ociImage, `{"schemaVersion":2,"mediaType":"` + ociIndex + `","manifests":[]}`, "it states another media type than the registry does"},
		"no schema version":    {ociImage, `{"layers":[],"config":{}}`, "its schema version is not 2"},
	} {
		digest := hub.PushManifest(t, "team/odd", "odd", row.mediaType, row.manifest)
		e := failure(t, c, hub.Reference("team/odd", "odd"), plain)
		if e.Kind != registry.NoImage || !strings.HasSuffix(e.Error(), ": repository team/odd: tag odd is not an image: "+row.fault) || e.Terminal() {
			t.Errorf("%s: got %s, %q", name, e.Kind, e)
		}
		byDigest := failure(t, c, hub.Host+"/team/odd@"+digest.String(), plain)
		if byDigest.Kind != registry.NoImage || !byDigest.Terminal() {
			t.Errorf("%s: what a digest names never changes: got %s, %q", name, byDigest.Kind, byDigest)
		}
	}
}

func TestARegistryNeedNotStateTheDigest(t *testing.T) {
	hub := testregistry.Start(t)
	want := hub.PushImage(t, "team/gw", "1.0")
	hub.Break(testregistry.HideDigest())
	c := client(t, registry.Options{})
	for _, ref := range []string{hub.Reference("team/gw", "1.0"), hub.Host + "/team/gw@" + want.String()} {
		if got := success(t, c, ref, plain); got != want {
			t.Errorf("%s: got %s, want %s", ref, got, want)
		}
	}
}

func TestRetryAfterIsHonouredWithinReason(t *testing.T) {
	hub := testregistry.Start(t)
	c := client(t, registry.Options{})
	for header, want := range map[string]time.Duration{
		"7":                       7 * time.Second,
		"0":                       0,
		"-5":                      0,
		"999999999":               5 * time.Minute,
		"99999999999999999999999": 0,
		"soon":                    0,
		time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat):    0,
		time.Now().Add(9 * time.Hour).UTC().Format(http.TimeFormat): 5 * time.Minute,
	} {
		hub.Break(testregistry.AnswerRetryAfter(429, header))
		if e := failure(t, c, hub.Reference("team/gw", "1.0"), plain); e.RetryAfter() != want {
			t.Errorf("Retry-After: %s: wait %s, want %s", header, e.RetryAfter(), want)
		}
	}
}

func TestThePeersWordsAreForTheLogAlone(t *testing.T) {
	hub := testregistry.Start(t)
	c := client(t, registry.Options{})
	for _, status := range []int{400, 403, 404, 429, 500} {
		hub.Break(testregistry.AnswerText(status, "evil\x1b[31m \u202e words"+strings.Repeat("!", 10_000)))
		e := failure(t, c, hub.Host+"/team/gw@"+missing, plain)
		if strings.Contains(e.Error(), "evil") {
			t.Errorf("%d: the peer speaks in the status: %s", status, e)
		}
		if !strings.HasPrefix(e.Detail, `"evil\x1b[31m \u202e words!!!`) || len(e.Detail) > 400 {
			t.Errorf("%d: the detail is not quoted and cut: %s", status, e.Detail)
		}
	}
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	for name, hub := range map[string]*testregistry.Registry{
		"anonymous": testregistry.Start(t, testregistry.WithTLS()),
		"basic":     testregistry.Start(t, testregistry.WithTLS(), testregistry.WithBasicAuth("robot", "hunter2")),
		"token":     testregistry.Start(t, testregistry.WithTLS(), testregistry.WithTokenAuth("robot", "hunter2")),
	} {
		c := client(t, registry.Options{})
		hub.PushImage(t, "team/gw", "1.0")
		access := registry.Access{CABundle: hub.CA}
		if name != "anonymous" {
			access.Credentials = credentials(t, map[string]string{hub.Host: "robot:hunter2"})
		}
		for i := range 10 {
			success(t, c, hub.Reference("team/gw", "1.0"), access)
			failure(t, c, hub.Reference("team/gw", "missing"), access)
			if n := hub.Connections(); n != 1 {
				t.Fatalf("%s: %d connections after %d rounds", name, n, i+1)
			}
		}
	}
}

func TestConnectionsToOneHostAreBounded(t *testing.T) {
	const attempts, most = 100, 40
	hub := testregistry.Start(t, testregistry.WithRoundTrip(time.Millisecond))
	hub.PushImage(t, "team/gw", "1.0")
	c := client(t, registry.Options{})
	var running sync.WaitGroup
	for range attempts {
		running.Go(func() {
			if _, err := c.Resolve(t.Context(), parse(t, hub.Reference("team/gw", "1.0")), plain); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	if n := hub.Connections(); n > most {
		t.Errorf("%d connections for %d attempts at a time", n, attempts)
	}
}

func TestTheCallerCanGiveUp(t *testing.T) {
	hub := testregistry.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	hub.Break(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		cancel()
		testregistry.Hang()(w, req, next)
	})
	_, err := client(t, registry.Options{}).Resolve(ctx, parse(t, hub.Reference("team/gw", "1")), plain)
	var e *registry.Error
	if !errors.As(err, &e) || e.Kind != registry.Interrupted || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestAnAccessThatContradictsItselfIsTerminal(t *testing.T) {
	hub := testregistry.Start(t)
	c := client(t, registry.Options{})
	for name, row := range map[string]struct {
		access registry.Access
		text   string
	}{
		"credentials in the clear": {
			registry.Access{PlainHTTP: true, Credentials: credentials(t, map[string]string{hub.Host: "robot:hunter2"})},
			"plainHTTP and credentials cannot be had together, credentials are sent over TLS alone; remove one of them",
		},
		"a CA without TLS":  {registry.Access{PlainHTTP: true, CABundle: []byte("x")}, "plainHTTP and caBundle cannot be had together, plain HTTP has no certificates; remove one of them"},
		"a CA that is none": {registry.Access{CABundle: []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")}, "caBundle holds no certificate; give PEM blocks of type CERTIFICATE"},
		"a CA without end":  {registry.Access{CABundle: make([]byte, 2<<20)}, "caBundle is larger than 1 MiB; leave only the authorities of this registry in it"},
	} {
		e := failure(t, c, hub.Reference("team/gw", "1.0"), row.access)
		if e.Kind != registry.InvalidAccess || !e.Terminal() || !registry.IsTerminal(e) || e.Error() != "registry "+hub.Host+": "+row.text {
			t.Errorf("%s: got %s, %q", name, e.Kind, e)
		}
	}
	if _, err := c.Resolve(t.Context(), image.Reference{}, plain); !registry.IsTerminal(err) {
		t.Errorf("no reference: %v", err)
	}
	if n := len(hub.Requests()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestAttemptsAreCounted(t *testing.T) {
	hub := testregistry.Start(t)
	hub.PushImage(t, "team/gw", "1.0")
	metrics := prometheus.NewRegistry()
	c := client(t, registry.Options{Registerer: metrics})
	second := client(t, registry.Options{Registerer: metrics})
	success(t, c, hub.Reference("team/gw", "1.0"), plain)
	success(t, second, hub.Reference("team/gw", "1.0"), plain)
	failure(t, c, hub.Reference("team/gw", "2.0"), plain)
	if got := attempts(t, metrics); got["Resolved"] != 2 || got["NotFound"] != 1 {
		t.Errorf("counted %v", got)
	}
	if problems, err := testutil.GatherAndLint(metrics); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// attempts reads how many there were, by outcome.
func attempts(tb testing.TB, metrics prometheus.Gatherer) map[string]float64 {
	tb.Helper()
	families, err := metrics.Gather()
	if err != nil {
		tb.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "gatehouse_registry_requests_total" {
			tb.Errorf("a metric nobody knows: %s", family.GetName())
		}
		for _, metric := range family.GetMetric() {
			got[metric.GetLabel()[0].GetValue()] = metric.GetCounter().GetValue()
		}
	}
	return got
}
