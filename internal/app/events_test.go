package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// eventLog is an API server that is asked for nothing but Events.
type eventLog struct {
	sync.Mutex
	sent    []string
	last    *corev1.Event
	trouble func(ctx context.Context) error
}

func (l *eventLog) CreateWithEventNamespaceWithContext(ctx context.Context, event *corev1.Event) (*corev1.Event, error) {
	return l.take(ctx, fmt.Sprintf("create %d: %s", event.Count, event.Message), event)
}

func (l *eventLog) PatchWithEventNamespaceWithContext(ctx context.Context, event *corev1.Event, _ []byte) (*corev1.Event, error) {
	return l.take(ctx, fmt.Sprintf("patch %d: %s", event.Count, event.Message), event)
}

func (l *eventLog) take(ctx context.Context, what string, event *corev1.Event) (*corev1.Event, error) {
	l.Lock()
	l.sent, l.last = append(l.sent, what), event
	l.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if l.trouble != nil {
		return event, l.trouble(ctx)
	}
	return event, nil
}

// taken are the requests since it was last asked, once nothing more comes by itself.
func (l *eventLog) taken() []string {
	synctest.Wait()
	l.Lock()
	defer l.Unlock()
	taken := l.sent
	l.sent = nil
	return taken
}

func gatewayNumber(i int) *v1alpha1.GatewayInstance {
	return &v1alpha1.GatewayInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: fmt.Sprintf("edge-%d", i), UID: types.UID(fmt.Sprint(i))}}
}

// tell records one Event as the end of a pass does.
func tell(r *recorders, about runtime.Object, note string) {
	r.named("gatehouse-gateway").Eventf(about, nil, corev1.EventTypeNormal, "Applied", "Reconcile", "%s", note)
}

// told has Events recorded, in time that passes only while everybody waits; whatever is left running at the end fails.
func told(t *testing.T, log *eventLog, test func(t *testing.T, r *recorders)) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorders(newScheme(), log)
		defer r.stop()
		test(t, r)
	})
}

// Fails when an Event tells of another object, namespace or controller than it is about, or when kubectl has to guess.
func TestAnEventSaysWhatItIsAbout(t *testing.T) {
	log := &eventLog{}
	told(t, log, func(t *testing.T, r *recorders) {
		release := &v1alpha1.GatewayRelease{ObjectMeta: metav1.ObjectMeta{Name: "stable", UID: "r"}}
		for want, about := range map[string]runtime.Object{
			"team-a GatewayInstance/edge-1": gatewayNumber(1),
			"default GatewayRelease/stable": release, // of the cluster
		} {
			tell(r, about, "rolls to 100%")
			log.taken()
			e := log.last
			if got := e.Namespace + " " + e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name; got != want {
				t.Errorf("the Event is in and about %s, want %s", got, want)
			}
			if e.Source.Component != "gatehouse-gateway" || e.ReportingController != "gatehouse-gateway" || e.Reason != "Applied" ||
				e.Type != corev1.EventTypeNormal || e.Message != "rolls to 100%" || e.Count != 1 || e.InvolvedObject.UID == "" {
				t.Errorf("%+v", e)
			}
		}
	})
}

// Fails when Events that differ are combined or dropped, as many as an object may have in a lively hour.
func TestEventsThatDifferAreAllSent(t *testing.T) {
	log := &eventLog{}
	told(t, log, func(t *testing.T, r *recorders) {
		for i := range 200 {
			note := fmt.Sprintf("runs revision %d", i)
			tell(r, gatewayNumber(1), note)
			if got, want := log.taken(), []string{"create 1: " + note}; !slices.Equal(got, want) {
				t.Fatalf("sent %q, want %q", got, want)
			}
			time.Sleep(time.Second)
		}
	})
}

