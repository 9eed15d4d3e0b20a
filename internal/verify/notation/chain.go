package notation

import (
	"crypto/rsa"
	"crypto/x509"
	"slices"
	"time"

	"github.com/gatehouse-dev/gatehouse/internal/verify"
)

// The bounds of the cryptography that a peer's certificates may ask for.
const (
	maxChain            = 8
	maxCertificateBytes = 16 << 10
	minRSABits          = 2048
	maxRSABits          = 8192
)

// parsed are certificates by their bytes, which nobody changes.
type parsed map[string]*x509.Certificate

// parseChain parses the certificates that an envelope brings, but for those that
// are known, before anything is computed with their keys.
func parseChain(encoded [][]byte, known parsed) ([]*x509.Certificate, *fault) {
	if len(encoded) == 0 {
		return nil, failed(verify.ReasonMalformed, "the signature brings no certificate: sign the image again")
	}
	if len(encoded) > maxChain {
		return nil, undecided(verify.ReasonTooLarge, "the signature brings %d certificates, more than %d: sign with a shorter chain", len(encoded), maxChain)
	}
	var chain []*x509.Certificate
	for i, der := range encoded {
		if len(der) > maxCertificateBytes {
			return nil, undecided(verify.ReasonTooLarge, "certificate %d of the signature has %d bytes, more than %d: sign with a smaller one", i+1, len(der), maxCertificateBytes)
		}
		c, isKnown := known[string(der)]
		if !isKnown {
			var err error
			if c, err = x509.ParseCertificate(der); err != nil {
				return nil, failed(verify.ReasonMalformed, "certificate %d of the signature does not parse: sign the image again", i+1)
			}
		}
		if key, ok := c.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() > maxRSABits {
			return nil, undecided(verify.ReasonTooLarge, "certificate %s has an RSA key of %d bits, more than %d: sign with a smaller one", describe(c), key.N.BitLen(), maxRSABits)
		} else if ok && key.N.BitLen() < minRSABits {
			return nil, failed(verify.ReasonUnsupported, "certificate %s has an RSA key of %d bits, which is too weak: sign with one of %d or more", describe(c), key.N.BitLen(), minRSABits)
		}
		chain = append(chain, c)
	}
	return chain, nil
}

// usable refuses a chain for what RFC 5280 demands beyond the signatures, which
// the envelope's own check has verified already.
func usable(chain []*x509.Certificate) *fault {
	for i, c := range chain {
		if len(c.UnhandledCriticalExtensions) > 0 {
			return failed(verify.ReasonUnsupported, "certificate %s has the critical extension %s, which Gatehouse does not know: sign with another", describe(c), c.UnhandledCriticalExtensions[0])
		}
		if i > 0 && len(c.ExtKeyUsage)+len(c.UnknownExtKeyUsage) > 0 &&
			!slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageCodeSigning) && !slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageAny) {
			return failed(verify.ReasonUntrustedSigner, "certificate %s vouches for other uses than signing code: sign with a certificate of an authority that may issue those", describe(c))
		}
	}
	return nil
}

// validAt refuses a chain of which a certificate was not valid between two times.
func validAt(chain []*x509.Certificate, from, to time.Time, when, remedy string) *fault {
	for _, c := range chain {
		if from.Before(c.NotBefore) {
			return failed(verify.ReasonExpired, "certificate %s was not yet valid %s, only from %s on: %s", describe(c), when, day(c.NotBefore), remedy)
		}
		if to.After(c.NotAfter) {
			return failed(verify.ReasonExpired, "certificate %s had expired %s, on %s: %s", describe(c), when, day(c.NotAfter), remedy)
		}
	}
	return nil
}
