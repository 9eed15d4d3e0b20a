package notation

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ocsp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/gatehouse-dev/gatehouse/internal/registry"
	"github.com/gatehouse-dev/gatehouse/internal/verify"
	authority "github.com/gatehouse-dev/gatehouse/test/signatures/notation"
)

// methods are the ways in which an authority may answer for revocation, at an
// address.
var methods = map[string]func(address string) authority.Options{
	"OCSP": func(address string) authority.Options { return authority.Options{OCSP: address} },
	"CRL":  func(address string) authority.Options { return authority.Options{CRL: address} },
	"both": func(address string) authority.Options { return authority.Options{OCSP: address, CRL: address} },
}

func eachMethod(t *testing.T, test func(t *testing.T, r *responder, ca *authority.Authority)) {
	t.Helper()
	for _, name := range []string{"OCSP", "CRL", "both"} {
		t.Run(name, func(t *testing.T) {
			r := newResponder(t)
			ca := newAuthority(t, methods[name](r.URL))
			r.serve(ca)
			test(t, r, ca)
		})
	}
}

func asking(ca *authority.Authority, revocation Revocation) Config {
	config := trusting(ca)
	config.Revocation = revocation
	config.HTTPClient = http.DefaultClient
	return config
}

func TestRevokedFailsAtEveryLevel(t *testing.T) {
	eachMethod(t, func(t *testing.T, r *responder, ca *authority.Authority) {
		signer := issue(t, ca, authority.Leaf{})
		signature := sign(t, signer, authority.Signing{})
		expect(t, judged(t, asking(ca, Enforce), signature), verify.Passed, verify.ReasonVerified)
		if r.count() == 0 {
			t.Error("nobody was asked")
		}
		// Also if it was revoked after it signed: who revokes a key does not know
		// since when others had it.
		ca.Revoke(signer.Chain[0], time.Now())
		for _, level := range []Level{Strict, Permissive, Audit} {
			for _, revocation := range []Revocation{Enforce, Log} {
				config := asking(ca, revocation)
				config.Level = level
				expect(t, judged(t, config, signature), verify.Failed, verify.ReasonRevoked, `"CN=release`)
			}
		}
		asked := r.count()
		expect(t, judged(t, asking(ca, Skip), signature), verify.Passed, verify.ReasonVerified)
		if r.count() != asked {
			t.Error("somebody was asked, though revocation is skipped")
		}
	})
}

func TestRevokedIntermediate(t *testing.T) {
	eachMethod(t, func(t *testing.T, _ *responder, ca *authority.Authority) {
		ca.Revoke(ca.Intermediate, time.Now())
		expect(t, judged(t, asking(ca, Log), sign(t, issue(t, ca, authority.Leaf{}), authority.Signing{})), verify.Failed, verify.ReasonRevoked, "Example Signing")
	})
}

func TestRevokedTimestampAuthority(t *testing.T) {
	eachMethod(t, func(t *testing.T, _ *responder, tsa *authority.Authority) {
		ca := newAuthority(t, authority.Options{})
		stamper := must[*authority.Timestamper](t)(tsa.Timestamper(time.Now()))
		signature := sign(t, issue(t, ca, authority.Leaf{}), authority.Signing{Timestamps: stamper})
		config := stampedBy(asking(ca, Enforce), tsa)
		expect(t, judged(t, config, signature), verify.Passed, verify.ReasonVerified)
		tsa.Revoke(stamper.Certificate, time.Now())
		config.Level = Permissive
		expect(t, judged(t, config, signature), verify.Failed, verify.ReasonRevoked, "Example Time")
	})
}

func TestRevocationThatCannotBeLearnt(t *testing.T) {
	eachMethod(t, func(t *testing.T, r *responder, ca *authority.Authority) {
		r.serve(nil)
		signature := sign(t, issue(t, ca, authority.Leaf{}), authority.Signing{})
		for _, test := range []struct {
			level      Level
			revocation Revocation
			outcome    verify.Outcome
		}{
			{Strict, Enforce, verify.Undecided},
			{Permissive, Enforce, verify.Undecided},
			{Audit, Enforce, verify.Passed},
			{Strict, Log, verify.Passed},
		} {
			config := asking(ca, test.revocation)
			config.Level = test.level
			finding := judged(t, config, signature)
			if test.outcome == verify.Undecided {
				expect(t, finding, verify.Undecided, verify.ReasonRevocationUnknown, r.URL, "it answered 503", "set revocation to Log")
				continue
			}
			expect(t, finding, verify.Passed, verify.ReasonVerified)
			if len(finding.Warnings) != 1 || !strings.Contains(finding.Warnings[0], "not known whether") {
				t.Errorf("the warnings are %q", finding.Warnings)
			}
		}
	})
}

