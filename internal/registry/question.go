package registry

import (
	"context"
	"crypto/sha256"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gatehouse-dev/gatehouse/internal/image"
)

// Question is what takes requests to a registry to find out, and has an answer
// of type A. It is asked like a reference is resolved: off the workers of
// controllers, in the lane of its registry, once for all who want to know.
type Question[A any] struct {
	// Key tells questions apart: those of one Key and one Access share their
	// answer, whoever asks.
	Key string
	// Reference is what it is about; its registry is the one that is asked.
	Reference image.Reference
	// Access tells apart by which configuration the registry is reached: what
	// goes wrong with one says nothing about another. It is never shown.
	Access string
	// Owner is woken when the answer comes.
	Owner types.NamespacedName
	// MaxAge and NotBefore are those of a Request.
	MaxAge    time.Duration
	NotBefore time.Time
	// Ask finds out, and returns when ctx ends. again wants the answer asked
	// anew after a back-off, like a failure. An error that holds an *Error of
	// this package counts as what it says of the registry; any other says nothing
	// of it.
	Ask func(ctx context.Context) (answer A, again bool, err error)
	// Heard is told of each new outcome, for logs and metrics; it must not wait.
	Heard func(before, now Answer[A])
}

// Answer is what is known. The zero value says that nothing is.
type Answer[A any] struct {
	// Value is the answer of the latest attempt that had one, which began at
	// ValueAt; zero if none had.
	Value   A
	ValueAt time.Time
	// Err is how the latest attempt failed; nil if it did not.
	Err error
	// At is when the latest attempt began. It is zero if there was none.
	At time.Time
	// RetryAt is when it is worth looking again, as in a Result.
	RetryAt time.Time
}

// Ask returns the latest answer and whether it answers the question on its
// terms. If it does not, an attempt is under way, the owner is woken when it
// ends, and the answer is what was known before.
func Ask[A any](p *Pool, q Question[A]) (Answer[A], bool) {
	known, answered := p.look(question{
		key:  entryKey{"ask " + q.Key, sha256.Sum256([]byte(q.Access))},
		host: image.ComparableHost(q.Reference.Registry(), false),
		name: q.Reference.Registry(),
		ask: func(ctx context.Context) (any, bool, error) {
			return q.Ask(ctx)
		},
		heard: func(before, now outcome) { q.Heard(answerOf[A](before), answerOf[A](now)) },
	}, terms{q.Owner, q.MaxAge, q.NotBefore})
	return answerOf[A](known), answered
}

func answerOf[A any](o outcome) Answer[A] {
	answer := Answer[A]{ValueAt: o.valueAt, Err: o.err, At: o.at, RetryAt: o.retryAt}
	if value, ok := o.value.(A); ok {
		answer.Value = value
	}
	return answer
}

// question is a Question or a Request, as the pool handles it.
type question struct {
	key   entryKey
	host  string // of the lane
	name  string // of the registry, for people
	ask   func(ctx context.Context) (value any, again bool, err error)
	heard func(before, now outcome)
}

type entryKey struct {
	question string
	access   accessKey
}

// terms are who asks, and what is good enough for him.
type terms struct {
	owner     types.NamespacedName
	maxAge    time.Duration
	notBefore time.Time
}

// outcome is that of the latest attempt at a question, and the value of the
// latest that had one.
type outcome struct {
	value       any
	valueAt     time.Time
	err         error
	at, retryAt time.Time
}
