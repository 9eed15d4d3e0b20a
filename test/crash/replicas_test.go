package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/faultproxy"
)

// handover is within what time another leads once the lease has ended.
const handover = 2 * time.Second

// Three replicas, of which one after the other is killed, stopped or paused in the midst of edits. Another leads in
// time, and nothing is lost.
func TestReplicas(t *testing.T) {
	kills, stops, pauses, held := 4, 2, 3, lease{2 * time.Second, 1500 * time.Millisecond, 400 * time.Millisecond}
	if os.Getenv(fireEnv) == "all" {
		kills, stops, pauses, held = 20, 10, 20, lease{15 * time.Second, 10 * time.Second, 400 * time.Millisecond} // as by default
	}
	seed := faultproxy.Seed(t, fireEnv+"="+os.Getenv(fireEnv))
	l := newLane(t, cluster.Options{Audit: true})
	l.replicas, l.lease = 3, held
	e := newEdits(t, l, seed)
	for _, act := range []struct {
		name  string
		times int
		do    func(*edits, *testing.T)
	}{
		{"one that is killed is replaced within the lease and two seconds", kills, (*edits).kill},
		{"one that is stopped hands over within two seconds", stops, (*edits).stop},
		{"one that was paused takes nothing back", pauses, (*edits).pause},
	} {
		t.Run(act.name, func(t *testing.T) {
			for range act.times {
				act.do(e, t)
				if err := l.watcher.verdict(); err != nil {
					t.Error(err)
				}
				if t.Failed() {
					return
				}
			}
			e.converged(t)
		})
	}
	if e.paused > 0 && e.conflicts == 0 && !t.Failed() {
		t.Error("no write of one who led no more was refused: none of them came too late")
	}
}

// edits are those of a fleet's release, one image after the other, without waiting for the one before.
type edits struct {
	*run
	random    *rand.Rand
	tags      int
	last      image.Digest
	paused    int // leaders that went on beside another
	conflicts int // writes that were refused because another leads
}

func newEdits(t *testing.T, l *lane, seed uint64) *edits {
	t.Helper()
	e := &edits{random: rand.New(rand.NewPCG(seed, 4))}
	e.run = &run{
		scenario: scenario{name: "edits", gateways: 6, budget: 2},
		lane:     l, follows: map[client.ObjectKey]int{}, pushed: map[string]image.Digest{}, digests: map[string]string{},
	}
	l.staff(t)
	l.watcher.begin(e.scenario.budget)
	e.found(t)
	e.last = e.fleet().V1
	e.converged(t)
	t.Cleanup(func() {
		if t.Failed() {
			l.tell(t)
		}
	})
	return e
}

// next edits the image.
func (e *edits) next(t *testing.T) {
	t.Helper()
	e.tags++
	e.fleet().SetImage(t, e.image(t, fmt.Sprintf("e%d", e.tags)))
	e.last = e.pushed[fmt.Sprintf("e%d", e.tags)]
}

func (e *edits) converged(t *testing.T) {
	t.Helper()
	e.fleet().ConvergedWithin(t, e.last, e.lane.patience)
}

// soon waits for a moment of chance.
func (e *edits) soon(t *testing.T, most time.Duration) {
	t.Helper()
	timer := time.NewTimer(time.Duration(e.random.Int64N(int64(most))))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}

func (e *edits) kill(t *testing.T) {
	leader := e.lane.staff(t)
	e.next(t)
	e.soon(t, 800*time.Millisecond)
	killed := time.Now()
	leader.Kill()
	e.another(t, leader, killed, e.lane.lease.duration+handover)
}

func (e *edits) stop(t *testing.T) {
	leader := e.lane.staff(t)
	e.next(t)
	e.soon(t, 800*time.Millisecond)
	var stopping sync.WaitGroup
	defer stopping.Wait()
	told := time.Now()
	stopping.Go(func() { leader.Stop(t) })
	e.another(t, leader, told, handover)
}

// another waits until another than the old leader leads, and holds that to a bound. Moments at which this process did
// not get to ask do not count: then the candidates did not either.
func (e *edits) another(t *testing.T, old *replica, since time.Time, bound time.Duration) {
	t.Helper()
	const step, late = 10 * time.Millisecond, 50 * time.Millisecond
	tick := time.NewTicker(step)
	defer tick.Stop()
	var stalled time.Duration
	for asked := time.Now(); ; asked = time.Now() {
		if leader, err := e.lane.leader(t.Context()); err == nil && leader != old {
			break
		}
		if time.Since(since) > patience {
			t.Fatalf("nobody leads %s after the end of %s", patience, old.Identity())
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("the test ended while waiting")
		}
		if took := time.Since(asked); took > late {
			stalled += took
		}
	}
	took := time.Since(since)
	t.Logf("another leads after %s, of which this machine stood still for %s", took.Round(time.Millisecond), stalled.Round(time.Millisecond))
	if took-3*stalled > bound { // there are several processes that have to get their turn
		t.Errorf("another leads after %s, want it within %s", took, bound)
	}
}

