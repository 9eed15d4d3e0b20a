package cosign

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"

	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/options"
)

// Algorithm is what a key is made for.
type Algorithm string

// The algorithms.
const (
	ECDSAP256 Algorithm = "ECDSA P-256"
	ECDSAP384 Algorithm = "ECDSA P-384"
	ECDSAP521 Algorithm = "ECDSA P-521"
	RSA2048   Algorithm = "RSA 2048"
	Ed25519   Algorithm = "Ed25519"
)

// Key is a key pair.
type Key struct {
	// Private is the private key.
	Private crypto.Signer
	// Hash is what an ECDSA key hashes with, where that is not what its curve
	// stands for: old versions of cosign use SHA-256 with every curve.
	Hash crypto.Hash
}

// NewKey makes a key pair.
func NewKey(algorithm Algorithm) (*Key, error) {
	var private crypto.Signer
	var err error
	switch algorithm {
	case ECDSAP256:
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case ECDSAP384:
		private, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case ECDSAP521:
		private, err = ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case RSA2048:
		private, err = rsa.GenerateKey(rand.Reader, 2048)
	case Ed25519:
		_, private, err = ed25519.GenerateKey(rand.Reader)
	default:
		err = fmt.Errorf("no key is made for %q", algorithm)
	}
	if err != nil {
		return nil, err
	}
	return &Key{Private: private}, nil
}

// PublicPEM is the public key, as cosign writes it to cosign.pub.
func (k *Key) PublicPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: k.der()})
}

// Signer is how reports call who signs with the key: key:sha256:….
func (k *Key) Signer() string {
	sum := sha256.Sum256(k.der())
	return "key:sha256:" + hex.EncodeToString(sum[:])
}

func (k *Key) der() []byte {
	der, err := x509.MarshalPKIXPublicKey(k.Private.Public())
	if err != nil {
		panic(err) // a key of an algorithm above has an encoding
	}
	return der
}

// sign signs a message. An Ed25519 key hashes first where the log needs it.
func (k *Key) sign(message []byte, hashed bool) ([]byte, error) {
	signer, err := k.signer(hashed)
	if err != nil {
		return nil, err
	}
	return signer.SignMessage(bytes.NewReader(message))
}

func (k *Key) signer(hashed bool) (signature.Signer, error) {
	if k.Hash != 0 {
		return signature.LoadSigner(k.Private, k.Hash)
	}
	if hashed {
		return signature.LoadDefaultSigner(k.Private, options.WithED25519ph())
	}
	return signature.LoadDefaultSigner(k.Private)
}

// hash is what the key hashes messages with, in entries of the log.
func (k *Key) hash() crypto.Hash {
	if k.Hash != 0 {
		return k.Hash
	}
	switch private := k.Private.(type) {
	case *ecdsa.PrivateKey:
		switch private.Curve {
		case elliptic.P384():
			return crypto.SHA384
		case elliptic.P521():
			return crypto.SHA512
		}
	case ed25519.PrivateKey:
		return crypto.SHA512
	}
	return crypto.SHA256
}
