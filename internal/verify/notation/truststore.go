package notation

import (
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"github.com/notaryproject/notation-core-go/signature"
)

// The bounds of a trust store.
const (
	maxStoreBytes        = 1 << 20
	maxStoreCertificates = 256
)

// anchors are the certificates that vouch for one way of signing.
type anchors struct {
	stores       []string
	certificates []*x509.Certificate
}

// vouch reports whether one of chain is trusted.
func (a anchors) vouch(chain []*x509.Certificate) bool {
	for _, c := range chain {
		for _, trusted := range a.certificates {
			if trusted.Equal(c) {
				return true
			}
		}
	}
	return false
}

func (v *Verifier) addStores(stores []TrustStore) error {
	if len(stores) > maxTrustStores {
		return fmt.Errorf("trustStores: there are %d, more than %d: put certificates of one type into one store", len(stores), maxTrustStores)
	}
	names := map[string]bool{}
	for i, store := range stores {
		if store.Name == "" {
			return fmt.Errorf("trustStores[%d].name: the store has none: give it one", i)
		}
		field := "trustStores[" + store.Name + "]"
		if names[store.Name] {
			return fmt.Errorf("%s: there are two stores of that name: rename one", field)
		}
		names[store.Name] = true
		certificates, err := parseStore(field, store)
		if err != nil {
			return err
		}
		for _, c := range certificates {
			v.known[string(c.Raw)] = c
		}
		switch store.Type {
		case CA:
			v.anchor(signature.SigningSchemeX509, store.Name, certificates)
		case SigningAuthority:
			v.anchor(signature.SigningSchemeX509SigningAuthority, store.Name, certificates)
		case TSA:
			v.timestamps.stores = append(v.timestamps.stores, store.Name)
			v.timestamps.certificates = append(v.timestamps.certificates, certificates...)
		}
	}
	if len(v.anchors) == 0 {
		return errors.New("trustStores: none vouches for signers: add a store of type CA or SigningAuthority")
	}
	return nil
}

func (v *Verifier) anchor(scheme signature.SigningScheme, store string, certificates []*x509.Certificate) {
	a := v.anchors[scheme]
	a.stores = append(a.stores, store)
	a.certificates = append(a.certificates, certificates...)
	v.anchors[scheme] = a
}

func parseStore(field string, store TrustStore) ([]*x509.Certificate, error) {
	switch store.Type {
	case CA, TSA, SigningAuthority:
	default:
		return nil, fmt.Errorf("%s.type: %s is none: write CA, TSA or SigningAuthority", field, quoted(string(store.Type)))
	}
	if len(store.Certificates) == 0 {
		return nil, fmt.Errorf("%s.certificates: there is none: add the certificate of an authority", field)
	}
	var all []*x509.Certificate
	for i, material := range store.Certificates {
		field := fmt.Sprintf("%s.certificates[%d]", field, i)
		certificates, err := parseAnchors(store.Type, material)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", field, err)
		}
		if all = append(all, certificates...); len(all) > maxStoreCertificates {
			return nil, fmt.Errorf("%s: the store has more than %d certificates: keep those that sign images", field, maxStoreCertificates)
		}
	}
	return all, nil
}

// CheckCertificates says what is wrong with the PEM for a trust store of a type; nil
// if all its certificates can vouch.
func CheckCertificates(store StoreType, material []byte) error {
	_, err := parseAnchors(store, material)
	return err
}

func parseAnchors(store StoreType, material []byte) ([]*x509.Certificate, error) {
	certificates, err := parsePEM(material)
	if err != nil {
		return nil, err
	}
	for _, c := range certificates {
		if err := checkAnchor(store, c); err != nil {
			return nil, fmt.Errorf("%s %w", describe(c), err)
		}
	}
	return certificates, nil
}

// parsePEM reads at least one certificate, and nothing but certificates.
func parsePEM(material []byte) ([]*x509.Certificate, error) {
	if len(material) > maxStoreBytes {
		return nil, fmt.Errorf("it has %d bytes, more than %d: keep the certificates that sign images", len(material), maxStoreBytes)
	}
	if len(bytes.TrimSpace(material)) == 0 {
		return nil, errors.New("it is empty: put the certificate there, in PEM")
	}
	var certificates []*x509.Certificate
	for rest := material; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			if bytes.Contains(rest, []byte("-----BEGIN")) {
				return nil, errors.New("a PEM block in it is damaged: copy the file again, from -----BEGIN to -----END and all lines between")
			}
			break
		}
		if strings.Contains(block.Type, "PRIVATE KEY") {
			return nil, errors.New("it holds a private key, which does not belong here: remove it, and consider it known to others")
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("it holds a %s and no certificate: put the certificate there, from -----BEGIN CERTIFICATE-----", quoted(block.Type))
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d in it does not parse: export it again, as X.509 in PEM", len(certificates)+1)
		}
		certificates = append(certificates, c)
	}
	if len(certificates) > 0 {
		return certificates, nil
	}
	if _, err := x509.ParseCertificate(material); err == nil {
		return nil, errors.New("it is DER, not PEM: convert it, as with openssl x509 -inform der")
	}
	return nil, errors.New("it is not PEM: put the certificate there, from -----BEGIN CERTIFICATE----- on")
}

// checkAnchor refuses a certificate that could never vouch for anything, as
// signatures would fail for a reason that nobody finds. One that has expired is
// kept: with a time stamp, what it signed before is still good.
func checkAnchor(store StoreType, c *x509.Certificate) error {
	if key, ok := c.PublicKey.(*rsa.PublicKey); ok && (key.N.BitLen() < minRSABits || key.N.BitLen() > maxRSABits) {
		return fmt.Errorf("has an RSA key of %d bits, and %d to %d are trusted: use another authority", key.N.BitLen(), minRSABits, maxRSABits)
	}
	self := bytes.Equal(c.RawSubject, c.RawIssuer)
	switch {
	case self && c.CheckSignature(c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature) != nil:
		return fmt.Errorf("is not signed well by itself (%s): use a root certificate signed with SHA-256 or better", c.SignatureAlgorithm)
	case !self && !c.IsCA:
		return fmt.Errorf("signs images and issues no certificates: put the certificate of its issuer %s there, and the signer into trustedIdentities", quoted(c.Issuer.String()))
	case !self && store == TSA:
		return fmt.Errorf("is not a root: put the certificate of its root there, of which %s is on the way", quoted(c.Issuer.String()))
	case store == TSA && !c.IsCA:
		return errors.New("issues no certificates: put the root certificate of the time-stamping authority there")
	}
	return nil
}
