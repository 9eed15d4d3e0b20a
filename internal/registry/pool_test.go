package registry_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gatehouse-dev/gatehouse/internal/registry"
	testregistry "github.com/gatehouse-dev/gatehouse/test/registry"
)

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

var (
	_ manager.Runnable               = &registry.Pool{}
	_ manager.LeaderElectionRunnable = &registry.Pool{}
)

// running is a started pool with one controller that watches it.
type running struct {
	*registry.Pool
	woken chan types.NamespacedName
	stop  context.CancelFunc
	ended chan error
}

func startPool(tb testing.TB, c *registry.Client, options registry.PoolOptions) *running {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p := &running{
		Pool:  registry.NewPool(c, options),
		woken: make(chan types.NamespacedName, 10_000),
		stop:  cancel,
		ended: make(chan error, 1),
	}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	if err := p.Completions().Start(ctx, queue); err != nil {
		tb.Fatal(err)
	}
	collected := make(chan struct{})
	go func() {
		defer close(collected)
		for {
			request, shutdown := queue.Get()
			if shutdown {
				return
			}
			p.woken <- request.NamespacedName
			queue.Done(request)
		}
	}()
	go func() { p.ended <- p.Start(ctx) }()
	tb.Cleanup(func() {
		cancel()
		queue.ShutDown()
		<-collected
	})
	return p
}

// ask looks up until there is an answer, asking again only when woken.
func (p *running) ask(tb testing.TB, req registry.Request) registry.Result {
	tb.Helper()
	deadline := time.After(patience)
	for {
		if result, ok := p.Lookup(req); ok {
			return result
		}
		for woken := false; !woken; {
			select {
			case owner := <-p.woken:
				woken = owner == req.Owner
			case <-deadline:
				tb.Fatalf("%s: nobody was woken", req.Reference)
			}
		}
	}
}

// eventually looks until it is so.
func eventually(tb testing.TB, what string, so func() bool) {
	tb.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(patience)
	for !so() {
		select {
		case <-ticker.C:
		case <-deadline:
			tb.Fatalf("not so: %s", what)
		}
	}
}

func request(tb testing.TB, ref string) registry.Request {
	tb.Helper()
	return registry.Request{Reference: parse(tb, ref), Access: plain, Owner: types.NamespacedName{Name: ref}}
}

func kindOf(err error) registry.Kind {
	var e *registry.Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}

func TestLookupNeverWaitsAndCompletionWakesWhoAsked(t *testing.T) {
	hub := testregistry.Start(t)
	want := hub.PushImage(t, "team/gw", "1.0")
	gate := make(chan struct{})
	hub.Break(holdUntil(gate))
	p := startPool(t, client(t, registry.Options{}), registry.PoolOptions{})
	req := request(t, hub.Reference("team/gw", "1.0"))
	owners := map[types.NamespacedName]bool{}
	for i := range 20 {
		req.Owner = types.NamespacedName{Namespace: "tenant", Name: fmt.Sprint("release-", i)}
		owners[req.Owner] = true
		if result, ok := p.Lookup(req); ok || result != (registry.Result{}) {
			t.Fatalf("answered before the registry did: %+v", result)
		}
	}
	close(gate)
	for len(owners) > 0 {
		select {
		case owner := <-p.woken:
			if !owners[owner] {
				t.Errorf("%s was woken, and did not wait", owner)
			}
			delete(owners, owner)
		case <-time.After(patience):
			t.Fatalf("not woken: %v", owners)
		}
	}
	if result, ok := p.Lookup(req); !ok || result.Digest != want || result.Err != nil || result.At.IsZero() || !result.RetryAt.IsZero() {
		t.Errorf("got %+v, %t", result, ok)
	}
	if n := count(hub, http.MethodHead); n != 1 {
		t.Errorf("20 who asked caused %d attempts", n)
	}
}

// holdUntil answers rightly, once the gate is open.
func holdUntil(gate <-chan struct{}) testregistry.Fault {
	return func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		select {
		case <-gate:
			next.ServeHTTP(w, req)
		case <-req.Context().Done():
			panic(http.ErrAbortHandler)
		}
	}
}

