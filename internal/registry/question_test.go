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
