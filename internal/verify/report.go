package verify

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Mode says whether an Executor enforces what it finds.
type Mode string

// The modes.
const (
	// Enforce: its verdict counts.
	Enforce Mode = "Enforce"
	// Audit: it reports the truth and satisfies nothing.
	Audit Mode = "Audit"
)

// Bounds of the texts of a report, in bytes.
const (
	maxDecision = 1024
	maxSummary  = 256
	maxMessage  = 512
	maxIdentity = 256
)

// Report is what one Executor makes of one image. The JSON names that users of
// Ratify match on are succeeded and those of ArtifactReport and Result; the
// others are Gatehouse's own. It holds at most MaxArtifacts artifacts, each with
// at most MaxFindings results of each verifier.
type Report struct {
	// Executor is the name of the Executor.
	Executor string `json:"executor"`
	// Subject is the image, repository@digest.
	Subject string `json:"subject"`
	// Succeeded is whether Outcome is Passed, in either mode.
	Succeeded bool `json:"succeeded"`
	// Outcome is the policy's decision.
	Outcome Outcome `json:"outcome"`
	// Mode is the Executor's, and Enforced whether that is Enforce.
	Mode     Mode `json:"mode"`
	Enforced bool `json:"enforced"`
	// Decision says why, in words: by whom it is signed, or what is missing.
	Decision string `json:"decision"`
	// SignedBy lists who satisfied the policy. Set if Outcome is Passed.
	SignedBy []Signer `json:"signedBy,omitempty"`
	// ArtifactReports lists the signatures that were looked at, in the order in
	// which they were; none after the one that decided.
	ArtifactReports []ArtifactReport `json:"artifactReports"`
	// Stores lists the stores that were asked, in order.
	Stores []StoreReport `json:"stores"`
	// Trouble is the first error of a store, if there was one: for whoever keeps
	// account of registries. What is to be said of it stands in Decision.
	Trouble error `json:"-"`
}

// Signer is one place of the policy and who fills it.
type Signer struct {
	Verifier string `json:"verifier"`
	Signer   string `json:"signer"`
	// Identity is the signer as people know him.
	Identity string `json:"identity,omitempty"`
}

// ArtifactReport is what was made of one artifact.
type ArtifactReport struct {
	// Subject is the image, repository@digest.
	Subject string `json:"subject"`
	// Artifact is the digest of the artifact's manifest.
	Artifact string `json:"artifact"`
	// ArtifactType is what the manifest says it is.
	ArtifactType string `json:"artifactType,omitempty"`
	// Store is the store it was found in.
	Store string `json:"store"`
	// Tag is the tag under which it was found, and empty of a referrer.
	Tag string `json:"tag,omitempty"`
	// Results has one entry for each signature and verifier.
	Results []Result `json:"results"`
}

// Result is what one verifier made of one signature.
type Result struct {
	VerifierName string `json:"verifierName"`
	// Description is one line.
	Description string `json:"description"`
	// Detail is the signer's identity, where one is known.
	Detail string `json:"detail,omitempty"`
	// ErrorReason says why the signature does not count; empty if it does.
	ErrorReason string `json:"errorReason,omitempty"`

	Outcome  Outcome  `json:"outcome"`
	Reason   Reason   `json:"reason"`
	Signer   string   `json:"signer,omitempty"`
	Identity string   `json:"identity,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// StoreReport is how one store answered.
type StoreReport struct {
	Name string `json:"name"`
	// Artifacts is how many artifacts with signatures were found in it.
	Artifacts int `json:"artifacts"`
	// Errors says what it could not be asked, or did not answer.
	Errors []string `json:"errors,omitempty"`
}

// Satisfies reports whether the image may move because of this report: the
// outcome is Passed, and the Executor enforces.
func (r Report) Satisfies() bool { return r.Outcome == Passed && r.Enforced }

// Summary is the decision in one line of at most 256 bytes, fit for the status of a
// release. It is the same for the same signatures and the same trouble.
func (r Report) Summary() string {
	text := r.Decision
	if r.Mode == Audit {
		text = "audit only: " + text
	}
	return oneLine(text, maxSummary)
}

// MarshalText writes Passed, Failed or Undecided.
func (o Outcome) MarshalText() ([]byte, error) {
	switch o {
	case Passed:
		return []byte("Passed"), nil
	case Failed:
		return []byte("Failed"), nil
	default:
		return []byte("Undecided"), nil
	}
}

// UnmarshalText reads what MarshalText writes.
func (o *Outcome) UnmarshalText(text []byte) error {
	switch string(text) {
	case "Passed":
		*o = Passed
	case "Failed":
		*o = Failed
	case "Undecided":
		*o = Undecided
	default:
		return fmt.Errorf("outcome %q is none of Passed, Failed, Undecided", text)
	}
	return nil
}

// oneLine keeps text to one line of at most limit bytes, cut on a rune boundary.
func oneLine(text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == utf8.RuneError || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, text)
	if len(text) <= limit {
		return text
	}
	end := limit - len("…")
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}