// pause stops the leader in its tracks at one of its writes until another leads and has gone on with the edit. What the
// old one has sent arrives then, and what has been changed meanwhile it must not touch.
func (e *edits) pause(t *testing.T) {
	old := e.lane.staff(t)
	at, err := e.lane.product.Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first := old.proxy.Begun() + 1 + e.random.IntN(20)
	heirs, complete := time.Duration(e.random.Int64N(int64(time.Second))), e.random.IntN(2) == 0
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	resumed := make(chan struct{})
	last := 0
	old.proxy.HaltBefore(first, func() {
		defer close(resumed)
		if err := old.Signal(syscall.SIGSTOP); err != nil {
			t.Errorf("stop the leader: %v", err)
			return
		}
		e.lane.led(ctx, old, heirs)
		for tick := time.NewTicker(20 * time.Millisecond); complete && ctx.Err() == nil; {
			if e.settled(ctx) {
				tick.Stop()
				break
			}
			<-tick.C
		}
		last = old.proxy.Begun()
		if err := old.Signal(syscall.SIGCONT); err != nil {
			t.Errorf("let the leader go on: %v", err)
		}
	})
	e.next(t)
	select {
	case <-resumed:
	case <-time.After(e.lane.patience):
		t.Fatalf("%s has not stood still and gone on", old.Identity())
	}
	eventually.Succeeds(t, patience, func() error {
		if !strings.Contains(old.Log(), "leadership lost") {
			return errors.New(old.Identity() + " does not know yet that it leads no more")
		}
		return nil
	})
	e.converged(t)
	e.lane.rests(t, stillness)
	refused, err := e.tooLate(t, old, first, last, at)
	if err != nil {
		t.Error(err)
	}
	e.paused++
	e.conflicts += refused
	t.Logf("of %d writes that were held back %d were refused", last-first+1, refused)
}

// settled says whether the fleet has come to the last edit.
func (e *edits) settled(ctx context.Context) bool {
	release := e.fleet().Name
	var gateways v1alpha1.GatewayInstanceList
	if err := e.lane.product.Client.List(ctx, &gateways, client.InNamespace(e.fleet().Namespaces[0])); err != nil {
		return false
	}
	for _, g := range gateways.Items {
		if g.Spec.ReleaseRef.Name != release || g.Status.Image != e.fleet().Pinned(e.last) {
			return false
		}
	}
	return true
}

// tooLate counts the writes among those that the old leader had sent before it stood still that were refused. Each that
// is about something that another has changed meanwhile has to be: by the API server's own record.
func (e *edits) tooLate(t *testing.T, old *replica, first, last int, since cluster.Mark) (refused int, err error) {
	t.Helper()
	type object struct{ group, resource, namespace, name string }
	mine := func(ev cluster.AuditEvent) bool { return strings.HasSuffix(ev.UserAgent, " "+old.Identity()) }
	events, err := e.lane.product.Sent(t.Context(), since)
	if err != nil {
		return 0, err
	}
	changed, conflicts := map[object]bool{}, map[object]bool{}
	for _, ev := range events {
		o := object{ev.APIGroup, ev.Resource, ev.Namespace, ev.Name}
		switch {
		case strings.Contains(ev.RequestURI, "dryRun"):
		case mine(ev) && ev.Code == 409:
			conflicts[o] = true
		case !mine(ev) && ev.Code < 300:
			changed[o] = true
		}
	}
	var errs []error
	for _, w := range old.proxy.Writes() {
		o := object{w.Group, w.Resource, w.Namespace, w.Name}
		if w.Number < first || w.Number > last || w.DryRun || !changed[o] {
			continue
		}
		switch {
		case !w.Committed && conflicts[o]:
			refused++
		case w.Committed && e.alike(w, old):
		default:
			errs = append(errs, fmt.Errorf("%s: was held back while another replica wrote it, and was answered %s", w.Request, w.Outcome))
		}
	}
	return refused, errors.Join(errs...)
}

// alike says whether a write has left everything as another replica had written it: one that applies the very same is
// not refused, whatever version it was decided from, and changes none.
func (e *edits) alike(w faultproxy.Written, by *replica) bool {
	var last faultproxy.Written
	for _, other := range e.lane.managers {
		for _, written := range other.proxy.Writes() {
			if other != by && written.Committed && !written.DryRun && written.Request.String() == w.Request.String() {
				last = written
			}
		}
	}
	if w.Generation > 0 { // a Deployment's version moves with its status too
		return w.UID == last.UID && w.Generation == last.Generation
	}
	return w.UID == last.UID && w.Version == last.Version
}
