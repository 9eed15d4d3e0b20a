package outcome

import (
	"errors"
	"time"
	"unicode/utf8"
)

// Error is an outcome of a step that belongs into the status of the object.
type Error struct {
	// Reason is the condition reason, one of the Reason constants of the API.
	Reason string
	// Terminal says that only a new spec or a changed dependency can cure it.
	Terminal bool
	// After is when to try again; zero leaves it to the object's back-off.
	After time.Duration

	err error
}

func (e *Error) Error() string { return e.err.Error() }
func (e *Error) Unwrap() error { return e.err }

// Terminal marks err as one that only a new spec or a changed dependency can cure: it is reported and not retried.
// The text of err becomes the condition's message, so it must be deterministic and hold no secret.
func Terminal(reason string, err error) error {
	return &Error{Reason: reason, Terminal: true, err: err}
}

// Transient marks err as one that is worth another try, with the object's jittered exponential back-off. The text of
// err becomes the condition's message, so it must be deterministic and hold no secret.
func Transient(reason string, err error) error { return &Error{Reason: reason, err: err} }

// TransientAfter is Transient with a time to wait that the step knows better than the back-off does.
func TransientAfter(reason string, err error, after time.Duration) error {
	return &Error{Reason: reason, After: after, err: err}
}

// As returns the Error in err's chain, or nil.
func As(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return nil
}

// MessageLimit bounds a message in status, in bytes.
const MessageLimit = 1024

// Bound cuts s to at most limit bytes, on a rune boundary, and shows that it did.
func Bound(s string, limit int) string {
	const more = "…"
	if len(s) <= limit {
		return s
	}
	if limit < len(more) {
		return ""
	}
	cut := limit - len(more)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + more
}