func count(hub *testregistry.Registry, method string) int {
	n := 0
	for _, req := range hub.Requests() {
		if req.Method == method {
			n++
		}
	}
	return n
}

func TestADigestIsGoodForItsAge(t *testing.T) {
	hub := testregistry.Start(t)
	one := hub.PushImage(t, "team/gw", "stable")
	clock := testclock.NewFakePassiveClock(time.Now())
	p := startPool(t, client(t, registry.Options{}), registry.PoolOptions{Clock: clock})
	req := request(t, hub.Reference("team/gw", "stable"))
	req.MaxAge = 10 * time.Minute
	p.ask(t, req)
	two := hub.PushImage(t, "team/gw", "stable")

	clock.SetTime(clock.Now().Add(10*time.Minute - 1))
	if result, ok := p.Lookup(req); !ok || result.Digest != one {
		t.Errorf("within its age: got %+v, %t", result, ok)
	}
	clock.SetTime(clock.Now().Add(1))
	if result, ok := p.Lookup(req); ok || result.Digest != one {
		t.Errorf("past its age: got %+v, %t, want the old digest and that it is asked again", result, ok)
	}
	if result := p.ask(t, req); result.Digest != two || !result.At.Equal(clock.Now()) {
		t.Errorf("asked again: got %+v", result)
	}

	req.MaxAge = 0
	clock.SetTime(clock.Now().Add(1000 * time.Hour))
	if result, ok := p.Lookup(req); !ok || result.Digest != two {
		t.Errorf("any age will do: got %+v, %t", result, ok)
	}
	hub.MoveTag(t, "team/gw", "stable", one)
	req.NotBefore = clock.Now().Add(time.Hour)
	if _, ok := p.Lookup(req); !ok {
		t.Error("a time in the future must not ask without end")
	}
	req.NotBefore = clock.Now()
	if result := p.ask(t, req); result.Digest != one {
		t.Errorf("a person wants it asked now: got %+v", result)
	}
}

func TestAFailureIsTriedAgainLaterAndLater(t *testing.T) {
	hub := testregistry.Start(t)
	clock := testclock.NewFakePassiveClock(time.Now())
	p := startPool(t, client(t, registry.Options{}), registry.PoolOptions{Clock: clock, BackoffBase: 4 * time.Second, BackoffCap: 40 * time.Second})
	req := request(t, hub.Reference("team/gw", "1.0"))
	var text string
	for attempt, longest := range []time.Duration{4, 8, 16, 32, 40, 40, 40} {
		longest *= time.Second
		result := p.ask(t, req)
		if kindOf(result.Err) != registry.NotFound {
			t.Fatalf("got %+v", result)
		}
		if text == "" {
			text = result.Err.Error()
		}
		if wait := result.RetryAt.Sub(clock.Now()); wait > longest || wait < longest*3/4 {
			t.Errorf("attempt %d: waits %s, want at most %s and little less", attempt, wait, longest)
		}
		clock.SetTime(result.RetryAt.Add(-1))
		if again, ok := p.Lookup(req); !ok || again != result {
			t.Errorf("attempt %d: got %+v, %t before it is time", attempt, again, ok)
		}
		if n := count(hub, http.MethodHead); n != attempt+1 {
			t.Errorf("%d requests for %d attempts", n, attempt+1)
		}
		clock.SetTime(result.RetryAt)
		if again, ok := p.Lookup(req); ok || again.Err == nil || again.Err.Error() != text || !again.RetryAt.IsZero() {
			t.Errorf("attempt %d: while it is tried again the reason must stand: got %+v, %t", attempt, again, ok)
		}
	}

	p.ask(t, req) // the attempt that is under way
	want := hub.PushImage(t, "team/gw", "1.0")
	clock.SetTime(clock.Now().Add(time.Second))
	req.NotBefore = clock.Now() // a person need not wait for the back-off
	if result := p.ask(t, req); result.Digest != want || result.Err != nil {
		t.Errorf("got %+v", result)
	}
	hub.DeleteTag(t, "team/gw", "1.0")
	clock.SetTime(clock.Now().Add(time.Second))
	req.NotBefore = clock.Now()
	if result := p.ask(t, req); result.RetryAt.Sub(clock.Now()) > 4*time.Second {
		t.Errorf("after a success the back-off starts over: got %+v", result)
	}
}

