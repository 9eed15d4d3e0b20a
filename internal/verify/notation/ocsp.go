package notation

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ocsp"
	"k8s.io/utils/clock"
)

const (
	maxOCSP = 20 << 10 // bytes of an answer; one has about 2 KB
	maxSkew = 5 * time.Minute
)

// ocspAsker is the transport of the library's OCSP requests. It keeps answers that
// are proven, and refuses what the library would take: an answer that is signed by
// any certificate of the issuer, so also by the revoked signer itself, where only a
// certificate for that purpose may sign (RFC 6960, 4.2.2.2), and one from the
// future.
type ocspAsker struct {
	client *http.Client
	cache  *Cache
	clock  clock.PassiveClock
}

// RoundTrip answers from the cache, or asks.
func (a *ocspAsker) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Body != nil {
		defer request.Body.Close()
	}
	inquiry, err := inquiryOf(request.Context())
	if err != nil {
		return nil, err
	}
	asked, err := ocspRequest(request)
	if err != nil {
		return nil, err
	}
	c, issuer, found := inquiry.find(func(c, issuer *x509.Certificate) bool {
		expected, err := ocsp.CreateRequest(c, issuer, &ocsp.RequestOptions{Hash: crypto.SHA1})
		return err == nil && bytes.Equal(expected, asked)
	})
	if !found {
		return nil, errors.New("the request is about no certificate of the chain")
	}
	body, err := a.answer(request, asked, c, issuer)
	if err != nil {
		inquiry.note(c, err)
		return nil, err
	}
	return answered(request, body), nil
}

// answer is what is known of a certificate, from the cache or from whom the request
// is for.
func (a *ocspAsker) answer(request *http.Request, asked []byte, c, issuer *x509.Certificate) ([]byte, error) {
	now := a.clock.Now()
	key := "ocsp:" + fingerprint(c) + fingerprint(issuer)
	kept, fresh, found := a.cache.get(key, now)
	if fresh {
		return kept.([]byte), nil
	}
	// The request is repeated by the client that may reach the network, with its
	// own rules for redirects.
	again := request.Clone(request.Context())
	again.RequestURI = ""
	again.Body, again.GetBody = nil, nil
	if request.Method == http.MethodPost {
		again.Body = io.NopCloser(bytes.NewReader(asked))
		again.ContentLength = int64(len(asked))
	}
	body, err := readAnswer(a.client, again, maxOCSP)
	if err == nil {
		err = a.prove(key, body, c, issuer, now)
	}
	if err != nil && found { // what was said last is still valid
		return kept.([]byte), nil
	}
	return body, err
}

// prove refuses an answer that is not the issuer's, and keeps one that decides.
func (a *ocspAsker) prove(key string, body []byte, c, issuer *x509.Certificate, now time.Time) error {
	answer, err := ocsp.ParseResponseForCert(body, c, issuer)
	if err != nil {
		return trouble("its answer is not one of the issuer about this certificate")
	}
	if by := answer.Certificate; by != nil && !by.Equal(issuer) {
		if !slices.Contains(by.ExtKeyUsage, x509.ExtKeyUsageOCSPSigning) {
			return trouble("its answer is signed with a certificate that may not sign answers")
		}
		if now.Before(by.NotBefore) || now.After(by.NotAfter) {
			return trouble("its answer is signed with a certificate that is not valid now")
		}
	}
	if answer.ThisUpdate.After(now.Add(maxSkew)) {
		return trouble("its answer is from the future")
	}
	if now.After(answer.NextUpdate) { // also where it says none
		return trouble("its answer is out of date")
	}
	switch answer.Status {
	case ocsp.Good, ocsp.Revoked:
		a.cache.put(key, body, int64(len(body)), now, answer.NextUpdate)
		return nil
	default:
		return trouble("it does not know the certificate")
	}
}

// ocspRequest is the request that the library makes: the body of a POST, or the
// last part of a GET's path.
func ocspRequest(request *http.Request) ([]byte, error) {
	if request.Method == http.MethodPost {
		return io.ReadAll(io.LimitReader(request.Body, maxOCSP))
	}
	path := request.URL.EscapedPath()
	text, err := url.QueryUnescape(path[strings.LastIndex(path, "/")+1:])
	if err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(text)
}

func fingerprint(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	return hex.EncodeToString(sum[:])
}
