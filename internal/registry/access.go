package registry

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"errors"

	"github.com/gatehouse-dev/gatehouse/internal/image"
)

// maxCABundle bounds a CA bundle, in bytes. A ConfigMap holds at most 1 MiB.
const maxCABundle = 1 << 20

// Access says how a registry is reached. The zero value is anonymous, over
// TLS, with the authorities that the system trusts.
type Access struct {
	// Credentials are used for the registries they are for; nil is anonymous.
	Credentials *DockerConfig
	// CABundle holds PEM certificates that are trusted besides those of the
	// system.
	CABundle []byte
	// PlainHTTP does without TLS. It cannot be had together with Credentials.
	PlainHTTP bool
}

// accessKey tells accesses apart. It is derived from secrets: it is compared,
// never shown.
type accessKey [sha256.Size]byte

func (a Access) key() accessKey {
	h := sha256.New()
	var size [8]byte
	binary.BigEndian.PutUint64(size[:], uint64(len(a.CABundle)))
	h.Write(size[:])
	h.Write(a.CABundle)
	if a.PlainHTTP {
		h.Write([]byte{1})
	} else {
		h.Write([]byte{0})
	}
	if a.Credentials != nil {
		h.Write(a.Credentials.fingerprint[:])
	}
	return accessKey(h.Sum(nil))
}

// Validate says how an access contradicts itself, which is terminal; nil if it does not.
func (a Access) Validate() error {
	switch {
	case a.PlainHTTP && a.Credentials != nil:
		return errors.New("plainHTTP and credentials cannot be had together, credentials are sent over TLS alone; remove one of them")
	case a.PlainHTTP && len(a.CABundle) > 0:
		return errors.New("plainHTTP and caBundle cannot be had together, plain HTTP has no certificates; remove one of them")
	case len(a.CABundle) > maxCABundle:
		return errors.New("caBundle is larger than 1 MiB; leave only the authorities of this registry in it")
	case len(a.CABundle) > 0 && !holdsCertificate(a.CABundle):
		return errors.New("caBundle holds no certificate; give PEM blocks of type CERTIFICATE")
	}
	return nil
}

// check is Validate as what an attempt at ref ends with.
func (a Access) check(ref image.Reference) *Error {
	if err := a.Validate(); err != nil {
		return &Error{Kind: InvalidAccess, terminal: true, text: "registry " + ref.Registry() + ": " + err.Error()}
	}
	return nil
}

func holdsCertificate(bundle []byte) bool {
	for {
		var block *pem.Block
		if block, bundle = pem.Decode(bundle); block == nil {
			return false
		}
		if block.Type == "CERTIFICATE" {
			if _, err := x509.ParseCertificate(block.Bytes); err == nil {
				return true
			}
		}
	}
}