func TestATerminalFailureIsNotTriedAgain(t *testing.T) {
	clock := testclock.NewFakePassiveClock(time.Now())
	p := startPool(t, client(t, registry.Options{}), registry.PoolOptions{Clock: clock})
	req := request(t, "reg.example.com/team/gw:1.0")
	req.Access.CABundle = []byte("none")
	result := p.ask(t, req)
	if !registry.IsTerminal(result.Err) || !result.RetryAt.IsZero() {
		t.Fatalf("got %+v", result)
	}
	clock.SetTime(clock.Now().Add(1000 * time.Hour))
	if again, ok := p.Lookup(req); !ok || again != result {
		t.Errorf("got %+v, %t", again, ok)
	}
}

func TestDeadRegistriesDoNotDelayALiveOne(t *testing.T) {
	const dead = 10
	p := startPool(t, client(t, registry.Options{Deadline: patience, ResponseHeaderTimeout: patience}), registry.PoolOptions{})
	var waiting []registry.Request
	for range dead {
		hub := testregistry.Start(t)
		hub.Break(testregistry.Hang())
		for i := range 50 {
			waiting = append(waiting, request(t, hub.Reference("team/gw", fmt.Sprint("v", i))))
		}
	}
	for _, req := range waiting {
		p.Lookup(req)
	}
	live := testregistry.Start(t)
	for i := range 20 {
		tag := fmt.Sprint("v", i)
		want := live.PushImage(t, "team/gw", tag)
		if result := p.ask(t, request(t, live.Reference("team/gw", tag))); result.Digest != want {
			t.Fatalf("%s: got %+v", tag, result)
		}
	}
	for _, req := range waiting {
		if result, ok := p.Lookup(req); ok {
			t.Fatalf("the dead registry has answered meanwhile, so this proves nothing: %+v", result)
		}
	}
}

func TestRegistriesInTroubleShareHalfOfTheWorkers(t *testing.T) {
	// Each has answered badly once, so that it is known; then each hangs, and
	// there are more of them than workers.
	const workers = 4
	p := startPool(t, client(t, registry.Options{Deadline: patience, ResponseHeaderTimeout: patience}), registry.PoolOptions{Workers: workers})
	var hubs []*testregistry.Registry
	for range 2 * workers {
		hub := testregistry.Start(t)
		hub.Break(testregistry.Answer(http.StatusInternalServerError))
		p.ask(t, request(t, hub.Reference("team/gw", "first")))
		hub.Break(testregistry.Hang())
		hubs = append(hubs, hub)
	}
	for _, hub := range hubs {
		p.Lookup(request(t, hub.Reference("team/gw", "second")))
	}
	live := testregistry.Start(t)
	want := live.PushImage(t, "team/gw", "1.0")
	if result := p.ask(t, request(t, live.Reference("team/gw", "1.0"))); result.Digest != want {
		t.Errorf("got %+v", result)
	}
}

func TestOneRegistryHasItsShareOfTheWorkers(t *testing.T) {
	const share = 3
	hub := testregistry.Start(t)
	hub.PushImage(t, "team/gw", "first")
	p := startPool(t, client(t, registry.Options{Deadline: patience, ResponseHeaderTimeout: patience}), registry.PoolOptions{PerRegistry: share})
	p.ask(t, request(t, hub.Reference("team/gw", "first"))) // now it is known to answer

	var mu sync.Mutex
	now, most := 0, 0
	full, gate := make(chan struct{}), make(chan struct{})
	hub.Break(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		mu.Lock()
		now++
		if most = max(most, now); now == share {
			select {
			case <-full:
			default:
				close(full)
			}
		}
		mu.Unlock()
		holdUntil(gate)(w, req, next)
		mu.Lock()
		now--
		mu.Unlock()
	})
	var all []registry.Request
	for i := range 20 {
		all = append(all, request(t, hub.Reference("team/gw", fmt.Sprint("v", i))))
		p.Lookup(all[i])
	}
	select {
	case <-full:
	case <-time.After(patience):
		t.Fatal("a registry that answers gets more than one worker")
	}
	close(gate)
	for _, req := range all {
		p.ask(t, req)
	}
	mu.Lock()
	defer mu.Unlock()
	if most > share {
		t.Errorf("%d attempts at a time, want at most %d", most, share)
	}
}

