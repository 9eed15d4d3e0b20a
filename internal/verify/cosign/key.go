package cosign

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"
	sigstore "github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/signature"
)

// Bounds of an RSA key, in bits: below it is weak, above it makes others pay for
// verifying.
const (
	minRSA = 2048
	maxRSA = 8192
)

// key is a compiled public key.
type key struct {
	name   string
	signer string // what thresholds count
	// schemes are the ways in which the key may have signed.
	schemes []scheme
}

// scheme is a key with one way of signing.
type scheme struct {
	check signature.Verifier
	// hash is that of what is signed; 0 if the message itself is.
	hash  crypto.Hash
	judge *sigstore.Verifier
	// material trusts this key, whatever the hint of a signature.
	material root.TrustedMaterial
}

func (v *Verifier) compileKey(given Key) (key, error) {
	public, err := parseKey(given.PEM)
	if err != nil {
		return key{}, err
	}
	checks, err := checksOf(public)
	if err != nil {
		return key{}, err
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return key{}, err
	}
	sum := sha256.Sum256(der)
	compiled := key{name: given.Name, signer: "key:sha256:" + hex.EncodeToString(sum[:])}
	for _, check := range checks {
		material := keyMaterial{v.material, root.NewExpiringKey(check.Verifier, time.Time{}, time.Time{})}
		judge, err := sigstore.NewVerifier(material, v.keyOptions()...)
		if err != nil {
			return key{}, err
		}
		compiled.schemes = append(compiled.schemes, scheme{check.Verifier, check.hash, judge, material})
	}
	return compiled, nil
}

// keyMaterial is a trust root with one key. Hints are ignored: they are what the
// signer, or whoever stored the signature, wrote.
type keyMaterial struct {
	root.TrustedMaterial
	key root.TimeConstrainedVerifier
}

func (m keyMaterial) PublicKeyVerifier(string) (root.TimeConstrainedVerifier, error) {
	return m.key, nil
}

// parseKey reads the PEM of one public key.
func parseKey(content []byte) (crypto.PublicKey, error) {
	if len(content) > MaxKeyBytes {
		return nil, fmt.Errorf("is larger than %d bytes; give one public key", MaxKeyBytes)
	}
	block, rest := pem.Decode(content)
	switch {
	case block == nil && len(bytes.TrimSpace(content)) == 0:
		return nil, errors.New("is empty; give a public key in PEM")
	case block == nil:
		return nil, errors.New("is not PEM; give a public key that begins with -----BEGIN PUBLIC KEY-----")
	case strings.Contains(block.Type, "PRIVATE KEY"):
		return nil, errors.New("is a private key, which must not be here; replace it by its public key, and consider it disclosed")
	case block.Type == "CERTIFICATE":
		return nil, errors.New("is a certificate; give its public key (openssl x509 -pubkey -noout)")
	}
	if another, _ := pem.Decode(rest); another != nil {
		return nil, errors.New("holds more than one PEM block; give each key its own name")
	}
	var public crypto.PublicKey
	var err error
	switch block.Type {
	case "PUBLIC KEY":
		public, err = x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		public, err = x509.ParsePKCS1PublicKey(block.Bytes)
	default:
		return nil, errors.New("is PEM of another type; give one that begins with -----BEGIN PUBLIC KEY-----")
	}
	if err != nil {
		return nil, errors.New("does not read as a public key; give one as cosign generate-key-pair writes it to cosign.pub")
	}
	return public, nil
}

// usable refuses keys that are weak, that nobody here verifies, or that are made
// to be slow.
func usable(public crypto.PublicKey) error {
	switch public := public.(type) {
	case *ecdsa.PublicKey:
		if public.Curve == elliptic.P256() || public.Curve == elliptic.P384() || public.Curve == elliptic.P521() {
			return nil
		}
		return errors.New("is on another curve than P-256, P-384 and P-521; use a key on one of these")
	case *rsa.PublicKey:
		if bits := public.N.BitLen(); bits < minRSA || bits > maxRSA {
			return fmt.Errorf("is an RSA key of %d bits; use one of %d to %d", bits, minRSA, maxRSA)
		}
		return nil
	case ed25519.PublicKey:
		return nil
	}
	return errors.New("is of an algorithm that is not supported; use ECDSA, RSA or Ed25519")
}

// check verifies what a key signed in one way.
type check struct {
	signature.Verifier
	hash crypto.Hash // 0 if the message itself is signed
}

// checksOf are the ways in which a key may sign. The larger curves sign with the
// hash of their size, or, by old versions of cosign, with SHA-256; Ed25519 signs
// the message, or, where it is logged, its hash.
func checksOf(public crypto.PublicKey) ([]check, error) {
	if err := usable(public); err != nil {
		return nil, err
	}
	hashes := []crypto.Hash{crypto.SHA256}
	switch public := public.(type) {
	case *ecdsa.PublicKey:
		switch public.Curve {
		case elliptic.P384():
			hashes = []crypto.Hash{crypto.SHA384, crypto.SHA256}
		case elliptic.P521():
			hashes = []crypto.Hash{crypto.SHA512, crypto.SHA256}
		}
	case ed25519.PublicKey:
		plain, err := signature.LoadED25519Verifier(public)
		if err != nil {
			return nil, err
		}
		hashed, err := signature.LoadED25519phVerifier(public)
		return []check{{plain, 0}, {hashed, crypto.SHA512}}, err
	}
	var checks []check
	for _, hash := range hashes {
		verifier, err := signature.LoadVerifier(public, hash)
		if err != nil {
			return nil, err
		}
		checks = append(checks, check{verifier, hash})
	}
	return checks, nil
}
