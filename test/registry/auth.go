package registry

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"testing"
	"time"
)

// issuedToken is the token that the token service gives.
const issuedToken = "token-of-the-test-registry"

type authenticationKind int

const (
	anonymous authenticationKind = iota
	basic
	token
)

// authentication is how a registry identifies itself and those who ask.
type authentication struct {
	kind           authenticationKind
	user, password string
	realm          string // empty is the registry's own /token
	certificate    tls.Certificate
}

func (r *Registry) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		user, password, _ := req.BasicAuth()
		known := user == r.auth.user && password == r.auth.password
		switch {
		case r.auth.kind == token && req.URL.Path == "/token":
			if r.auth.user != "" && !known {
				refuse(w, http.StatusUnauthorized)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"token":%q}`, issuedToken)
		case r.auth.kind == token && req.Header.Get("Authorization") != "Bearer "+issuedToken:
			realm := r.auth.realm
			if realm == "" {
				realm = r.scheme() + "://" + req.Host + "/token"
			}
			w.Header().Set("Www-Authenticate", fmt.Sprintf(`Bearer realm=%q,service="test"`, realm))
			refuse(w, http.StatusUnauthorized)
		case r.auth.kind == basic && !known:
			w.Header().Set("Www-Authenticate", `Basic realm="test"`)
			refuse(w, http.StatusUnauthorized)
		default:
			next.ServeHTTP(w, req)
		}
	})
}

func (r *Registry) scheme() string {
	if r.tls {
		return "https"
	}
	return "http"
}

func refuse(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"errors":[{"code":"UNAUTHORIZED","message":"the peer says %d"}]}`, status)
}

// authority signs certificates of test registries.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func newAuthority(tb testing.TB) authority {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "authority of a test registry"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		tb.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatal(err)
	}
	return authority{certificate, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

func (a authority) issue(tb testing.TB, names []string) tls.Certificate {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: "test registry"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     names,
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		tb.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func serverConfig(certificate tls.Certificate) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}}
}
