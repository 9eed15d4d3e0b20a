package gateway

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

var config = id{"ConfigMap", "edge"}

// view is a pass that sees the gateway and its ConfigMap in versions.
func view(uid types.UID, gateway, object string) *work {
	w := &work{
		gateway: &v1alpha1.GatewayInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "t", Name: "edge", UID: uid, ResourceVersion: gateway}},
		live:    objects{},
		marks:   marks{},
	}
	if object != "" {
		w.live[config] = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "edge", ResourceVersion: object}}
	}
	return w
}

func TestACacheBehindTheLastWriteIsNotActedOn(t *testing.T) {
	m := newMemory(clock.RealClock{})
	m.applied(view("a", "10", "5"), config, "11", "mark")
	m.wrote(view("a", "12", ""))
	for name, tc := range map[string]struct {
		view   *work
		behind bool
	}{
		"the gateway is old":      {view("a", "10", "11"), true},
		"the object is old":       {view("a", "12", "5"), true},
		"the object is not there": {view("a", "12", ""), false}, // looked up past the cache
		"another gateway's turn":  {view("b", "9", "5"), false},
	} {
		t.Run(name, func(t *testing.T) {
			fresh := newMemory(clock.RealClock{})
			fresh.applied(view("a", "10", "5"), config, "11", "mark")
			fresh.wrote(view("a", "12", ""))
			if err := fresh.recall(tc.view); errors.Is(err, errBehind) != tc.behind {
				t.Errorf("%v", err)
			}
		})
	}
	caughtUp := view("a", "12", "11")
	if err := m.recall(caughtUp); err != nil || caughtUp.marks[config] != "mark" {
		t.Errorf("%v, marks %v", err, caughtUp.marks)
	}
}

func TestAMarkIsRememberedUntilStatusHasIt(t *testing.T) {
	m := newMemory(clock.RealClock{})
	m.applied(view("a", "10", ""), config, "11", "new")
	pass := view("a", "10", "11")
	pass.marks[config] = "old"
	if err := m.recall(pass); err != nil || pass.marks[config] != "new" {
		t.Fatalf("%v, marks %v", err, pass.marks)
	}
	pass = view("a", "12", "11")
	pass.marks[config] = "new" // status has it
	if err := m.recall(pass); err != nil {
		t.Fatal(err)
	}
	pass = view("a", "13", "14")
	pass.marks[config] = "lost" // somebody else wrote status
	if err := m.recall(pass); err != nil || pass.marks[config] != "lost" {
		t.Errorf("%v: memory overrules what is stored: %v", err, pass.marks)
	}
}

// A store that was set back from a backup counts its versions from an earlier one: nothing would ever catch up.
func TestAMemoryThatNothingCatchesUpWithIsWrong(t *testing.T) {
	now := testingclock.NewFakePassiveClock(time.Unix(1_800_000_000, 0))
	m := newMemory(now)
	m.wrote(view("a", "100", ""))
	if err := m.recall(view("a", "7", "")); !errors.Is(err, errBehind) {
		t.Fatalf("%v", err)
	}
	m.again(view("a", "7", ""))
	now.SetTime(now.Now().Add(maxBehind - time.Second))
	if err := m.recall(view("a", "8", "")); !errors.Is(err, errBehind) {
		t.Fatalf("gave up early: %v", err)
	}
	now.SetTime(now.Now().Add(time.Second))
	if err := m.recall(view("a", "8", "")); err != nil {
		t.Errorf("%v", err)
	}
	if err := m.recall(view("a", "9", "")); err != nil {
		t.Errorf("remembered again: %v", err)
	}
}

// Fails when a cache that is far behind is looked at as often as one that is about to catch up.
func TestTheLongerACacheLagsTheMoreRarelyItIsLookedAt(t *testing.T) {
	now := testingclock.NewFakePassiveClock(time.Unix(1_800_000_000, 0))
	m, looks := newMemory(now), 0
	for lag := time.Duration(0); lag < 10*time.Second; looks++ {
		wait := m.again(view("a", "7", ""))
		if wait < leastBehindRetry || wait > max(leastBehindRetry, lag/4) || wait > mostBehindRetry {
			t.Fatalf("after %s it waits %s", lag, wait)
		}
		lag += wait
		now.SetTime(now.Now().Add(wait))
	}
	if looks > 30 {
		t.Errorf("looked %d times within ten seconds", looks)
	}
	m.wrote(view("a", "8", ""))
	if wait := m.again(view("a", "8", "")); wait != leastBehindRetry {
		t.Errorf("after it has caught up it waits %s", wait)
	}
}
