package cosign

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gatehouse-dev/gatehouse/internal/verify"
)

// maxDepth bounds how deep JSON may be nested.
const maxDepth = 64

// maxQuoted bounds what is repeated of a peer's text, in bytes.
const maxQuoted = 160

// quote is a peer's text, fit to stand in a message.
func quote(s string) string {
	if len(s) <= maxQuoted {
		return strconv.QuoteToASCII(s)
	}
	end := maxQuoted
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return strconv.QuoteToASCII(s[:end]) + "…"
}

// failed is a negative finding.
func failed(reason verify.Reason, message string) verify.Finding {
	return verify.Finding{Outcome: verify.Failed, Reason: reason, Message: message}
}

// undecided is a finding of something that could not be looked at.
func undecided(reason verify.Reason, message string) verify.Finding {
	return verify.Finding{Outcome: verify.Undecided, Reason: reason, Message: message}
}

// triedKeys names the keys: "key k1", "any of the keys k1, k2".
func (v *Verifier) triedKeys() string {
	if len(v.keys) == 1 {
		return "key " + v.keys[0].name
	}
	names := make([]string, len(v.keys))
	for i, key := range v.keys {
		names[i] = key.name
	}
	return "any of the keys " + strings.Join(names, ", ")
}
