package notation

import (
	"crypto/x509"
	"fmt"
	"strconv"
	"strings"
	"time"

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

// maxDepth bounds how deep JSON is nested.
const maxDepth = 32

// maxQuoted bounds what is repeated of another's text, in bytes as it is written.
const maxQuoted = 128

// quoted is another's text, in quotes and bounded.
func quoted(s string) string {
	var out strings.Builder
	out.WriteByte('"')
	for _, r := range s {
		written := strconv.Quote(string(r))
		if out.Len()+len(written) > maxQuoted {
			out.WriteString("…")
			break
		}
		out.WriteString(written[1 : len(written)-1])
	}
	out.WriteByte('"')
	return out.String()
}

// describe is what a certificate is for, for people.
func describe(c *x509.Certificate) string { return quoted(c.Subject.String()) }

func day(t time.Time) string { return t.UTC().Format(time.RFC3339) }
