package cosign

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"math/big"
	"sync/atomic"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"
)

// validity is how far the authorities of a Sigstore are valid, into the past and
// into the future.
const validity = 365 * 24 * time.Hour

// Sigstore is a certificate authority (Fulcio) with a certificate log, a
// transparency log (Rekor) and a timestamp authority.
type Sigstore struct {
	root, intermediate        *x509.Certificate
	intermediateKey           *ecdsa.PrivateKey
	certificateLog            *ecdsa.PrivateKey
	log                       *ecdsa.PrivateKey
	timestampRoot, timestamps *x509.Certificate
	timestampKey              *ecdsa.PrivateKey
	from, to                  time.Time
	serial                    atomic.Int64
}

// NewSigstore makes one, valid a year back and a year ahead.
func NewSigstore() (*Sigstore, error) {
	now := time.Now().Truncate(time.Second)
	s := &Sigstore{from: now.Add(-validity), to: now.Add(validity)}
	keys := make([]*ecdsa.PrivateKey, 6)
	for i := range keys {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, err
		}
		keys[i] = key
	}
	rootKey, timestampRootKey := keys[0], keys[1]
	s.intermediateKey, s.certificateLog, s.log, s.timestampKey = keys[2], keys[3], keys[4], keys[5]

	var err error
	if s.root, err = s.authority("fulcio root", nil, rootKey, rootKey); err != nil {
		return nil, err
	}
	if s.intermediate, err = s.authority("fulcio intermediate", s.root, s.intermediateKey, rootKey); err != nil {
		return nil, err
	}
	if s.timestampRoot, err = s.authority("timestamp root", nil, timestampRootKey, timestampRootKey); err != nil {
		return nil, err
	}
	usage, err := asn1.Marshal([]asn1.ObjectIdentifier{{1, 3, 6, 1, 5, 5, 7, 3, 8}}) // time stamping
	if err != nil {
		return nil, err
	}
	s.timestamps, err = s.issue(&x509.Certificate{
		Subject:  pkix.Name{CommonName: "timestamps", Organization: []string{"example"}},
		KeyUsage: x509.KeyUsageDigitalSignature,
		// RFC 3161 wants the extended key usage of a timestamp authority to be critical.
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 37}, Critical: true, Value: usage}},
	}, s.timestampRoot, s.timestampKey.Public(), timestampRootKey)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Sigstore) authority(name string, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) (*x509.Certificate, error) {
	return s.issue(&x509.Certificate{
		Subject:               pkix.Name{CommonName: name, Organization: []string{"example"}},
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}, parent, key.Public(), parentKey)
}

// issue completes a template and signs it; without a parent by itself.
func (s *Sigstore) issue(template, parent *x509.Certificate, public crypto.PublicKey, key *ecdsa.PrivateKey) (*x509.Certificate, error) {
	if template.SerialNumber == nil {
		template.SerialNumber = big.NewInt(s.serial.Add(1))
	}
	if template.NotBefore.IsZero() {
		template.NotBefore, template.NotAfter = s.from, s.to
	}
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// TrustRoot is its trusted_root.json.
func (s *Sigstore) TrustRoot() ([]byte, error) {
	return s.TrustRootWith(true, true)
}

// TrustRootWith is a trusted_root.json that may lack the transparency log or the
// timestamp authority.
func (s *Sigstore) TrustRootWith(log, timestamps bool) ([]byte, error) {
	logs, authorities := map[string]*root.TransparencyLog{}, []root.TimestampingAuthority{}
	if log {
		logs = s.trustedLog("https://"+logOrigin, s.log)
	}
	if timestamps {
		authorities = append(authorities, &root.SigstoreTimestampingAuthority{
			URI: "https://timestamps.example.com", Root: s.timestampRoot, Leaf: s.timestamps,
			ValidityPeriodStart: s.from, ValidityPeriodEnd: s.to,
		})
	}
	fulcio := &root.FulcioCertificateAuthority{
		URI: "https://fulcio.example.com", Root: s.root, Intermediates: []*x509.Certificate{s.intermediate},
		ValidityPeriodStart: s.from, ValidityPeriodEnd: s.to,
	}
	trusted, err := root.NewTrustedRoot(root.TrustedRootMediaType01, []root.CertificateAuthority{fulcio},
		s.trustedLog("https://ct.example.com", s.certificateLog), authorities, logs)
	if err != nil {
		return nil, err
	}
	return trusted.MarshalJSON()
}

func (s *Sigstore) trustedLog(url string, key *ecdsa.PrivateKey) map[string]*root.TransparencyLog {
	id := logID(key)
	return map[string]*root.TransparencyLog{hex.EncodeToString(id): {
		BaseURL: url, ID: id, PublicKey: key.Public(),
		HashFunc: crypto.SHA256, SignatureHashFunc: crypto.SHA256,
		ValidityPeriodStart: s.from, ValidityPeriodEnd: s.to,
	}}
}

// logID is the SHA-256 of a log's public key (RFC 6962, 3.2).
func logID(key *ecdsa.PrivateKey) []byte {
	sum := sha256.Sum256((&Key{Private: key}).der())
	return sum[:]
}
