package verify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gatehouse-dev/gatehouse/internal/verify/policy"
)

// report puts what was found and what comes of it into words.
func (v *verification) report() Report {
	decision := v.decide(false)
	r := Report{
		Executor:        v.engine.name,
		Subject:         v.subject.String(),
		Mode:            v.engine.mode,
		Enforced:        v.engine.mode == Enforce,
		ArtifactReports: v.reports,
		Stores:          v.stores,
	}
	for _, gap := range v.gaps {
		if r.Trouble == nil {
			r.Trouble = gap.err
		}
	}
	if r.ArtifactReports == nil {
		r.ArtifactReports = []ArtifactReport{}
	}
	if r.Stores == nil {
		r.Stores = []StoreReport{}
	}
	switch decision.Verdict {
	case policy.Satisfied:
		r.Outcome, r.Succeeded = Passed, true
		for _, place := range decision.Places {
			r.SignedBy = append(r.SignedBy, Signer{place.Verifier, place.Signer, v.shown[place.Verifier].identities[place.Signer]})
		}
		r.Decision = signedBy(r.SignedBy)
	case policy.Unsatisfiable:
		r.Outcome = Failed
		r.Decision = v.missing(decision)
	default:
		r.Outcome = Undecided
		r.Decision = "cannot decide: " + v.unknown()
	}
	r.Decision = oneLine(r.Decision, maxDecision)
	return r
}

// signedBy says who satisfied the policy: signed by release-signers (CN=release).
func signedBy(signers []Signer) string {
	parts := make([]string, len(signers))
	for i, s := range signers {
		who := s.Identity
		if who == "" {
			who = s.Signer
		}
		parts[i] = s.Verifier + " (" + who + ")"
	}
	return "signed by " + strings.Join(parts, ", ")
}

// maxNamed bounds how many verifiers, or troubles, a decision names.
const maxNamed = 4

// unknown says what kept a decision from being made.
func (v *verification) unknown() string {
	var texts []string
	for _, gap := range v.gaps {
		texts = append(texts, gap.text)
	}
	for _, verifier := range v.engine.verifiers {
		undecided := v.shown[verifier.Name()].undecided
		for _, report := range v.reports { // in the order in which they were looked at
			if message, ok := undecided[report.Artifact]; ok && !slices.Contains(texts, message) {
				texts = append(texts, "verifier "+verifier.Name()+": "+message)
			}
		}
	}
	var distinct []string
	for _, text := range texts {
		if !slices.Contains(distinct, text) {
			distinct = append(distinct, text)
		}
	}
	if len(distinct) == 0 {
		return "the policy has too many ways to be satisfied; write it with fewer groups"
	}
	return named(distinct, "; ")
}

// missing says what the policy lacks.
func (v *verification) missing(decision policy.Decision) string {
	var unmet []string
	for _, verifier := range v.engine.verifiers {
		if len(v.shown[verifier.Name()].signers) == 0 {
			unmet = append(unmet, verifier.Name())
		}
	}
	text := ""
	if v.engine.policy.Grouped() {
		text = "policy " + v.engine.policy.String() + ": "
	}
	switch {
	case decision.SharedSigner:
		return text + "not enough signers, as one signer counts once for all verifiers that accept him: " + v.whoSigned()
	case v.found == 0:
		return text + "no signature by " + named(unmet, ", ") + "; no signature found"
	case len(unmet) == 1 && len(v.shown[unmet[0]].reasons) > 0:
		return text + "no signature by " + unmet[0] + "; " + v.foundBy(unmet[0], "signature")
	}
	clauses := make([]string, len(unmet))
	for i, name := range unmet {
		clauses[i] = name + " (" + v.foundBy(name, "") + ")"
	}
	return text + "no signature by " + named(clauses, ", ")
}

// whoSigned lists the signers of each verifier.
func (v *verification) whoSigned() string {
	var parts []string
	for _, verifier := range v.engine.verifiers {
		shown := v.shown[verifier.Name()]
		for _, signer := range shown.signers {
			who := shown.identities[signer]
			if who == "" {
				who = signer
			}
			parts = append(parts, verifier.Name()+" ("+who+")")
		}
	}
	return "signed by " + named(parts, ", ")
}

// foundBy counts what a verifier refused: 2 signatures found: one by an untrusted
// CA, one over another digest.
func (v *verification) foundBy(verifier, noun string) string {
	reasons := v.shown[verifier].reasons
	total := 0
	for _, n := range reasons {
		total += n
	}
	count := fmt.Sprint(total)
	if total == 0 {
		count = "none"
	}
	if noun != "" {
		count += " " + noun
		if total > 1 {
			count += "s"
		}
	}
	count += " found"
	var parts []string
	for _, words := range reasonPhrases {
		if n := reasons[words.reason]; n > 0 {
			number := fmt.Sprint(n)
			if n == 1 {
				number = "one"
			}
			parts = append(parts, number+" "+reasonWords(words.reason, n))
		}
	}
	if len(parts) == 0 {
		return count
	}
	return count + ": " + strings.Join(parts, ", ")
}

// reasonPhrases says of signatures what is wrong with them, the gravest first.
var reasonPhrases = []struct {
	reason        Reason
	one, moreThan string
}{
	{ReasonRevoked, "by a revoked certificate", ""},
	{ReasonInvalidSignature, "by another key or over tampered content", ""},
	{ReasonOtherSubject, "over another digest", ""},
	{ReasonUntrustedSigner, "by an untrusted CA", ""},
	{ReasonIdentityMismatch, "by a signer that is not listed", "by signers that are not listed"},
	{ReasonExpired, "expired", ""},
	{ReasonNotLogged, "not in the transparency log", ""},
	{ReasonNoTimestamp, "without a trusted timestamp", ""},
	{ReasonNotASignature, "that is an attestation", "that are attestations"},
	{ReasonUnsupported, "not supported", ""},
	{ReasonMalformed, "malformed", ""},
	{ReasonRevocationUnknown, "whose revocation is not known", ""},
	{ReasonUnreachable, "that could not be fetched", ""},
	{ReasonTooLarge, "too large to be read", ""},
}

func reasonWords(reason Reason, n int) string {
	for _, words := range reasonPhrases {
		if words.reason == reason {
			if n > 1 && words.moreThan != "" {
				return words.moreThan
			}
			return words.one
		}
	}
	return string(reason)
}

// phrase is reasonWords of one signature, where that is the subject already.
func phrase(reason Reason) string {
	words := reasonWords(reason, 1)
	return strings.TrimPrefix(strings.TrimPrefix(words, "that "), "whose ")
}

// named joins the first few of a list, and says how many more there are.
func named(list []string, separator string) string {
	if len(list) <= maxNamed {
		return strings.Join(list, separator)
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:maxNamed], separator), len(list)-maxNamed)
}
