package faultproxy_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/faultproxy"
)

func TestWithoutAScriptTheProxyIsNotThere(t *testing.T) {
	b := newBench(t)
	review, err := b.client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if want := "system:serviceaccount:" + b.namespace + ":" + account; review.Status.UserInfo.Username != want {
		t.Errorf("the API server sees %s, want %s", review.Status.UserInfo.Username, want)
	}
	if err := b.create("c"); err != nil {
		t.Error(err)
	}
	if _, err := b.client.CoreV1().Secrets(b.namespace).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("what the service account may not do: %v", err)
	}
}

func TestRequestsAreCountedByVerbKindAndOutcome(t *testing.T) {
	b := newBench(t)
	maps := b.client.CoreV1().ConfigMaps(b.namespace)
	for range 2 {
		_ = b.create("c") // the second exists
	}
	for range 3 {
		if _, err := maps.List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	b.proxy.Script(faultproxy.Rule{When: faultproxy.Verb("delete"), Fault: faultproxy.Cut()})
	_ = maps.Delete(t.Context(), "c", metav1.DeleteOptions{})

	counts := b.proxy.Counts()
	for _, want := range []struct {
		verb    string
		outcome faultproxy.Outcome
		n       int
	}{{"create", "201", 1}, {"create", "409", 1}, {"list", "200", 3}, {"delete", faultproxy.OutcomeCut, 1}} {
		if got := counts[faultproxy.Count{Verb: want.verb, Resource: "configmaps", Outcome: want.outcome}]; got != want.n {
			t.Errorf("%s %s: counted %d, want %d, of %v", want.verb, want.outcome, got, want.n, counts)
		}
	}
	if got := b.proxy.Sent(faultproxy.Verb("create")); got != 2 {
		t.Errorf("%d creates, want 2", got)
	}
	writes := b.proxy.Writes()
	if len(writes) != 3 || writes[0].Name != "c" || writes[0].Number != 1 || writes[0].UID == "" || !writes[0].Committed || writes[1].Committed || writes[2].Committed {
		t.Errorf("the writes as the API server saw them: %+v", writes)
	}
}

func TestFaultsOfRequests(t *testing.T) {
	deadline := func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }
	severed := func(err error) bool {
		var refused apierrors.APIStatus
		return err != nil && !deadline(err) && !errors.As(err, &refused)
	}
	for _, test := range []struct {
		name   string
		fault  faultproxy.Fault
		is     func(error) bool
		stored bool
	}{
		{"a conflict", faultproxy.Fail(http.StatusConflict), apierrors.IsConflict, false},
		{"too many requests", faultproxy.Fail(http.StatusTooManyRequests), apierrors.IsTooManyRequests, false},
		{"an internal error", faultproxy.Fail(http.StatusInternalServerError), apierrors.IsInternalError, false},
		{"a timeout of the server's", faultproxy.Fail(http.StatusGatewayTimeout), apierrors.IsTimeout, false},
		{"a timeout of the server's after the fact", faultproxy.Lost(faultproxy.Fail(http.StatusGatewayTimeout)), apierrors.IsTimeout, true},
		{"a cut connection", faultproxy.Cut(), severed, false},
		{"a connection cut after the fact", faultproxy.Lost(faultproxy.Cut()), severed, true},
		{"no answer", faultproxy.Hang(), deadline, false},
		{"no answer after the fact", faultproxy.Lost(faultproxy.Hang()), deadline, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t)
			b.proxy.Script(faultproxy.Rule{When: faultproxy.Verb("create"), Times: 1, Fault: test.fault})
			config := b.config()
			config.Timeout = 2 * time.Second
			b.client = clientset(t, config)
			if err := b.create("c"); !test.is(err) {
				t.Errorf("the client got %v", err)
			}
			if stored := len(b.stored()) == 1; stored != test.stored {
				t.Errorf("stored: %v, want %v", stored, test.stored)
			}
			if sent := b.proxy.Sent(faultproxy.Verb("create")); sent != 1 {
				t.Errorf("the client sent it %d times", sent)
			}
			b.client = clientset(t, b.config())
			if err := b.create("d"); err != nil {
				t.Errorf("after the fault: %v", err)
			}
		})
	}
}

// An answer with Retry-After does not reach the caller: client-go repeats the request, writes included.
func TestThrottlingIsRepeatedByTheClient(t *testing.T) {
	b := newBench(t)
	b.proxy.Script(faultproxy.Rule{When: faultproxy.Verb("create"), Times: 2, Fault: faultproxy.Throttle("0")})
	if err := b.create("c"); err != nil {
		t.Error(err)
	}
	if sent := b.proxy.Sent(faultproxy.Verb("create")); sent != 3 {
		t.Errorf("the client sent it %d times, want 3", sent)
	}
}

func TestASlowRequestIsPassedOnLate(t *testing.T) {
	b := newBench(t)
	const late = 300 * time.Millisecond
	b.proxy.Script(faultproxy.Rule{When: faultproxy.Verb("create"), Fault: faultproxy.Slow(late)})
	began := time.Now()
	if err := b.create("c"); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < late {
		t.Errorf("it took %s, want %s at least", took, late)
	}
}

// A client that leaves while its write is on the way does not take the write back.
func TestADecidedWriteOutlivesItsClient(t *testing.T) {
	b := newBench(t)
	b.proxy.Script(faultproxy.Rule{When: faultproxy.Verb("create"), Fault: faultproxy.Slow(500 * time.Millisecond)})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := b.client.CoreV1().RESTClient().Post().Namespace(b.namespace).Resource("configmaps").Body([]byte(`{"metadata":{"name":"c"}}`)).SetHeader("Content-Type", "application/json").DoRaw(ctx)
	if err == nil {
		t.Fatal("answered")
	}
	eventually.Succeeds(t, soon, func() error {
		if len(b.stored()) == 0 {
			return errors.New("not stored")
		}
		return nil
	})
}