func TestRegistriesTakeTurns(t *testing.T) {
	busy, other := testregistry.Start(t), testregistry.Start(t)
	gate := make(chan struct{})
	busy.Break(holdUntil(gate))
	p := startPool(t, client(t, registry.Options{Deadline: patience, ResponseHeaderTimeout: patience}), registry.PoolOptions{Workers: 1})
	for i := range 100 {
		p.Lookup(request(t, busy.Reference("team/gw", fmt.Sprint("v", i))))
	}
	before := make(chan int, 1) // attempts at the one, when the other is asked
	other.Break(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		select {
		case before <- count(busy, http.MethodHead):
		default:
		}
		next.ServeHTTP(w, req)
	})
	req := request(t, other.Reference("team/gw", "1.0"))
	p.Lookup(req)
	close(gate)
	p.ask(t, req)
	if n := <-before; n > 5 {
		t.Errorf("%d attempts at the other registry came first", n)
	}
}

func TestTheBreakerSparesARegistryThatIsDown(t *testing.T) {
	hub := testregistry.Start(t)
	hub.PushImage(t, "team/gw", "v0")
	want := hub.PushImage(t, "team/gw", "v9")
	hub.Break(testregistry.Answer(http.StatusServiceUnavailable))
	p := startPool(t, client(t, registry.Options{}), registry.PoolOptions{BreakerFailures: 3, BreakerOpen: time.Second, BackoffBase: time.Millisecond})
	var text string
	for i := range 3 {
		result := p.ask(t, request(t, hub.Reference("team/gw", fmt.Sprint("v", i))))
		if kindOf(result.Err) != registry.ServerError {
			t.Fatalf("got %+v", result)
		}
		text = result.Err.Error()
	}
	asked := len(hub.Requests())
	req := request(t, hub.Reference("team/gw", "v9"))
	result, ok := p.Lookup(req)
	if !ok || result.Err == nil || result.Err.Error() != text || result.RetryAt.IsZero() {
		t.Errorf("while the breaker is open the reason is at hand: got %+v, %t", result, ok)
	}
	if n := len(hub.Requests()) - asked; n != 0 {
		t.Errorf("it was asked %d times", n)
	}
	hub.Heal()
	eventually(t, "it is tried again", func() bool {
		result := p.ask(t, req)
		if result.Err != nil && result.Err.Error() != text {
			t.Errorf("the reason flaps: %v", result.Err)
		}
		return result.Digest == want
	})
	p.ask(t, request(t, hub.Reference("team/gw", "v0")))
}

func TestTroubleWithOneAccessSaysNothingAboutAnother(t *testing.T) {
	hub := testregistry.Start(t, testregistry.WithTLS())
	want := hub.PushImage(t, "team/gw", "1.0")
	p := startPool(t, client(t, registry.Options{}), registry.PoolOptions{BreakerFailures: 1})
	req := request(t, hub.Reference("team/gw", "1.0"))
	req.Access = registry.Access{}
	if result := p.ask(t, req); kindOf(result.Err) != registry.Untrusted {
		t.Fatalf("got %+v", result)
	}
	req.Access.CABundle = hub.CA
	if result := p.ask(t, req); result.Digest != want {
		t.Errorf("got %+v", result)
	}
}

