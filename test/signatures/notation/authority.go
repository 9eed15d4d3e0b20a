package notation

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"sync"
	"time"
)

// Options of an Authority. The zero value is a fine authority, without
// revocation.
type Options struct {
	// Name stands in the subjects of its certificates. Default "Example".
	Name string
	// OCSP and CRL are the base URLs under which the Authority is served as an
	// http.Handler. Where one is set, the certificates that are issued name it.
	OCSP, CRL string
	// NotAfter is when the root and the intermediate certificate expire.
	// Default: ten years from now.
	NotAfter time.Time
	// IntermediateNotAfter is when the intermediate certificate expires, where
	// it is another time.
	IntermediateNotAfter time.Time
	// Edit alters the intermediate certificate before it is signed: for what an
	// authority should not issue.
	Edit func(*x509.Certificate)
}

// Authority is a root and an intermediate certificate, with their keys. It is
// safe for concurrent use.
type Authority struct {
	// Root and Intermediate are its certificates.
	Root, Intermediate *x509.Certificate

	options         Options
	rootKey         crypto.Signer
	intermediateKey crypto.Signer

	mu      sync.Mutex
	revoked map[string]time.Time // by serial number
	crls    int64                // how many lists were made
}

// New makes an Authority. Its certificates are valid since ten years ago.
func New(options Options) (*Authority, error) {
	if options.Name == "" {
		options.Name = "Example"
	}
	if options.NotAfter.IsZero() {
		options.NotAfter = time.Now().AddDate(10, 0, 0)
	}
	if options.IntermediateNotAfter.IsZero() {
		options.IntermediateNotAfter = options.NotAfter
	}
	a := &Authority{options: options, revoked: map[string]time.Time{}}
	root := a.template(pkix.Name{Country: []string{"US"}, Organization: []string{options.Name}, CommonName: options.Name + " Root"})
	root.NotAfter = options.NotAfter
	asAuthority(root)
	var err error
	if a.Root, a.rootKey, err = issue(root, nil, nil); err != nil {
		return nil, err
	}
	intermediate := a.template(pkix.Name{Country: []string{"US"}, Organization: []string{options.Name}, CommonName: options.Name + " Signing"})
	intermediate.NotAfter = options.IntermediateNotAfter
	asAuthority(intermediate)
	a.name(intermediate, "root")
	if options.Edit != nil {
		options.Edit(intermediate)
	}
	if a.Intermediate, a.intermediateKey, err = issue(intermediate, a.Root, a.rootKey); err != nil {
		return nil, err
	}
	return a, nil
}

// PEM is the root certificate, as a trust store holds it.
func (a *Authority) PEM() []byte { return PEM(a.Root) }

// PEM is certificates as a trust store holds them.
func PEM(certificates ...*x509.Certificate) []byte {
	var out []byte
	for _, c := range certificates {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return out
}

// Leaf is what a signing certificate says. A zero field means its default.
type Leaf struct {
	// Subject defaults to CN=release,O=Example,ST=WA,C=US.
	Subject pkix.Name
	// NotBefore and NotAfter default to ten years ago and the end of the
	// authority.
	NotBefore, NotAfter time.Time
	// Key defaults to a new one on P-256.
	Key crypto.Signer
	// Edit alters the certificate before it is signed.
	Edit func(*x509.Certificate)
}

// Issue makes a signing certificate.
func (a *Authority) Issue(leaf Leaf) (*Signer, error) {
	return a.issueLeaf(leaf, x509.ExtKeyUsageCodeSigning)
}

func (a *Authority) issueLeaf(leaf Leaf, usage x509.ExtKeyUsage) (*Signer, error) {
	if leaf.Subject.String() == "" {
		leaf.Subject = pkix.Name{Country: []string{"US"}, Province: []string{"WA"}, Organization: []string{"Example"}, CommonName: "release"}
	}
	template := a.template(leaf.Subject)
	if !leaf.NotBefore.IsZero() {
		template.NotBefore = leaf.NotBefore
	}
	template.NotAfter = leaf.NotAfter
	if template.NotAfter.IsZero() {
		template.NotAfter = a.Intermediate.NotAfter
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{usage}
	a.name(template, "intermediate")
	if leaf.Edit != nil {
		leaf.Edit(template)
	}
	certificate, key, err := issueFor(template, leaf.Key, a.Intermediate, a.intermediateKey)
	if err != nil {
		return nil, err
	}
	return &Signer{Chain: []*x509.Certificate{certificate, a.Intermediate, a.Root}, Key: key}, nil
}

// Revoke makes the authority say of a certificate, from now on, that it was
// revoked at the given time.
func (a *Authority) Revoke(certificate *x509.Certificate, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.revoked[certificate.SerialNumber.String()] = at
}

func (a *Authority) template(subject pkix.Name) *x509.Certificate {
	serial := make([]byte, 16)
	_, _ = rand.Read(serial) // does not fail
	serial[0] = serial[0]&0x7f | 0x01
	return &x509.Certificate{
		SerialNumber:          new(big.Int).SetBytes(serial),
		Subject:               subject,
		NotBefore:             time.Now().AddDate(-10, 0, 0),
		BasicConstraintsValid: true,
	}
}

func asAuthority(template *x509.Certificate) {
	template.IsCA = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature
}

// name writes into a certificate where its issuer answers for revocation.
func (a *Authority) name(template *x509.Certificate, issuer string) {
	if a.options.OCSP != "" {
		template.OCSPServer = []string{a.options.OCSP + "/ocsp/" + issuer}
	}
	if a.options.CRL != "" {
		template.CRLDistributionPoints = []string{a.options.CRL + "/crl/" + issuer}
	}
}

// issue makes a certificate with a new key, self-signed where there is no
// parent.
func issue(template, parent *x509.Certificate, parentKey crypto.Signer) (*x509.Certificate, crypto.Signer, error) {
	return issueFor(template, nil, parent, parentKey)
}

func issueFor(template *x509.Certificate, key crypto.Signer, parent *x509.Certificate, parentKey crypto.Signer) (*x509.Certificate, crypto.Signer, error) {
	if key == nil {
		generated, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, nil, fmt.Errorf("make a key: %w", err)
		}
		key = generated
	}
	if parent == nil {
		parent, parentKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		return nil, nil, fmt.Errorf("issue a certificate for %s: %w", template.Subject, err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, fmt.Errorf("issue a certificate for %s: %w", template.Subject, err)
	}
	return certificate, key, nil
}
