package notation

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/crypto/ocsp"
)

// maxRequest bounds an OCSP request, in bytes.
const maxRequest = 16 << 10

// ServeHTTP answers for revocation: OCSP under /ocsp/ and lists under /crl/, each
// followed by the issuer, root or intermediate. What is answered is good for an
// hour.
func (a *Authority) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.EscapedPath()
	switch {
	case strings.HasPrefix(path, "/ocsp/"):
		issuer, rest, _ := strings.Cut(strings.TrimPrefix(path, "/ocsp/"), "/")
		a.serveOCSP(w, r, issuer, rest)
	case strings.HasPrefix(path, "/crl/"):
		a.serveCRL(w, strings.TrimPrefix(path, "/crl/"))
	default:
		http.NotFound(w, r)
	}
}

func (a *Authority) issuer(name string) (*x509.Certificate, crypto.Signer, bool) {
	switch name {
	case "root":
		return a.Root, a.rootKey, true
	case "intermediate":
		return a.Intermediate, a.intermediateKey, true
	default:
		return nil, nil, false
	}
}

func (a *Authority) serveOCSP(w http.ResponseWriter, r *http.Request, name, rest string) {
	request, err := readOCSP(r, rest)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	now := time.Now()
	answer := ocsp.Response{
		Status: ocsp.Good, SerialNumber: request.SerialNumber, IssuerHash: request.HashAlgorithm,
		ThisUpdate: now.Add(-time.Minute), NextUpdate: now.Add(time.Hour),
	}
	a.mu.Lock()
	if at, revoked := a.revoked[request.SerialNumber.String()]; revoked {
		answer.Status, answer.RevokedAt, answer.RevocationReason = ocsp.Revoked, at, ocsp.KeyCompromise
	}
	a.mu.Unlock()
	encoded, err := a.Answer(name, answer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/ocsp-response")
	_, _ = w.Write(encoded) // the asker is gone
}

// Answer signs an answer to OCSP as an issuer, root or intermediate.
func (a *Authority) Answer(name string, answer ocsp.Response) ([]byte, error) {
	issuer, key, known := a.issuer(name)
	if !known {
		return nil, fmt.Errorf("answer for revocation: there is no issuer %q", name)
	}
	return ocsp.CreateResponse(issuer, issuer, answer, key)
}

// List signs a revocation list as an issuer, root or intermediate.
func (a *Authority) List(name string, list *x509.RevocationList) ([]byte, error) {
	issuer, key, known := a.issuer(name)
	if !known {
		return nil, fmt.Errorf("answer for revocation: there is no issuer %q", name)
	}
	return x509.CreateRevocationList(rand.Reader, list, issuer, key)
}

func readOCSP(r *http.Request, rest string) (*ocsp.Request, error) {
	if r.Method == http.MethodPost {
		body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest))
		if err != nil {
			return nil, err
		}
		return ocsp.ParseRequest(body)
	}
	text, err := url.QueryUnescape(rest)
	if err != nil {
		return nil, err
	}
	der, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	return ocsp.ParseRequest(der)
}

func (a *Authority) serveCRL(w http.ResponseWriter, name string) {
	now := time.Now()
	list := &x509.RevocationList{ThisUpdate: now.Add(-time.Minute), NextUpdate: now.Add(time.Hour)}
	a.mu.Lock()
	a.crls++
	list.Number = big.NewInt(a.crls)
	for serial, at := range a.revoked {
		number, _ := new(big.Int).SetString(serial, 10)
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, x509.RevocationListEntry{
			SerialNumber: number, RevocationTime: at, ReasonCode: ocsp.KeyCompromise,
		})
	}
	a.mu.Unlock()
	encoded, err := a.List(name, list)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/pkix-crl")
	_, _ = w.Write(encoded) // the asker is gone
}
