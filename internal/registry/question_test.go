package registry_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gatehouse-dev/gatehouse/internal/registry"
	testregistry "github.com/gatehouse-dev/gatehouse/test/registry"
)

// answerTo asks until there is an answer, asking again only when woken.
func answerTo[A any](tb testing.TB, p *running, q registry.Question[A]) registry.Answer[A] {
	tb.Helper()
	if q.Heard == nil {
		q.Heard = func(registry.Answer[A], registry.Answer[A]) {}
	}
	deadline := time.After(patience)
	for {
		if answer, ok := registry.Ask(p.Pool, q); ok {
			return answer
		}
		select {
		case <-p.woken:
		case <-deadline:
			tb.Fatalf("%s: nobody was woken", q.Key)
		}
	}
}

func TestAQuestionIsAskedOnceForAllWhoWantToKnow(t *testing.T) {
	p := startPool(t, client(t, registry.Options{}), registry.PoolOptions{})
	gate := make(chan struct{})
	asked := make(chan string, 10)
	ask := func(key, owner string) (registry.Answer[string], bool) {
		return registry.Ask(p.Pool, registry.Question[string]{
			Key: key, Reference: parse(t, "registry.example/team/gw:1"), Owner: types.NamespacedName{Name: owner},
			Ask: func(context.Context) (string, bool, error) {
				asked <- key
				<-gate
				return "answer to " + key, false, nil
			},
			Heard: func(registry.Answer[string], registry.Answer[string]) {},
		})
	}
	for _, owner := range []string{"a", "b"} {
		if answer, ok := ask("one", owner); ok || answer.Value != "" {
			t.Fatalf("answered at once: %+v", answer)
		}
	}
	close(gate)
	for range 2 {
		<-p.woken
	}
	if answer, ok := ask("one", "c"); !ok || answer.Value != "answer to one" || answer.ValueAt.IsZero() {
		t.Errorf("got %+v, %t", answer, ok)
	}
	if _, ok := ask("two", "c"); ok {
		t.Error("another question has the answer of the first")
	}
	<-p.woken
	if len(asked) != 2 {
		t.Errorf("asked %d times, want once each", len(asked))
	}
}

func TestAnAnswerMayBeAskedAnewLikeAFailure(t *testing.T) {
	p := startPool(t, client(t, registry.Options{}), registry.PoolOptions{BackoffBase: 20 * time.Millisecond, BackoffCap: 20 * time.Millisecond})
	times := 0
	q := registry.Question[int]{
		Key: "signed?", Reference: parse(t, "registry.example/team/gw:1"), MaxAge: time.Hour,
		Ask: func(context.Context) (int, bool, error) { times++; return times, times < 3, nil },
	}
	first := answerTo(t, p, q)
	if first.Value != 1 || first.RetryAt.IsZero() {
		t.Fatalf("got %+v", first)
	}
	eventually(t, "it is asked anew until it is satisfied", func() bool {
		answer := answerTo(t, p, q)
		return answer.Value == 3 && answer.RetryAt.IsZero()
	})
	if again := answerTo(t, p, q); again.Value != 3 {
		t.Errorf("asked anew before its time: %+v", again)
	}
}

func TestAFailureKeepsTheAnswerBeforeIt(t *testing.T) {
	p := startPool(t, client(t, registry.Options{}), registry.PoolOptions{BackoffBase: 20 * time.Millisecond, BackoffCap: 20 * time.Millisecond})
	times := 0
	q := registry.Question[string]{
		Key: "q", Reference: parse(t, "registry.example/team/gw:1"), MaxAge: time.Nanosecond,
		Ask: func(context.Context) (string, bool, error) {
			if times++; times > 1 {
				return "", false, errors.New("no answer")
			}
			return "known", false, nil
		},
		Heard: func(registry.Answer[string], registry.Answer[string]) {},
	}
	eventually(t, "the failure is told beside what was known", func() bool {
		answer, _ := registry.Ask(p.Pool, q)
		return answer.Err != nil && answer.Value == "known" && answer.ValueAt.Before(answer.At)
	})
}