// Fails when an Event that is told again is not counted up, or when anything is sent of it later on.
func TestAnEventAgainIsOnePatchAndNothingIsSentAtRest(t *testing.T) {
	log := &eventLog{}
	told(t, log, func(t *testing.T, r *recorders) {
		for range 3 {
			tell(r, gatewayNumber(1), "a")
		}
		if got, want := log.taken(), []string{"create 1: a", "patch 2: a", "patch 3: a"}; !slices.Equal(got, want) {
			t.Errorf("sent %q, want %q", got, want)
		}
		time.Sleep(24 * time.Hour)
		if got := log.taken(); len(got) > 0 {
			t.Errorf("sent at rest: %q", got)
		}
	})
}

// Fails when what is remembered of Events grows with how many there are.
func TestFewEventsAreRemembered(t *testing.T) {
	log := &eventLog{}
	told(t, log, func(t *testing.T, r *recorders) {
		tell(r, gatewayNumber(0), "first")
		log.taken()
		for i := range 4 * eventSenders * eventsRemembered {
			tell(r, gatewayNumber(i+1), "another")
			log.taken()
		}
		tell(r, gatewayNumber(0), "first")
		if got, want := log.taken(), []string{"create 1: first"}; !slices.Equal(got, want) {
			t.Errorf("after %d others it was %q, want %q: it is to be forgotten", 4*eventSenders*eventsRemembered, got, want)
		}
	})
}

// Fails when an object that flaps fills the API server.
func TestAnObjectThatFlapsIsBounded(t *testing.T) {
	log := &eventLog{}
	told(t, log, func(t *testing.T, r *recorders) {
		sent := 0
		for i := range 10 * eventBurst {
			tell(r, gatewayNumber(1), fmt.Sprint(i))
			sent += len(log.taken())
		}
		if sent != eventBurst {
			t.Errorf("%d Events about one object at once, want %d", sent, eventBurst)
		}
		tell(r, gatewayNumber(2), "calm")
		if got := log.taken(); len(got) != 1 {
			t.Errorf("sent of another object: %q", got)
		}
	})
}

// Fails when an Event is tried for ever, or one that is refused is tried again, or holds up those after it.
func TestAnEventIsNotTriedForEver(t *testing.T) {
	for name, test := range map[string]struct {
		err   error
		tries int
	}{
		"refused":  {apierrors.NewForbidden(corev1.Resource("events"), "", errors.New("terminating")), 1},
		"no reply": {errors.New("connection refused"), 12},
	} {
		t.Run(name, func(t *testing.T) {
			log := &eventLog{trouble: func(context.Context) error { return test.err }}
			told(t, log, func(t *testing.T, r *recorders) {
				tell(r, gatewayNumber(1), "a")
				time.Sleep(time.Hour)
				if got := log.taken(); len(got) != test.tries {
					t.Errorf("tried %d times, want %d", len(got), test.tries)
				}
				log.trouble = nil
				tell(r, gatewayNumber(1), "b")
				if got, want := log.taken(), []string{"create 1: b"}; !slices.Equal(got, want) {
					t.Errorf("sent after it %q, want %q", got, want)
				}
			})
		})
	}
}

// Fails when a manager that has ended goes on sending, or is held up by an API server that is silent; and when the next
// one of the process sends nothing.
func TestEventsEndWithTheirManager(t *testing.T) {
	hangs := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	log := &eventLog{trouble: hangs}
	synctest.Test(t, func(t *testing.T) {
		old := newRecorders(newScheme(), log)
		for i := range 100 {
			tell(old, gatewayNumber(i), "before the end")
		}
		log.taken()
		began := time.Now()
		old.stop()
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %s to stop", took)
		}
		log.taken()
		log.trouble = nil
		tell(old, gatewayNumber(1), "after the end")
		time.Sleep(time.Hour)
		if got := log.taken(); len(got) > 0 {
			t.Errorf("sent after the end: %q", got)
		}

		next := newRecorders(newScheme(), log)
		defer next.stop()
		tell(next, gatewayNumber(1), "of the next")
		if got, want := log.taken(), []string{"create 1: of the next"}; !slices.Equal(got, want) {
			t.Errorf("sent by the next %q, want %q", got, want)
		}
	})
}
