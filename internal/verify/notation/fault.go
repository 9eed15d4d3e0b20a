package notation

import (
	"crypto/x509"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/gatehouse-dev/gatehouse/internal/verify"
)

// fault is why a signature does not pass.
type fault struct {
	outcome verify.Outcome
	reason  verify.Reason
	message string
}

func (f *fault) Error() string { return f.message }

// failed is a fault that is decided.
func failed(reason verify.Reason, format string, args ...any) *fault {
	return &fault{verify.Failed, reason, fmt.Sprintf(format, args...)}
}

// undecided is a fault that another attempt, or a larger bound, may lift.
func undecided(reason verify.Reason, format string, args ...any) *fault {
	return &fault{verify.Undecided, reason, fmt.Sprintf(format, args...)}
}

// maxQuoted bounds what is repeated of another's text, in bytes.
const maxQuoted = 160

// quoted is another's text, in quotes and bounded.
func quoted(s string) string {
	if len(s) <= maxQuoted {
		return strconv.Quote(s)
	}
	cut := maxQuoted
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return strconv.Quote(s[:cut]) + "…"
}

// describe is what a certificate is for, for people.
func describe(c *x509.Certificate) string { return quoted(c.Subject.String()) }

func day(t time.Time) string { return t.UTC().Format(time.RFC3339) }