// What goes wrong at a registry while one thing is asked spares others the attempt.
func TestQuestionsShareTheLanesOfResolving(t *testing.T) {
	hub := testregistry.Start(t)
	hub.Break(testregistry.Answer(http.StatusServiceUnavailable))
	c := client(t, registry.Options{})
	p := startPool(t, c, registry.PoolOptions{BreakerFailures: 1, BreakerOpen: time.Hour, BackoffBase: time.Millisecond, BackoffCap: time.Millisecond})
	asked := 0
	ask := func(key string) registry.Answer[int] {
		return answerTo(t, p, registry.Question[int]{
			Key: key, Reference: parse(t, hub.Reference("team/gw", key)),
			Ask: func(ctx context.Context) (int, bool, error) {
				asked++
				_, err := c.Resolve(ctx, parse(t, hub.Reference("team/gw", key)), plain)
				return 0, false, fmt.Errorf("looking for signatures: %w", err)
			},
		})
	}
	trouble := "registry " + hub.Host + ": answered 503 (service unavailable)"
	for _, told := range [][2]string{{"1.0", "looking for signatures: " + trouble}, {"1.1", trouble}, {"1.0", "looking for signatures: " + trouble}} {
		key, said := told[0], told[1]
		for range 2 {
			if answer := ask(key); kindOf(answer.Err) != registry.ServerError || answer.Err.Error() != said {
				t.Errorf("%s: %v", key, answer.Err)
			}
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times although the breaker was open", asked)
	}
}

// about is a question about one registry, with an access, that ends as asking does.
func about(tb testing.TB, key, access string, asking func(context.Context) error) registry.Question[string] {
	return registry.Question[string]{
		Key: key, Access: access, Reference: parse(tb, "registry.example/team/gw:1"), Owner: types.NamespacedName{Name: "owner"},
		Ask:   func(ctx context.Context) (string, bool, error) { return key, false, asking(ctx) },
		Heard: func(registry.Answer[string], registry.Answer[string]) {},
	}
}

// Who asks with the wrong authorities, or in a way that is never answered, takes nothing of a registry from those whom it
// answers.
func TestTroubleWithOneAccessSlowsNoOther(t *testing.T) {
	const share = 3
	p := startPool(t, client(t, registry.Options{}), registry.PoolOptions{PerRegistry: share})
	answerTo(t, p, about(t, "first", "right", func(context.Context) error { return nil }))
	for i := range 3 { // which opens the breaker
		wrong := about(t, fmt.Sprint("first", i), "wrong", func(context.Context) error { return &registry.Error{Kind: registry.Untrusted} })
		if answer := answerTo(t, p, wrong); answer.Err == nil {
			t.Fatalf("got %+v", answer)
		}
	}
	for i := range 40 { // which is more than there are workers
		registry.Ask(p.Pool, about(t, "never", fmt.Sprint("tenant", i), func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }))
	}
	began, gate := make(chan struct{}, 2*share), make(chan struct{})
	for i := range 2 * share {
		registry.Ask(p.Pool, about(t, fmt.Sprint("v", i), "right", func(context.Context) error { began <- struct{}{}; <-gate; return nil }))
	}
	begins(t, began, share)
	close(gate)
	begins(t, began, share)
}

// begins waits until so many attempts have begun.
func begins(tb testing.TB, began <-chan struct{}, attempts int) {
	tb.Helper()
	for i := range attempts {
		select {
		case <-began:
		case <-time.After(patience):
			tb.Fatalf("%d attempts have begun, want %d", i, attempts)
		}
	}
}

// However many ask it in vain, a registry that does not answer holds one worker, and each of them has a turn.
func TestARegistryInTroubleHoldsOneWorker(t *testing.T) {
	const accesses = 8
	trouble := &registry.Error{Kind: registry.ServerError}
	p := startPool(t, client(t, registry.Options{}), registry.PoolOptions{})
	for i := range accesses {
		answerTo(t, p, about(t, "first", fmt.Sprint(i), func(context.Context) error { return trouble }))
	}
	began, gate := make(chan struct{}, accesses), make(chan struct{})
	for i := range accesses {
		registry.Ask(p.Pool, about(t, "again", fmt.Sprint(i), func(context.Context) error { began <- struct{}{}; <-gate; return trouble }))
	}
	begins(t, began, 1)
	other := about(t, "other", "", func(context.Context) error { return nil })
	other.Reference = parse(t, "another.example/team/gw:1")
	answerTo(t, p, other) // by when all that is to begin has begun
	if more := len(began); more != 0 {
		t.Errorf("%d more attempts at a time", more)
	}
	close(gate)
	begins(t, began, accesses-1)
}
