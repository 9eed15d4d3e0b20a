package notation

import (
	"context"
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"time"

	"github.com/digitorus/timestamp"
	"github.com/notaryproject/tspclient-go"
)

// policy is the baseline policy of ETSI EN 319 421 for time stamps.
var policy = asn1.ObjectIdentifier{0, 4, 0, 2023, 1, 1}

// Timestamper is a time-stamping authority that always says the same time.
type Timestamper struct {
	// Certificate is the one that signs the time stamps.
	Certificate *x509.Certificate

	at     time.Time
	key    crypto.Signer
	issuer *x509.Certificate
	root   *x509.Certificate
}

// Timestamper makes a time-stamping authority, certified by a, for which it is
// the given time.
func (a *Authority) Timestamper(at time.Time) (*Timestamper, error) {
	// The usage has to be critical (RFC 3161, 2.3), which the standard library
	// only writes when told so by its own bytes.
	usage, err := asn1.Marshal([]asn1.ObjectIdentifier{{1, 3, 6, 1, 5, 5, 7, 3, 8}})
	if err != nil {
		return nil, fmt.Errorf("encode the key usage of a time-stamping authority: %w", err)
	}
	signer, err := a.issueLeaf(Leaf{
		Subject: pkix.Name{Country: []string{"US"}, Organization: []string{a.options.Name}, CommonName: a.options.Name + " Time"},
		Edit: func(template *x509.Certificate) {
			template.ExtKeyUsage = nil
			template.ExtraExtensions = append(template.ExtraExtensions, pkix.Extension{
				Id: asn1.ObjectIdentifier{2, 5, 29, 37}, Critical: true, Value: usage,
			})
		},
	}, x509.ExtKeyUsageTimeStamping)
	if err != nil {
		return nil, err
	}
	return &Timestamper{Certificate: signer.Chain[0], at: at, key: signer.Key, issuer: a.Intermediate, root: a.Root}, nil
}

// Timestamp makes a time stamp.
func (t *Timestamper) Timestamp(_ context.Context, request *tspclient.Request) (*tspclient.Response, error) {
	encoded, err := request.MarshalBinary()
	if err != nil {
		return nil, fmt.Errorf("make a time stamp: %w", err)
	}
	parsed, err := timestamp.ParseRequest(encoded)
	if err != nil {
		return nil, fmt.Errorf("make a time stamp: %w", err)
	}
	made := timestamp.Timestamp{
		HashAlgorithm:     parsed.HashAlgorithm,
		HashedMessage:     parsed.HashedMessage,
		Time:              t.at,
		Nonce:             parsed.Nonce,
		Policy:            policy,
		AddTSACertificate: true,
		Certificates:      []*x509.Certificate{t.issuer},
	}
	answer, err := made.CreateResponseWithOpts(t.Certificate, t.key, crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("make a time stamp: %w", err)
	}
	var response tspclient.Response
	if err := response.UnmarshalBinary(answer); err != nil {
		return nil, fmt.Errorf("make a time stamp: %w", err)
	}
	return &response, nil
}