func TestARegistryThatAsksToBeLeftAloneIs(t *testing.T) {
	hub, other := testregistry.Start(t), testregistry.Start(t)
	want := hub.PushImage(t, "team/gw", "1.0")
	other.PushImage(t, "team/gw", "1.0")
	clock := testclock.NewFakePassiveClock(time.Now())
	p := startPool(t, client(t, registry.Options{Clock: clock}), registry.PoolOptions{Clock: clock})
	hub.Break(testregistry.AnswerRetryAfter(http.StatusTooManyRequests, "90"))
	first := p.ask(t, request(t, hub.Reference("team/gw", "first")))
	if kindOf(first.Err) != registry.TooManyRequests || first.RetryAt.Before(clock.Now().Add(90*time.Second)) {
		t.Errorf("got %+v", first)
	}
	hub.Heal()
	clock.SetTime(clock.Now().Add(90*time.Second - 1))
	req := request(t, hub.Reference("team/gw", "1.0"))
	req.NotBefore = clock.Now() // not even a person can hurry it
	result, ok := p.Lookup(req)
	if !ok || kindOf(result.Err) != registry.TooManyRequests {
		t.Errorf("another tag of that registry: got %+v, %t", result, ok)
	}
	if n := len(hub.Requests()); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
	if result := p.ask(t, request(t, other.Reference("team/gw", "1.0"))); result.Err != nil {
		t.Errorf("another registry: got %+v", result)
	}
	clock.SetTime(result.RetryAt)
	if result := p.ask(t, req); result.Digest != want {
		t.Errorf("when the time is over: got %+v", result)
	}
}

func TestWhatIsKnownIsBounded(t *testing.T) {
	hub := testregistry.Start(t)
	for i := range 4 {
		hub.PushImage(t, "team/gw", fmt.Sprint("v", i))
	}
	p := startPool(t, client(t, registry.Options{Deadline: patience, ResponseHeaderTimeout: patience}), registry.PoolOptions{MaxResults: 3})
	tag := func(i int) registry.Request { return request(t, hub.Reference("team/gw", fmt.Sprint("v", i))) }
	for i := range 3 {
		p.ask(t, tag(i))
	}
	p.Lookup(tag(0))
	p.ask(t, tag(3))
	if _, ok := p.Lookup(tag(0)); !ok {
		t.Error("v0 was asked for lately")
	}
	hub.Break(testregistry.Hang())
	if _, ok := p.Lookup(tag(1)); ok {
		t.Error("v1 was asked for least lately, yet is known")
	}
	p.Lookup(tag(4))
	p.Lookup(tag(5))
	if result, ok := p.Lookup(tag(6)); !ok || kindOf(result.Err) != registry.Busy || result.RetryAt.IsZero() {
		t.Errorf("with no room left: got %+v, %t", result, ok)
	}
}

func TestAPoolEndsWithItsAttempts(t *testing.T) {
	hub := testregistry.Start(t)
	hub.Break(testregistry.Hang())
	metrics := prometheus.NewRegistry()
	p := startPool(t, client(t, registry.Options{Deadline: time.Hour, ResponseHeaderTimeout: time.Hour, Registerer: metrics}), registry.PoolOptions{})
	req := request(t, hub.Reference("team/gw", "1.0"))
	p.Lookup(req)
	eventually(t, "an attempt is made", func() bool { return len(hub.Requests()) > 0 })
	p.stop()
	select {
	case err := <-p.ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("it goes on")
	}
	if n := attempts(t, metrics)[string(registry.Interrupted)]; n != 1 {
		t.Errorf("%v attempts were given up by the end of the pool, want 1", n)
	}
	if result, ok := p.Lookup(req); ok || result.Err != nil {
		t.Errorf("an attempt that was given up is no result: got %+v, %t", result, ok)
	}
}

func TestWhatIsAskedBeforeTheStartIsAttemptedThen(t *testing.T) {
	hub := testregistry.Start(t)
	want := hub.PushImage(t, "team/gw", "1.0")
	p := registry.NewPool(client(t, registry.Options{}), registry.PoolOptions{})
	req := request(t, hub.Reference("team/gw", "1.0"))
	if _, ok := p.Lookup(req); ok {
		t.Fatal("answered by nobody")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Start(ctx) }()
	eventually(t, "it is attempted", func() bool {
		result, ok := p.Lookup(req)
		return ok && result.Digest == want
	})
	cancel()
	<-ended
}