// What is decided without the network is decided so: an address in a certificate
// is nobody's that nobody vouches for.
func TestNothingIsAskedBeforeTheSignerIsTrusted(t *testing.T) {
	eachMethod(t, func(t *testing.T, r *responder, stranger *authority.Authority) {
		ca := newAuthority(t, authority.Options{})
		signer := issue(t, stranger, authority.Leaf{})
		tsa := must[*authority.Timestamper](t)(stranger.Timestamper(time.Now()))
		for _, level := range []Level{Strict, Permissive, Audit} {
			untrusted := asking(ca, Enforce)
			untrusted.Level = level
			expect(t, judged(t, untrusted, sign(t, signer, authority.Signing{})), verify.Failed, verify.ReasonUntrustedSigner)

			stamped := sign(t, issue(t, ca, authority.Leaf{}), authority.Signing{Timestamps: tsa})
			config := stampedBy(asking(ca, Enforce), ca)
			config.Level = level
			judged(t, config, stamped)

			mismatch := asking(stranger, Enforce)
			mismatch.Level = level
			mismatch.TrustedIdentities = []string{"x509.subject: CN=other,O=Example,ST=WA,C=US"}
			expect(t, judged(t, mismatch, sign(t, signer, authority.Signing{})), verify.Failed, verify.ReasonIdentityMismatch)
		}
		if n := r.count(); n > 0 {
			t.Errorf("%d requests were sent to addresses in certificates that nobody vouches for", n)
		}
	})
}

func TestOnlyTheGivenClientIsUsed(t *testing.T) {
	eachMethod(t, func(t *testing.T, r *responder, ca *authority.Authority) {
		config := asking(ca, Enforce)
		config.HTTPClient = &http.Client{Transport: refusing{}}
		expect(t, judged(t, config, sign(t, issue(t, ca, authority.Leaf{}), authority.Signing{})), verify.Undecided, verify.ReasonRevocationUnknown)
		if r.count() > 0 {
			t.Error("another client was used")
		}
	})
}

// A certificate authority in a private network is common, and that Gatehouse does
// not dial there by itself is to be learnt from the message.
func TestAddressThatIsNotDialledIsNamed(t *testing.T) {
	eachMethod(t, func(t *testing.T, r *responder, ca *authority.Authority) {
		client := registry.New(registry.Options{})
		defer client.Close()
		config := asking(ca, Enforce)
		config.HTTPClient = client.Anonymous()
		expect(t, judged(t, config, sign(t, issue(t, ca, authority.Leaf{}), authority.Signing{})),
			verify.Undecided, verify.ReasonRevocationUnknown, r.URL, "loopback address", "--registry-allow-loopback")
		if r.count() > 0 {
			t.Error("it is dialled")
		}
	})
}

type refusing struct{}

func (refusing) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("this address is not dialled")
}

func TestAnswersAreKept(t *testing.T) {
	for _, method := range []string{"OCSP", "CRL"} {
		t.Run(method, func(t *testing.T) {
			r := newResponder(t)
			ca := newAuthority(t, methods[method](r.URL))
			r.serve(ca)
			signer := issue(t, ca, authority.Leaf{})
			signature := sign(t, signer, authority.Signing{})
			clock := clocktesting.NewFakePassiveClock(time.Now())
			config := asking(ca, Enforce)
			config.Clock, config.Cache = clock, NewCache(CacheOptions{})

			expect(t, judged(t, config, signature), verify.Passed, verify.ReasonVerified)
			asked := r.count()
			if asked != 2 {
				t.Errorf("%d requests were sent about two certificates", asked)
			}
			// Another verifier, with another signature of the same signer.
			expect(t, judged(t, config, sign(t, signer, authority.Signing{Format: authority.COSE})), verify.Passed, verify.ReasonVerified)
			if r.count() != asked {
				t.Error("what was answered is asked again")
			}
			// When it is old, and nobody answers, it still counts.
			clock.SetTime(clock.Now().Add(20 * time.Minute))
			r.serve(nil)
			expect(t, judged(t, config, signature), verify.Passed, verify.ReasonVerified)
			if r.count() == asked {
				t.Error("what is old is not asked again")
			}
			// When somebody answers, that counts at once.
			ca.Revoke(signer.Chain[0], time.Now())
			r.serve(ca)
			expect(t, judged(t, config, signature), verify.Failed, verify.ReasonRevoked)
			// And when it is out of date, it does not count any more.
			r.serve(nil)
			clock.SetTime(clock.Now().Add(2 * time.Hour))
			expect(t, judged(t, config, signature), verify.Undecided, verify.ReasonRevocationUnknown)
		})
	}
}

