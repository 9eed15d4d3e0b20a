package notation

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"time"

	"github.com/notaryproject/notation-core-go/signature"
	nx509 "github.com/notaryproject/notation-core-go/x509"
	"github.com/notaryproject/tspclient-go"

	"github.com/gatehouse-dev/gatehouse/internal/verify"
)

const stampRemedy = "sign the image again with a time stamp of an authority in a trust store of type TSA"

// checkTime decides whether the certificates of a signature were valid at the time
// that counts: the time of its time stamp where authorities for them are trusted,
// the time that a signing authority vouches for, or else now. It returns the chain
// of the time stamp, where there is one.
func (v *Verifier) checkTime(ctx context.Context, info *signature.SignerInfo, now time.Time) ([]*x509.Certificate, *fault) {
	if info.SignedAttributes.SigningScheme == signature.SigningSchemeX509SigningAuthority {
		at := info.SignedAttributes.SigningTime
		return nil, validAt(info.CertificateChain, at, at, "when the signing authority signed", "sign the image again")
	}
	if len(v.timestamps.certificates) == 0 {
		remedy := "sign the image again"
		if len(info.UnsignedAttributes.TimestampSignature) > 0 {
			remedy = "the signature has a time stamp, which counts when its authority is in a trust store of type TSA"
		}
		return nil, validAt(info.CertificateChain, now, now, "now", remedy)
	}
	at, chain, fault := v.readTimestamp(ctx, info)
	if fault != nil {
		return nil, fault
	}
	return chain, validAt(info.CertificateChain, at.Value.Add(-at.Accuracy), at.Value.Add(at.Accuracy), "when the signature was time-stamped", "sign the image again")
}

// readTimestamp verifies the RFC 3161 time stamp of a signature.
func (v *Verifier) readTimestamp(ctx context.Context, info *signature.SignerInfo) (*tspclient.Timestamp, []*x509.Certificate, *fault) {
	encoded := info.UnsignedAttributes.TimestampSignature
	if len(encoded) == 0 {
		return nil, nil, failed(verify.ReasonNoTimestamp, "the signature has no time stamp, and trustStores of type TSA require one: %s", stampRemedy)
	}
	token, err := tspclient.ParseSignedToken(encoded)
	if err != nil {
		return nil, nil, failed(verify.ReasonNoTimestamp, "the signature's time stamp does not read as one of RFC 3161: %s", stampRemedy)
	}
	// RFC 3161, 2.4.2: no signature other than that of the authority.
	if len(token.SignerInfos) != 1 {
		return nil, nil, failed(verify.ReasonNoTimestamp, "the signature's time stamp has %d signers, and may have one: %s", len(token.SignerInfos), stampRemedy)
	}
	if len(token.Certificates) > maxChain {
		return nil, nil, undecided(verify.ReasonTooLarge, "the signature's time stamp brings %d certificates, more than %d: %s", len(token.Certificates), maxChain, stampRemedy)
	}
	for _, c := range token.Certificates {
		if key, ok := c.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() > maxRSABits {
			return nil, nil, undecided(verify.ReasonTooLarge, "the signature's time stamp brings an RSA key of %d bits, more than %d: %s", key.N.BitLen(), maxRSABits, stampRemedy)
		}
	}
	content, err := token.Info()
	if err != nil {
		return nil, nil, failed(verify.ReasonNoTimestamp, "the signature's time stamp does not read as one of RFC 3161: %s", stampRemedy)
	}
	at, err := content.Validate(info.Signature)
	if err != nil {
		return nil, nil, failed(verify.ReasonNoTimestamp, "the signature's time stamp is not for this signature: %s", stampRemedy)
	}
	if at.Accuracy < 0 {
		return nil, nil, failed(verify.ReasonNoTimestamp, "the signature's time stamp has a negative accuracy: %s", stampRemedy)
	}
	roots := x509.NewCertPool()
	for _, c := range v.timestamps.certificates {
		roots.AddCert(c)
	}
	chain, err := token.Verify(ctx, x509.VerifyOptions{CurrentTime: at.Value, Roots: roots})
	if err != nil {
		return nil, nil, failed(verify.ReasonNoTimestamp, "the signature's time stamp is not of an authority in the trust stores %s, or was altered: %s", listed(v.timestamps.stores), stampRemedy)
	}
	if len(chain) > maxChain || nx509.ValidateTimestampingCertChain(chain) != nil {
		return nil, nil, failed(verify.ReasonNoTimestamp, "certificate %s of the time stamp does not meet the Notary Project's requirements: %s", describe(chain[0]), stampRemedy)
	}
	return at, chain, nil
}
