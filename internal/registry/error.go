package registry

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Kind is the class of an Error, usable as the reason of a condition and as
// the label of a metric.
type Kind string

// The classes of failure.
const (
	// InvalidAccess: the access that is configured contradicts itself.
	InvalidAccess Kind = "InvalidAccess"
	// Unreachable: no connection to the registry.
	Unreachable Kind = "RegistryUnreachable"
	// Forbidden: its name, a redirect or its token service leads to an address
	// that is not dialled.
	Forbidden Kind = "AddressForbidden"
	// Untrusted: there is one, but not to a peer that proves to be the registry.
	Untrusted Kind = "RegistryUntrusted"
	// Timeout: no complete answer within the deadline.
	Timeout Kind = "RegistryTimeout"
	// TooManyRequests: it asks to be left alone for a while.
	TooManyRequests Kind = "TooManyRequests"
	// ServerError: it answered with a status of 500 or more.
	ServerError Kind = "RegistryError"
	// BadAnswer: its answer is no answer to the question.
	BadAnswer Kind = "BadAnswer"
	// Redirected: it redirects in a circle, or to where we do not follow.
	Redirected Kind = "BadRedirect"
	// Unauthorized: the credentials are missing, wrong or not enough.
	Unauthorized Kind = "Unauthorized"
	// NotFound: the tag or the digest does not exist.
	NotFound Kind = "NotFound"
	// TooLarge: it is larger, or more, than is read.
	TooLarge Kind = "TooLarge"
	// Mismatch: what came is not what was said: its digest or its size.
	Mismatch Kind = "DigestMismatch"
	// BadDescriptor: no content can be what a descriptor says, or the content that
	// its digest names is another one than it says. Whoever wrote it is at fault, and
	// not who keeps it.
	BadDescriptor Kind = "BadDescriptor"
	// NoImage: what the reference names is neither an image nor an index.
	NoImage Kind = "NotAnImage"
	// Busy: too much is being asked of this process.
	Busy Kind = "Busy"
	// Undecided: what was asked is more than one request, and it came to no
	// answer.
	Undecided Kind = "Undecided"
	// Interrupted: the caller gave up.
	Interrupted Kind = "Interrupted"
)

// kinds lists every class that an attempt can end with.
func kinds() []Kind {
	return []Kind{
		InvalidAccess, Unreachable, Forbidden, Untrusted, Timeout, TooManyRequests, ServerError, BadAnswer,
		Redirected, Unauthorized, NotFound, Mismatch, NoImage, Interrupted,
	}
}

// Error is why a reference could not be resolved, or something not fetched. Its text names the registry
// and, where it matters, the repository and the tag; it is the same for the
// same trouble, and nothing in it comes from the peer.
type Error struct {
	Kind Kind
	// Detail is what the peer or the network said, quoted and cut, without
	// secrets: for the log alone.
	Detail string

	text       string
	terminal   bool
	retryAfter time.Duration
	status     int // of an answer that is no success, in a Session
	cause      error
}

// Error is the text for a status.
func (e *Error) Error() string { return e.text }

// Unwrap is the error of a lower layer. Its text is not fit for a status.
func (e *Error) Unwrap() error { return e.cause }

// Terminal reports whether only another spec, or another Secret or ConfigMap
// that it names, can cure the failure; asking again cannot.
func (e *Error) Terminal() bool { return e.terminal }

// RetryAfter is how long the registry asked to be left alone, and zero if it
// did not ask.
func (e *Error) RetryAfter() time.Duration { return e.retryAfter }

// IsTerminal reports whether err holds an *Error that is terminal.
func IsTerminal(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.terminal
}

// troubled reports whether the failure says something about the registry
// rather than about one reference, so that asking it for others is no use.
func (e *Error) troubled() bool {
	switch e.Kind {
	case Unreachable, Forbidden, Untrusted, Timeout, TooManyRequests, ServerError, BadAnswer, Redirected:
		return true
	}
	return false
}

// Outage reports whether the failure is one that passes by itself: nothing that asks otherwise would be answered. That a
// registry is not trusted is none, since authorities and plainHTTP are for whoever asks to choose.
func (e *Error) Outage() bool {
	return e.Kind == Busy || e.Kind == Interrupted || e.troubled() && e.Kind != Untrusted
}

// maxDetail bounds, in bytes before quoting, what a log repeats of a peer.
const maxDetail = 256

// quoted makes a peer's own text fit for a log.
func quoted(text string) string {
	if len(text) > maxDetail {
		n := maxDetail
		for n > 0 && !utf8.RuneStart(text[n]) {
			n--
		}
		text = text[:n] + "…"
	}
	return strconv.QuoteToASCII(text)
}

// answered describes a status code in words that do not depend on the peer.
func answered(status int) string {
	text := "answered " + strconv.Itoa(status)
	if words := http.StatusText(status); words != "" {
		text += " (" + strings.ToLower(words) + ")"
	}
	return text
}
