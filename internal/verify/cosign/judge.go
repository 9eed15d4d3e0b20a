package cosign

import (
	"fmt"

	"github.com/sigstore/sigstore-go/pkg/fulcio/certificate"
	sigstore "github.com/sigstore/sigstore-go/pkg/verify"

	"github.com/gatehouse-dev/gatehouse/internal/verify"
)

// judge says who made a signature whose content is about the subject. Keys come
// first: what one of them signed needs no certificate.
func (v *Verifier) judge(e *entity) verify.Finding {
	var byKey *verify.Finding
	if made, with := v.keyOf(e); made != nil {
		finding := v.judgeKey(e, made, with)
		if finding.Outcome == verify.Passed || e.certificate == nil || v.keyless == nil {
			return finding
		}
		byKey = &finding
	}
	switch {
	case e.certificate != nil && v.keyless != nil:
		finding := v.judgeKeyless(e)
		if byKey != nil && finding.Outcome != verify.Passed {
			return *byKey
		}
		return finding
	case e.certificate != nil:
		finding := failed(verify.ReasonUntrustedSigner, fmt.Sprintf(
			"it is signed keyless, and the verifier lists no identities; it is not made with %s", v.triedKeys()))
		finding.Identity = claimed(e)
		return finding
	case len(v.keys) == 0:
		return failed(verify.ReasonUntrustedSigner, "it is signed with a key, and the verifier lists no keys")
	}
	return failed(verify.ReasonInvalidSignature, "the signature is not made with "+v.triedKeys()+", or its content was changed")
}

// keyOf finds the key that made the signature. Where there is only one that can
// have made it, this is left to the judge, who finds out anyway.
func (v *Verifier) keyOf(e *entity) (*key, *scheme) {
	if len(v.keys) == 1 && len(v.keys[0].schemes) == 1 && e.certificate == nil {
		return &v.keys[0], &v.keys[0].schemes[0]
	}
	for i := range v.keys {
		for j := range v.keys[i].schemes {
			if e.holds(v.keys[i].schemes[j].check) {
				return &v.keys[i], &v.keys[i].schemes[j]
			}
		}
	}
	return nil, nil
}

// judgeKey verifies the entity as signed with a key.
func (v *Verifier) judgeKey(e *entity, made *key, with *scheme) verify.Finding {
	presented := *e
	presented.byKey = true
	_, err := with.judge.Verify(&presented, sigstore.NewPolicy(e.signedIn(with), sigstore.WithKey()))
	if err != nil {
		return v.whyNotKey(&presented, made, with)
	}
	return verify.Finding{
		Outcome: verify.Passed, Reason: verify.ReasonVerified,
		Signer: made.signer, Identity: "key " + made.name,
		Message: "signed with key " + made.name,
	}
}

// judgeKeyless verifies the entity as signed by an identity.
func (v *Verifier) judgeKeyless(e *entity) verify.Finding {
	if err := usable(e.certificate.PublicKey); err != nil {
		return failed(verify.ReasonUnsupported, "the key of its certificate "+err.Error())
	}
	result, err := v.keyless.Verify(e, sigstore.NewPolicy(e.artifact(), v.listed...))
	if err != nil {
		finding := v.whyNotKeyless(e)
		finding.Identity = claimed(e)
		return finding
	}
	summary := *result.Signature.Certificate
	return verify.Finding{
		Outcome: verify.Passed, Reason: verify.ReasonVerified,
		Signer:   "oidc:" + summary.Issuer + "#" + summary.SubjectAlternativeName,
		Identity: identityText(summary),
		Message:  fmt.Sprintf("signed by %s, which is identity %d", identityText(summary), v.matching(summary)),
	}
}

// matching is the number, from 1, of the first identity that a certificate is of;
// 0 if there is none.
func (v *Verifier) matching(summary certificate.Summary) int {
	for i, identity := range v.identities {
		if identity.Verify(summary) == nil {
			return i + 1
		}
	}
	return 0
}

// claimed is the identity that the certificate states, proven or not.
func claimed(e *entity) string {
	summary, err := certificate.SummarizeCertificate(e.certificate)
	if err != nil {
		return ""
	}
	return identityText(summary)
}

func identityText(summary certificate.Summary) string {
	return quote(summary.SubjectAlternativeName) + " of issuer " + quote(summary.Issuer)
}