// answer makes the responder answer OCSP for the leaf with what edit makes of a
// good answer, signed by a signer of the authority, where there is one.
func answer(t *testing.T, ca *authority.Authority, leaf *x509.Certificate, by *authority.Signer, edit func(*ocsp.Response)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/ocsp/intermediate") {
			ca.ServeHTTP(w, r)
			return
		}
		template := ocsp.Response{
			Status: ocsp.Good, SerialNumber: leaf.SerialNumber,
			ThisUpdate: time.Now().Add(-time.Minute), NextUpdate: time.Now().Add(time.Hour),
		}
		if edit != nil {
			edit(&template)
		}
		var encoded []byte
		var err error
		if by != nil {
			template.Certificate = by.Chain[0]
			encoded, err = ocsp.CreateResponse(ca.Intermediate, by.Chain[0], template, by.Key)
		} else {
			encoded, err = ca.Answer("intermediate", template)
		}
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(encoded)
	})
}

func TestOCSPAnswersThatDoNotCount(t *testing.T) {
	r := newResponder(t)
	ca, stranger := newAuthority(t, authority.Options{OCSP: r.URL}), newAuthority(t, authority.Options{})
	signer := issue(t, ca, authority.Leaf{})
	signature := sign(t, signer, authority.Signing{})
	raw := func(body string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) })
	}
	for name, test := range map[string]struct {
		handler http.Handler
		outcome verify.Outcome
	}{
		"good": {answer(t, ca, signer.Chain[0], nil, nil), verify.Passed},
		"signed by one who may": {answer(t, ca, signer.Chain[0], issue(t, ca, authority.Leaf{Edit: func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageOCSPSigning}
		}}), nil), verify.Passed},
		"signed by the signer itself": {answer(t, ca, signer.Chain[0], signer, nil), verify.Undecided},
		"signed by one whose certificate expired": {answer(t, ca, signer.Chain[0], issue(t, ca, authority.Leaf{NotAfter: time.Now().Add(-time.Hour), Edit: func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageOCSPSigning}
		}}), nil), verify.Undecided},
		"signed by a stranger": {answer(t, ca, signer.Chain[0], issue(t, stranger, authority.Leaf{Edit: func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageOCSPSigning}
		}}), nil), verify.Undecided},
		"about another": {answer(t, ca, ca.Intermediate, nil, nil), verify.Undecided},
		"out of date":   {answer(t, ca, signer.Chain[0], nil, func(o *ocsp.Response) { o.NextUpdate = time.Now().Add(-time.Second) }), verify.Undecided},
		"no date":       {answer(t, ca, signer.Chain[0], nil, func(o *ocsp.Response) { o.NextUpdate = time.Time{} }), verify.Undecided},
		"the future":    {answer(t, ca, signer.Chain[0], nil, func(o *ocsp.Response) { o.ThisUpdate = time.Now().Add(30 * time.Minute) }), verify.Undecided},
		"not known":     {answer(t, ca, signer.Chain[0], nil, func(o *ocsp.Response) { o.Status = ocsp.Unknown }), verify.Undecided},
		"garbage":       {raw("garbage"), verify.Undecided},
		"nothing":       {raw(""), verify.Undecided},
		"try later":     {raw(string(ocsp.TryLaterErrorResponse)), verify.Undecided},
		"a bomb":        {raw(strings.Repeat("x", 10*maxOCSP)), verify.Undecided},
		"not found":     {http.NotFoundHandler(), verify.Undecided},
		"elsewhere for ever": {http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		}), verify.Undecided},
	} {
		t.Run(name, func(t *testing.T) {
			r.serve(test.handler)
			config := asking(ca, Enforce)
			config.Cache = NewCache(CacheOptions{})
			finding := judged(t, config, signature)
			if finding.Outcome != test.outcome {
				t.Errorf("got %s, %s: %s; want %s", finding.Outcome, finding.Reason, finding.Message, test.outcome)
			}
			if name == "a bomb" && !strings.Contains(finding.Message, "more than 20480 bytes") {
				t.Errorf("the message %q does not say that it is too large", finding.Message)
			}
			// Nothing of it is left: a good answer counts at once.
			r.serve(ca)
			expect(t, judged(t, config, signature), verify.Passed, verify.ReasonVerified)
		})
	}
}

