package notation

import (
	"context"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/notaryproject/notation-core-go/revocation/crl"
	"k8s.io/utils/clock"
)

const (
	// maxCRL bounds a revocation list, in bytes.
	maxCRL = 8 << 20
	// parsedCRL is how much more memory a list takes when parsed, roughly.
	parsedCRL = 8
	crlLimit  = 15 * time.Second
)

var (
	// freshestCRL is the extension that names a list of changes (RFC 5280, 5.2.6).
	freshestCRL = asn1.ObjectIdentifier{2, 5, 29, 46}
	// deltaIndicator is the extension that says a list is one (RFC 5280, 5.2.4).
	deltaIndicator = asn1.ObjectIdentifier{2, 5, 29, 27}
)

// crlAsker fetches revocation lists, and keeps those that are proven to be of the
// issuer. Unlike the library's own fetcher it follows the
// address of a list of changes only after that.
type crlAsker struct {
	client *http.Client
	cache  *Cache
	clock  clock.PassiveClock
}

// Fetch returns the list at address.
func (a *crlAsker) Fetch(ctx context.Context, address string) (*crl.Bundle, error) {
	inquiry, err := inquiryOf(ctx)
	if err != nil {
		return nil, err
	}
	c, issuer, found := inquiry.find(func(c, _ *x509.Certificate) bool {
		return slices.Contains(c.CRLDistributionPoints, address)
	})
	if !found {
		return nil, errors.New("no certificate of the chain names this list")
	}
	bundle, err := a.list(ctx, address, issuer)
	if err != nil {
		inquiry.note(c, err)
	}
	return bundle, err
}

// list is the list of an issuer, from the cache or from where it is.
func (a *crlAsker) list(ctx context.Context, address string, issuer *x509.Certificate) (*crl.Bundle, error) {
	key := "crl:" + fingerprint(issuer) + address
	kept, fresh, found := a.cache.get(key, a.clock.Now())
	if fresh {
		return kept.(*crl.Bundle), nil
	}
	// Whoever asked first may stop waiting while others still do.
	fetched := a.cache.flight.DoChan(key, func() (any, error) {
		if kept, fresh, _ := a.cache.get(key, a.clock.Now()); fresh { // by who was in flight before
			return kept, nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), crlLimit)
		defer cancel()
		return a.fetch(ctx, key, address, issuer)
	})
	select {
	case <-ctx.Done():
		return nil, trouble("it did not answer in time")
	case done := <-fetched:
		switch {
		case done.Err == nil:
			return done.Val.(*crl.Bundle), nil
		case found: // what was said last is still valid
			return kept.(*crl.Bundle), nil
		default:
			return nil, done.Err
		}
	}
}

func (a *crlAsker) fetch(ctx context.Context, key, address string, issuer *x509.Certificate) (bundle *crl.Bundle, err error) {
	// This runs in a goroutine of its own, in which nobody else would recover.
	defer func() {
		if recover() != nil {
			bundle, err = nil, trouble("it cannot be read")
		}
	}()
	encoded, err := get(ctx, a.client, address, maxCRL)
	if err != nil {
		return nil, err
	}
	base, err := x509.ParseRevocationList(encoded)
	if err != nil {
		return nil, trouble("it is no revocation list")
	}
	now := a.clock.Now()
	if err := provenCRL(base, issuer, now); err != nil {
		return nil, err
	}
	bundle = &crl.Bundle{BaseCRL: base}
	size, valid := len(base.Raw), base.NextUpdate
	if names(base, freshestCRL) {
		fetcher, err := crl.NewHTTPFetcher(&http.Client{Transport: &replay{address: address, body: encoded, client: a.client}})
		if err != nil {
			return nil, err
		}
		if bundle, err = fetcher.Fetch(ctx, address); err != nil {
			return nil, trouble("the list of changes that it names cannot be had")
		}
		bundle.BaseCRL = base // the one that is proven
	}
	if delta := bundle.DeltaCRL; delta != nil {
		if err := provenCRL(delta, issuer, now); err != nil {
			return nil, err
		}
		if !names(delta, deltaIndicator) || delta.Number.Cmp(base.Number) <= 0 {
			return nil, trouble("the list of changes that it names is none, or older than what it changes")
		}
		if size += len(delta.Raw); delta.NextUpdate.Before(valid) {
			valid = delta.NextUpdate
		}
	}
	a.cache.put(key, bundle, int64(size)*parsedCRL, now, valid)
	return bundle, nil
}

// provenCRL refuses a list that is not of the issuer, or not of now. A number is
// what the library compares lists by.
func provenCRL(list *x509.RevocationList, issuer *x509.Certificate, now time.Time) error {
	if list.Number == nil {
		return trouble("it has no number")
	}
	if err := list.CheckSignatureFrom(issuer); err != nil {
		return trouble("it is not signed by the issuer")
	}
	if list.ThisUpdate.After(now.Add(maxSkew)) {
		return trouble("it is from the future")
	}
	if now.After(list.NextUpdate) { // also where it says none
		return trouble("it is out of date")
	}
	return nil
}

func names(list *x509.RevocationList, extension asn1.ObjectIdentifier) bool {
	for _, e := range list.Extensions {
		if e.Id.Equal(extension) {
			return true
		}
	}
	return false
}

// replay answers for one address with what was fetched from there already, and
// fetches others.
type replay struct {
	address string
	body    []byte
	client  *http.Client
}

// RoundTrip answers or fetches.
func (r *replay) RoundTrip(request *http.Request) (*http.Response, error) {
	if body := request.Body; body != nil {
		defer body.Close()
	}
	content := r.body
	if request.URL.String() != r.address {
		var err error
		if content, err = get(request.Context(), r.client, request.URL.String(), maxCRL); err != nil {
			return nil, err
		}
	}
	return answered(request, content), nil
}
