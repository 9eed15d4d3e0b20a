package cosign

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sigstore/sigstore-go/pkg/fulcio/certificate"
	"github.com/sigstore/sigstore-go/pkg/root"
	sigstore "github.com/sigstore/sigstore-go/pkg/verify"

	"github.com/gatehouse-dev/gatehouse/internal/verify"
)

// What follows only says why a signature does not verify, which the library has
// decided. It goes from what is worst to what is least: a reason is named before
// those that may be its consequence.

// whyNotKey says why a signature is none of a key.
func (v *Verifier) whyNotKey(e *entity, made *key, with *scheme) verify.Finding {
	if !e.holds(with.check) {
		return failed(verify.ReasonInvalidSignature, "the signature is not made with "+v.triedKeys()+", or its content was changed")
	}
	finding, _ := v.why(e, with.judge, with.material)
	if finding == nil {
		unknown := failed(verify.ReasonInvalidSignature, "it does not verify")
		finding = &unknown
	}
	finding.Identity = "key " + made.name
	finding.Message = "it is signed with key " + made.name + ", but " + finding.Message
	return *finding
}

// whyNotKeyless says why a signature is none of an identity.
func (v *Verifier) whyNotKeyless(e *entity) verify.Finding {
	if !e.heldByCertificate() {
		return failed(verify.ReasonInvalidSignature, "the signature is not made with the key of its certificate, or its content was changed")
	}
	if _, err := v.chains(e, e.certificate.NotBefore); err != nil && !isExpiry(err) {
		return failed(verify.ReasonUntrustedSigner, "its certificate leads to no certificate authority of the trust root")
	}
	finding, times := v.why(e, v.keyless, v.material)
	if finding != nil {
		return *finding
	}
	var chains [][]*x509.Certificate
	var err error
	for _, at := range times {
		if chains, err = v.chains(e, at.Timestamp); isExpiry(err) {
			return failed(verify.ReasonExpired, "its certificate, or one of its authorities, was not valid when it was signed, at "+at.Timestamp.UTC().Format(time.RFC3339))
		} else if err != nil {
			return failed(verify.ReasonUntrustedSigner, "its certificate leads to no certificate authority of the trust root")
		}
	}
	if err := sigstore.VerifySignedCertificateTimestamp(chains, 1, v.material); err != nil {
		return failed(verify.ReasonNotLogged, "its certificate has no promise (SCT) of a certificate log of the trust root")
	}
	summary, err := certificate.SummarizeCertificate(e.certificate)
	if err != nil {
		return failed(verify.ReasonMalformed, "its certificate states no identity")
	}
	if v.matching(summary) == 0 {
		return failed(verify.ReasonIdentityMismatch, "it is signed by "+identityText(summary)+", which is none of the "+v.triedIdentities(summary))
	}
	return failed(verify.ReasonInvalidSignature, "it does not verify")
}

// triedIdentities says how many there are, and, where all but the repository
// fits, what the repository is.
func (v *Verifier) triedIdentities(summary certificate.Summary) string {
	text := fmt.Sprintf("%d identities listed", len(v.identities))
	if len(v.identities) == 1 {
		text = "identities listed (1)"
	}
	for i, identity := range v.identities {
		if identity.SubjectAlternativeName.Verify(summary) == nil && identity.Issuer.Verify(summary) == nil {
			return text + fmt.Sprintf("; identity %d wants another sourceRepository than %s", i+1, quote(summary.SourceRepositoryURI))
		}
	}
	return text
}

// heldByCertificate reports whether the key of the certificate made the
// signature, in any way in which it may sign.
func (e *entity) heldByCertificate() bool {
	checks, err := checksOf(e.certificate.PublicKey)
	return err == nil && slices.ContainsFunc(checks, func(c check) bool { return e.holds(c.Verifier) })
}

// why says what is wrong with the log entries and time stamps of an entity, or
// gives the times that they prove.
func (v *Verifier) why(e *entity, judge *sigstore.Verifier, material root.TrustedMaterial) (*verify.Finding, []sigstore.TimestampVerificationResult) {
	refuse := func(reason verify.Reason, message string) (*verify.Finding, []sigstore.TimestampVerificationResult) {
		finding := failed(reason, message)
		return &finding, nil
	}
	times, err := judge.VerifyTransparencyLogInclusion(e)
	if err != nil {
		return refuse(whyNotLogged(e, material))
	}
	times, err = judge.VerifyObserverTimestamps(e, times)
	switch {
	case err == nil:
		return nil, times
	case len(e.stamps) > 0:
		return refuse(verify.ReasonNoTimestamp, "its time stamp is none of a timestamp authority of the trust root, or is about something else")
	case v.stamps:
		return refuse(verify.ReasonNoTimestamp, "it has no time stamp, which timestamps: Required demands")
	}
	return refuse(verify.ReasonNoTimestamp, "it has no time stamp, and its log entry states no time")
}

// whyNotLogged says why the log entries do not count.
func whyNotLogged(e *entity, material root.TrustedMaterial) (verify.Reason, string) {
	if len(e.entries) == 0 {
		return verify.ReasonNotLogged, "it has no entry in a transparency log, which transparencyLog: Required demands"
	}
	by, err := e.VerificationContent()
	if err != nil {
		return verify.ReasonMalformed, "its certificate cannot be read"
	}
	for _, entry := range e.entries {
		if string(entry.Signature()) != string(e.signature) {
			return verify.ReasonNotLogged, "its log entry is about another signature"
		}
		if !by.CompareKey(entry.PublicKey(), material) {
			return verify.ReasonNotLogged, "its log entry is about another key or certificate"
		}
		if at := entry.IntegratedTime(); !at.IsZero() && !by.ValidAtTime(at, material) {
			return verify.ReasonExpired, "its certificate was not valid when it was logged, at " + at.UTC().Format(time.RFC3339)
		}
	}
	return verify.ReasonNotLogged, "its log entry is about another payload, or is not signed by a log of the trust root"
}

// errAuthorityExpired is the answer of an authority outside of its own time.
var errAuthorityExpired = errors.New("the authority was not valid at the time")

// chains leads a certificate to the authorities of the trust root, as of a time.
// The error is one of expiry if an authority would vouch at another time.
func (v *Verifier) chains(e *entity, at time.Time) ([][]*x509.Certificate, error) {
	result := errors.New("no authority of the trust root vouches for the certificate")
	leaf := *e.certificate
	leaf.UnhandledCriticalExtensions = nil // the library has judged them
	for _, authority := range v.material.FulcioCertificateAuthorities() {
		known, ok := authority.(*root.FulcioCertificateAuthority)
		if !ok {
			continue
		}
		widened := *known
		widened.ValidityPeriodStart, widened.ValidityPeriodEnd = time.Time{}, time.Time{}
		widened.Intermediates = append(append([]*x509.Certificate{}, known.Intermediates...), e.intermediates...)
		chains, err := widened.Verify(&leaf, at)
		early := !known.ValidityPeriodStart.IsZero() && at.Before(known.ValidityPeriodStart)
		late := !known.ValidityPeriodEnd.IsZero() && at.After(known.ValidityPeriodEnd)
		switch {
		case err == nil && !early && !late:
			return chains, nil
		case err == nil:
			result = errAuthorityExpired
		case isExpiry(err):
			result = err
		}
	}
	return nil, result
}

func isExpiry(err error) bool {
	var invalid x509.CertificateInvalidError
	return errors.Is(err, errAuthorityExpired) || errors.As(err, &invalid) && invalid.Reason == x509.Expired
}