func TestListsThatDoNotCount(t *testing.T) {
	r := newResponder(t)
	ca, stranger := newAuthority(t, authority.Options{CRL: r.URL}), newAuthority(t, authority.Options{})
	signer := issue(t, ca, authority.Leaf{})
	signature := sign(t, signer, authority.Signing{})
	list := func() *x509.RevocationList {
		return &x509.RevocationList{Number: big.NewInt(7), ThisUpdate: time.Now().Add(-time.Minute), NextUpdate: time.Now().Add(time.Hour)}
	}
	revoking := func(number int64) *x509.RevocationList {
		l := list()
		l.Number = big.NewInt(number)
		l.RevokedCertificateEntries = []x509.RevocationListEntry{{SerialNumber: signer.Chain[0].SerialNumber, RevocationTime: time.Now()}}
		return l
	}
	withChanges := func(l *x509.RevocationList) *x509.RevocationList {
		l.ExtraExtensions = append(l.ExtraExtensions, pkix.Extension{Id: freshestCRL, Value: pointTo(t, r.URL+"/changes")})
		return l
	}
	changes := func(l *x509.RevocationList) *x509.RevocationList {
		base := must[[]byte](t)(asn1.Marshal(big.NewInt(7)))
		l.ExtraExtensions = append(l.ExtraExtensions, pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 27}, Critical: true, Value: base})
		return l
	}
	lists := func(by *authority.Authority, base, delta *x509.RevocationList) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
			made, from := base, by
			switch request.URL.Path {
			case "/crl/intermediate":
			case "/changes":
				made, from = delta, ca
			default:
				ca.ServeHTTP(w, request)
				return
			}
			_, _ = w.Write(must[[]byte](t)(from.List("intermediate", made)))
		})
	}
	old, future := list(), list()
	old.NextUpdate = time.Now().Add(-time.Second)
	future.ThisUpdate = time.Now().Add(30 * time.Minute)
	for name, test := range map[string]struct {
		handler http.Handler
		outcome verify.Outcome
		changes bool // whether the list of changes is asked for
	}{
		"good":                             {lists(ca, list(), nil), verify.Passed, false},
		"changes nothing":                  {lists(ca, withChanges(list()), changes(withNumber(list(), 8))), verify.Passed, true},
		"revoked by a change":              {lists(ca, withChanges(list()), changes(revoking(8))), verify.Failed, true},
		"changes that are none":            {lists(ca, withChanges(list()), revoking(8)), verify.Undecided, true},
		"of a stranger, with changes":      {lists(stranger, withChanges(list()), changes(list())), verify.Undecided, false},
		"of a stranger":                    {lists(stranger, list(), nil), verify.Undecided, false},
		"of a stranger, revoking":          {lists(stranger, revoking(8), nil), verify.Undecided, false},
		"out of date":                      {lists(ca, old, nil), verify.Undecided, false},
		"the future":                       {lists(ca, future, nil), verify.Undecided, false},
		"revoking":                         {lists(ca, revoking(8), nil), verify.Failed, false},
		"garbage":                          {http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("x")) }), verify.Undecided, false},
		"a bomb":                           {bomb{}, verify.Undecided, false},
		"a list that nobody can find":      {http.NotFoundHandler(), verify.Undecided, false},
		"an answer that never really ends": {http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }), verify.Undecided, false},
	} {
		t.Run(name, func(t *testing.T) {
			r.serve(test.handler)
			config := asking(ca, Enforce)
			config.Cache = NewCache(CacheOptions{})
			before := r.count()
			finding := judged(t, config, signature)
			if finding.Outcome != test.outcome {
				t.Errorf("got %s, %s: %s; want %s", finding.Outcome, finding.Reason, finding.Message, test.outcome)
			}
			if name == "a bomb" && !strings.Contains(finding.Message, "more than 8388608 bytes") {
				t.Errorf("the message %q does not say that it is too large", finding.Message)
			}
			if asked := r.askedSince(before, "/changes"); asked != test.changes {
				t.Errorf("asked for changes: %v", asked)
			}
			if test.outcome == verify.Undecided {
				r.serve(ca)
				expect(t, judged(t, config, signature), verify.Passed, verify.ReasonVerified)
			}
		})
	}
}

