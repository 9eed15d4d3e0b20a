package cosign

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"net/url"
	"strings"
	"time"

	ct "github.com/google/certificate-transparency-go"
	cttls "github.com/google/certificate-transparency-go/tls"
	ctx509 "github.com/google/certificate-transparency-go/x509"
	"github.com/google/certificate-transparency-go/x509util"
	"github.com/sigstore/sigstore-go/pkg/fulcio/certificate"
)

// lifetime is that of a keyless certificate.
const lifetime = 10 * time.Minute

// Identity is who signs keyless.
type Identity struct {
	// Issuer is the OpenID Connect issuer, as https://accounts.example.com.
	Issuer string
	// Subject is a URL or an e-mail address.
	Subject string
	// SourceRepository is the repository of the workflow, where there is one.
	SourceRepository string
}

// Signer is how reports call who signs with the identity.
func (i Identity) Signer() string { return "oidc:" + i.Issuer + "#" + i.Subject }

// certify issues a keyless certificate. Its second result is a promise of the
// certificate log that is part of it, unless it is to stay unlogged.
func (s *Sigstore) certify(identity Identity, public crypto.PublicKey, issued time.Time, unlogged bool) (*x509.Certificate, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(s.serial.Add(1)),
		NotBefore:    issued,
		NotAfter:     issued.Add(lifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
	}
	if strings.Contains(identity.Subject, "://") {
		subject, err := url.Parse(identity.Subject)
		if err != nil {
			return nil, err
		}
		template.URIs = []*url.URL{subject}
	} else {
		template.EmailAddresses = []string{identity.Subject}
	}
	for _, extension := range []struct {
		id    asn1.ObjectIdentifier
		value string
	}{
		{certificate.OIDIssuerV2, identity.Issuer},
		{certificate.OIDSourceRepositoryURI, identity.SourceRepository},
	} {
		if extension.value == "" {
			continue
		}
		value, err := asn1.MarshalWithParams(extension.value, "utf8")
		if err != nil {
			return nil, err
		}
		template.ExtraExtensions = append(template.ExtraExtensions, pkix.Extension{Id: extension.id, Value: value})
	}
	bare, err := s.issue(template, s.intermediate, public, s.intermediateKey)
	if err != nil || unlogged {
		return bare, err
	}
	promise, err := s.promise(bare, issued)
	if err != nil {
		return nil, err
	}
	template.ExtraExtensions = append(template.ExtraExtensions, promise)
	return s.issue(template, s.intermediate, public, s.intermediateKey)
}

// promise is the extension with what the certificate log signs over a
// certificate that does not have the extension yet (RFC 6962, 3.2 and 3.3).
func (s *Sigstore) promise(bare *x509.Certificate, at time.Time) (pkix.Extension, error) {
	sct := ct.SignedCertificateTimestamp{SCTVersion: ct.V1, Timestamp: uint64(at.UnixMilli())}
	copy(sct.LogID.KeyID[:], logID(s.certificateLog))
	input, err := ct.SerializeSCTSignatureInput(sct, ct.LogEntry{Leaf: ct.MerkleTreeLeaf{
		Version:  ct.V1,
		LeafType: ct.TimestampedEntryLeafType,
		TimestampedEntry: &ct.TimestampedEntry{
			Timestamp: sct.Timestamp,
			EntryType: ct.PrecertLogEntryType,
			PrecertEntry: &ct.PreCert{
				IssuerKeyHash:  sha256.Sum256(s.intermediate.RawSubjectPublicKeyInfo),
				TBSCertificate: bare.RawTBSCertificate,
			},
		},
	}})
	if err != nil {
		return pkix.Extension{}, err
	}
	sum := sha256.Sum256(input)
	signed, err := ecdsa.SignASN1(rand.Reader, s.certificateLog, sum[:])
	if err != nil {
		return pkix.Extension{}, err
	}
	sct.Signature = ct.DigitallySigned{
		Algorithm: cttls.SignatureAndHashAlgorithm{Hash: cttls.SHA256, Signature: cttls.ECDSA},
		Signature: signed,
	}
	list, err := x509util.MarshalSCTsIntoSCTList([]*ct.SignedCertificateTimestamp{&sct})
	if err != nil {
		return pkix.Extension{}, err
	}
	encoded, err := cttls.Marshal(*list)
	if err != nil {
		return pkix.Extension{}, err
	}
	value, err := asn1.Marshal(encoded)
	return pkix.Extension{Id: asn1.ObjectIdentifier(ctx509.OIDExtensionCTSCT), Value: value}, err
}
