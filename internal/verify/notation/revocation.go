package notation

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/notaryproject/notation-core-go/revocation"
	"github.com/notaryproject/notation-core-go/revocation/purpose"
	"github.com/notaryproject/notation-core-go/revocation/result"
	"github.com/notaryproject/notation-core-go/signature"
	"k8s.io/utils/clock"

	"github.com/gatehouse-dev/gatehouse/internal/verify"
)

// The bounds of asking for the revocation of one chain.
const (
	maxAddresses    = 4 // of one certificate, for OCSP and for lists each
	maxAddressBytes = 2 << 10
	revocationLimit = 20 * time.Second
)

// revocations asks authorities whether certificates are revoked.
type revocations struct {
	signing, timestamping revocation.Validator
}

func newRevocations(client *http.Client, cache *Cache, clock clock.PassiveClock) (*revocations, error) {
	options := revocation.Options{
		OCSPHTTPClient: &http.Client{Transport: &ocspAsker{client: client, cache: cache, clock: clock}},
		CRLFetcher:     &crlAsker{client: client, cache: cache, clock: clock},
	}
	var r revocations
	var err error
	options.CertChainPurpose = purpose.CodeSigning
	if r.signing, err = revocation.NewWithOptions(options); err != nil {
		return nil, fmt.Errorf("prepare to ask for revocation: %w", err)
	}
	options.CertChainPurpose = purpose.Timestamping
	if r.timestamping, err = revocation.NewWithOptions(options); err != nil {
		return nil, fmt.Errorf("prepare to ask for revocation: %w", err)
	}
	return &r, nil
}

// notRevoked decides whether a certificate of the signer, or of the time stamp, is
// revoked. Both chains lead to trust stores by now.
func (j *judgement) notRevoked(ctx context.Context, info *signature.SignerInfo, stamped []*x509.Certificate) *fault {
	if j.revocations == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, revocationLimit)
	defer cancel()
	var signedAt time.Time // zero: revoked is revoked, whenever it was signed
	if info.SignedAttributes.SigningScheme == signature.SigningSchemeX509SigningAuthority {
		signedAt = info.SignedAttributes.SigningTime
	}
	faults := []*fault{ask(ctx, j.revocations.signing, info.CertificateChain, signedAt)}
	if len(stamped) > 0 {
		faults = append(faults, ask(ctx, j.revocations.timestamping, stamped, time.Time{}))
	}
	for _, f := range faults {
		if f != nil && f.outcome == verify.Failed {
			return f
		}
	}
	for _, f := range faults {
		if f == nil {
			continue
		}
		if j.revocation == Enforce && j.level != Audit {
			return f
		}
		j.warnings = append(j.warnings, f.message)
	}
	return nil
}

// ask returns the first fault of the chain, one that is decided before one that is
// not.
func ask(ctx context.Context, validator revocation.Validator, chain []*x509.Certificate, signedAt time.Time) *fault {
	for _, c := range chain[:len(chain)-1] {
		if problem := addressProblem(c); problem != "" {
			return undecided(verify.ReasonRevocationUnknown, "it is not known whether certificate %s is revoked: %s; sign with another", describe(c), problem)
		}
	}
	ctx, inquiry := inquire(ctx, chain)
	results, err := validator.ValidateContext(ctx, revocation.ValidateContextOptions{CertChain: chain, AuthenticSigningTime: signedAt})
	if err != nil || len(results) != len(chain) {
		return undecided(verify.ReasonRevocationUnknown, "it is not known whether certificate %s is revoked: its chain cannot be asked about; sign with another", describe(chain[0]))
	}
	var unknown *fault
	for i, r := range results {
		switch r.Result {
		case result.ResultOK, result.ResultNonRevokable:
		case result.ResultRevoked:
			return failed(verify.ReasonRevoked, "certificate %s is revoked: sign the image again with another, if it is still to be trusted", describe(chain[i]))
		default:
			if unknown == nil {
				unknown = undecided(verify.ReasonRevocationUnknown, "it is not known whether certificate %s is revoked: asked %s, %s; cure that, or set revocation to Log", describe(chain[i]), addresses(chain[i]), cmp.Or(inquiry.why(chain[i]), "the answer does not count"))
			}
		}
	}
	return unknown
}

// addressProblem is why the addresses of a certificate may not be used. The
// library dereferences nil at one that does not parse.
func addressProblem(c *x509.Certificate) string {
	if len(c.OCSPServer) > maxAddresses || len(c.CRLDistributionPoints) > maxAddresses {
		return fmt.Sprintf("it names more than %d addresses to ask at", maxAddresses)
	}
	for _, address := range append(append([]string{}, c.OCSPServer...), c.CRLDistributionPoints...) {
		if len(address) > maxAddressBytes {
			return fmt.Sprintf("it names an address of more than %d bytes to ask at", maxAddressBytes)
		}
		if parsed, err := url.Parse(address); err != nil || parsed.Host == "" {
			return "it names " + quoted(address) + " to ask at, which is no web address"
		}
	}
	return ""
}

// addresses says where a certificate says to ask, by each way the first.
func addresses(c *x509.Certificate) string {
	var parts []string
	if len(c.OCSPServer) > 0 {
		parts = append(parts, "OCSP at "+quoted(c.OCSPServer[0]))
	}
	if len(c.CRLDistributionPoints) > 0 {
		parts = append(parts, "the list at "+quoted(c.CRLDistributionPoints[0]))
	}
	return strings.Join(parts, " and ")
}