func withNumber(l *x509.RevocationList, number int64) *x509.RevocationList {
	l.Number = big.NewInt(number)
	return l
}

// pointTo is the value of an extension that names an address (RFC 5280, 4.2.1.13).
func pointTo(t *testing.T, address string) []byte {
	t.Helper()
	wrap := func(class, tag int, content []byte) []byte {
		return must[[]byte](t)(asn1.Marshal(asn1.RawValue{Class: class, Tag: tag, IsCompound: true, Bytes: content}))
	}
	name := must[[]byte](t)(asn1.Marshal(asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 6, Bytes: []byte(address)}))
	point := wrap(asn1.ClassContextSpecific, 0, wrap(asn1.ClassContextSpecific, 0, name))
	return wrap(asn1.ClassUniversal, asn1.TagSequence, wrap(asn1.ClassUniversal, asn1.TagSequence, point))
}

type bomb struct{}

func (bomb) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	chunk := make([]byte, 1<<20)
	for range 2 * maxCRL / len(chunk) {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

// The library that asks dereferences nil at an address that does not parse.
func TestAddressesThatAreNone(t *testing.T) {
	for name, edit := range map[string]func(*x509.Certificate){
		"OCSP that does not parse": func(c *x509.Certificate) { c.OCSPServer = []string{"http://[::1/%zz"} },
		"a list that does not":     func(c *x509.Certificate) { c.CRLDistributionPoints = []string{"http://%zz"} },
		"nowhere":                  func(c *x509.Certificate) { c.OCSPServer = []string{"http:///x"} },
		"a directory":              func(c *x509.Certificate) { c.CRLDistributionPoints = []string{"ldap://directory.example.com/cn=x"} },
		"a file":                   func(c *x509.Certificate) { c.CRLDistributionPoints = []string{"file:///etc/passwd"} },
		"too many": func(c *x509.Certificate) {
			c.OCSPServer = strings.Split(strings.Repeat("http://127.0.0.1:1/ ", 9), " ")
		},
		"too long": func(c *x509.Certificate) { c.OCSPServer = []string{"http://127.0.0.1/" + strings.Repeat("x", 4<<10)} },
	} {
		t.Run(name, func(t *testing.T) {
			ca := newAuthority(t, authority.Options{})
			config := asking(ca, Enforce)
			config.HTTPClient = &http.Client{Transport: refusing{}}
			signature := sign(t, issue(t, ca, authority.Leaf{Edit: edit}), authority.Signing{})
			expect(t, judged(t, config, signature), verify.Undecided, verify.ReasonRevocationUnknown)
			config.Revocation = Skip
			expect(t, judged(t, config, signature), verify.Passed, verify.ReasonVerified)
		})
	}
}

func TestVerificationEndsWithItsContext(t *testing.T) {
	eachMethod(t, func(t *testing.T, r *responder, ca *authority.Authority) {
		ctx, cancel := context.WithCancel(t.Context())
		r.serve(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
			cancel()
			<-request.Context().Done()
		}))
		verifier := must[*Verifier](t)(New(asking(ca, Enforce)))
		artifact := artifactOf(t, sign(t, issue(t, ca, authority.Leaf{}), authority.Signing{}))
		expect(t, verifier.Verify(ctx, pinned(t, app), artifact)[0], verify.Undecided, verify.ReasonRevocationUnknown)
		r.CloseClientConnections() // of what is still being fetched
	})
}
