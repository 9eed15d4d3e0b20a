package faultproxy_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/faultproxy"
)

func TestWritesStandStillAtTheOneThatWasChosen(t *testing.T) {
	for _, test := range []struct {
		name   string
		halt   func(*faultproxy.Proxy, int, func())
		stored []string // while they stand
	}{
		{"before it is passed on", (*faultproxy.Proxy).HaltBefore, []string{"c00"}},
		{"before it is answered", (*faultproxy.Proxy).HaltAfter, []string{"c00", "c01"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t)
			reached, resume := make(chan struct{}), make(chan struct{})
			test.halt(b.proxy, 2, func() {
				close(reached)
				<-resume
			})
			var made []string
			var mu sync.Mutex
			var working sync.WaitGroup
			working.Go(func() {
				for _, name := range numbered(4) {
					if err := b.create(name); err != nil {
						t.Error(err)
					}
					mu.Lock()
					made = append(made, name)
					mu.Unlock()
				}
			})
			<-reached
			eventually.Holds(t, 200*time.Millisecond, func() error {
				mu.Lock()
				defer mu.Unlock()
				if got := b.stored(); fmt.Sprint(got) != fmt.Sprint(test.stored) || len(made) != 1 {
					return fmt.Errorf("stored are %v, want %v; the client knows of %v", got, test.stored, made)
				}
				return nil
			})
			if b.proxy.Halted() {
				t.Error("the halt is called over while it lasts")
			}
			close(resume)
			working.Wait()
			if got := b.stored(); len(got) != 4 || !b.proxy.Halted() {
				t.Errorf("afterwards there are %v", got)
			}
		})
	}
}

func TestAHaltThatDidNotComeIsTakenBack(t *testing.T) {
	b := newBench(t)
	b.proxy.HaltBefore(2, func() { t.Error("called") })
	if err := b.create("a"); err != nil {
		t.Fatal(err)
	}
	b.proxy.Spare()
	if err := b.create("b"); err != nil || b.proxy.Halted() {
		t.Errorf("%v", err)
	}
}

// An API server whose cache is behind: lists are of a while ago and events come a while late, so a client that lists
// again goes back in time, and what it reads by name is of now.
func TestBehindTheTime(t *testing.T) {
	b := newBench(t)
	history, err := faultproxy.Remember(t.Context(), shared.Client)
	if err != nil {
		t.Fatal(err)
	}
	lister := b.follow()
	b.make(numbered(3)...)
	eventually.Succeeds(t, soon, b.sees(lister, 3))
	const by = 4 * time.Second
	made := time.Now()
	b.proxy.Behind(history, by, configMaps)
	b.proxy.Relist(configMaps)
	eventually.Succeeds(t, by-time.Since(made), b.sees(lister, 0))
	if _, err := b.client.CoreV1().ConfigMaps(b.namespace).Get(t.Context(), "c00", metav1.GetOptions{}); apierrors.IsNotFound(err) {
		t.Error("what is read by name is of a while ago")
	}
	if list, err := b.client.CoreV1().ConfigMaps(b.namespace).List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 3 {
		t.Errorf("a list that is to be of now has %d: %v", len(list.Items), err)
	}
	if list, err := b.client.CoreV1().ConfigMaps(b.namespace).List(t.Context(), metav1.ListOptions{ResourceVersion: "0"}); err != nil || len(list.Items) != 0 && time.Since(made) < by {
		t.Errorf("a list that may be of any time has %d: %v", len(list.Items), err)
	}
	eventually.Succeeds(t, soon, b.sees(lister, 3))
	made = time.Now()
	b.make("late")
	eventually.Succeeds(t, soon, b.sees(lister, 4))
	if took := time.Since(made); took < by-200*time.Millisecond {
		t.Errorf("an event came after %s", took)
	}
	b.proxy.Present()
	b.make("now")
	eventually.Succeeds(t, by/2, b.sees(lister, 5))
}

// Of clients that have one token the audit log cannot tell which is which, but by their user agents.
func TestTheNameOfAProxyIsSeenInTheUserAgent(t *testing.T) {
	b := newBench(t)
	b.options.Name = "by-the-second"
	second := b.beside()
	if err := errors.Join(b.create("first"), second.create("second")); err != nil {
		t.Fatal(err)
	}
	events, err := shared.Writes(t.Context(), 0, cluster.ByUserAgent("by-the-second"))
	if err != nil {
		t.Fatal(err)
	}
	if len(events) != 1 || events[0].Name != "second" {
		t.Errorf("by that name: %v", events)
	}
}
