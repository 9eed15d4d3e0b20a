package verify

// Outcome is what a verification came to. The zero value is Undecided, so that
// what was never set admits nothing.
type Outcome int

const (
	// Undecided: it could not be decided. Another attempt may decide.
	Undecided Outcome = iota
	// Passed: decided, and positive.
	Passed
	// Failed: decided, and negative.
	Failed
)

// String is passed, failed or cannot decide.
func (o Outcome) String() string {
	switch o {
	case Passed:
		return "passed"
	case Failed:
		return "failed"
	default:
		return "cannot decide"
	}
}

// Reason is the class of a Finding: a word that stays the same for the same
// fault. It stands in reports, metrics and conditions.
type Reason string

// The reasons of findings. A verifier may add none of its own: a new kind of
// fault gets its word here.
const (
	// ReasonVerified: the signature is good, and its signer is trusted.
	ReasonVerified Reason = "Verified"

	// ReasonMalformed: it does not read as a signature of its type, or it reads
	// in two ways (duplicate keys).
	ReasonMalformed Reason = "Malformed"
	// ReasonOtherSubject: it signs another image than the one asked about.
	ReasonOtherSubject Reason = "OtherSubject"
	// ReasonNotASignature: it is an attestation (an SBOM, a scan, a provenance).
	ReasonNotASignature Reason = "NotASignature"
	// ReasonUnsupported: it needs what Gatehouse does not have: a plugin, an
	// algorithm, a format.
	ReasonUnsupported Reason = "Unsupported"
	// ReasonInvalidSignature: the cryptography does not hold: a wrong key, a
	// tampered payload.
	ReasonInvalidSignature Reason = "InvalidSignature"
	// ReasonUntrustedSigner: the certificate leads to no authority that is trusted.
	ReasonUntrustedSigner Reason = "UntrustedSigner"
	// ReasonIdentityMismatch: the signer is known, but is none of those listed.
	ReasonIdentityMismatch Reason = "IdentityMismatch"
	// ReasonExpired: the signature or a certificate of its chain was not valid
	// at the time that counts.
	ReasonExpired Reason = "Expired"
	// ReasonRevoked: a certificate of its chain is revoked.
	ReasonRevoked Reason = "Revoked"
	// ReasonNoTimestamp: a trusted timestamp is required and missing or bad.
	ReasonNoTimestamp Reason = "NoTimestamp"
	// ReasonNotLogged: an entry of a transparency log is required and missing,
	// bad, or about something else.
	ReasonNotLogged Reason = "NotLogged"

	// ReasonRevocationUnknown: it could not be learnt whether a certificate is
	// revoked.
	ReasonRevocationUnknown Reason = "RevocationUnknown"
	// ReasonUnreachable: a store did not answer, or not to the question.
	ReasonUnreachable Reason = "Unreachable"
	// ReasonTooLarge: a bound was exceeded: too many signatures, too many bytes.
	ReasonTooLarge Reason = "TooLarge"
)
