package outcome_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/outcome"
	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/inprocess"
)

var shared *cluster.Cluster

func TestMain(m *testing.M) {
	cluster.Main(m, cluster.Options{APIServerOnly: true}, &shared, "config/crd")
}

// bench is one release on a real API server and a finisher that writes to it.
type bench struct {
	t        *testing.T
	client   client.Client
	clock    *testingclock.FakeClock
	recorder *events.FakeRecorder
	finisher *outcome.Finisher
	key      client.ObjectKey
}

func newBench(t *testing.T) *bench {
	t.Helper()
	c := inprocess.Client(t, shared.Config)
	release := &v1alpha1.GatewayRelease{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "outcome-"},
		Spec: v1alpha1.GatewayReleaseSpec{
			Image:        "registry.example.com/gw:1",
			ProfileRef:   v1alpha1.ProfileReference{Name: "p"},
			Verification: v1alpha1.VerificationDisabled,
		},
	}
	if err := c.Create(t.Context(), release); err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, client: c, clock: testingclock.NewFakeClock(time.Unix(1_800_000_000, 0)), recorder: events.NewFakeRecorder(100), key: client.ObjectKeyFromObject(release)}
	b.finisher = &outcome.Finisher{Client: c, Recorder: b.recorder, Clock: b.clock, Controller: "test", FieldOwner: "test", Resync: time.Hour}
	return b
}

func (b *bench) read() *v1alpha1.GatewayRelease {
	b.t.Helper()
	release := &v1alpha1.GatewayRelease{}
	if err := b.client.Get(b.t.Context(), b.key, release); err != nil {
		b.t.Fatal(err)
	}
	return release
}

// pass begins a pass over what is stored, lets fill do its part, and ends it with err.
func (b *bench) pass(fill func(*outcome.Pass, *v1alpha1.GatewayRelease), err error, options ...outcome.Option) (reconcile.Result, error) {
	b.t.Helper()
	release := b.read()
	p := b.finisher.Begin(release)
	if fill != nil {
		fill(p, release)
	}
	return p.Finish(b.t.Context(), err, options...)
}

// conditions are "Type=Status/Reason", sorted as stored.
func (b *bench) conditions() []string {
	b.t.Helper()
	release := b.read()
	var out []string
	for _, c := range release.Status.Conditions {
		if c.ObservedGeneration != release.Generation {
			b.t.Errorf("condition %s is of generation %d, the spec of %d", c.Type, c.ObservedGeneration, release.Generation)
		}
		out = append(out, fmt.Sprintf("%s=%s/%s", c.Type, c.Status, c.Reason))
	}
	return out
}

func (b *bench) events() []string {
	var out []string
	for {
		select {
		case e := <-b.recorder.Events:
			out = append(out, e)
		default:
			return out
		}
	}
}

func ready(p *outcome.Pass, _ *v1alpha1.GatewayRelease) {
	p.Set(v1alpha1.ConditionReady, metav1.ConditionTrue, "RolloutComplete", "all is well")
	p.Clear(v1alpha1.ConditionReconciling)
}

func TestFinishTurnsErrorsIntoConditions(t *testing.T) {
	tests := []struct {
		name      string
		first     func(*outcome.Pass, *v1alpha1.GatewayRelease)
		err       error
		want      []string
		wantErr   bool
		wantAfter func(time.Duration) bool
	}{
		{"success", ready, nil, []string{"Ready=True/RolloutComplete"}, false, func(d time.Duration) bool { return d >= 48*time.Minute && d <= time.Hour }},
		{"a terminal error", nil, outcome.Terminal("InvalidImage", errors.New("write a tag")), []string{"Stalled=True/InvalidImage", "Ready=False/InvalidImage"}, false, func(d time.Duration) bool { return d >= 48*time.Minute }},
		{"a transient error", nil, outcome.Transient("RegistryUnavailable", errors.New("no answer")), []string{"Reconciling=True/RegistryUnavailable", "Ready=False/RegistryUnavailable"}, true, nil},
		{"a transient error that knows when", nil, outcome.TransientAfter("RegistryUnavailable", errors.New("no answer"), 7*time.Second), []string{"Reconciling=True/RegistryUnavailable", "Ready=False/RegistryUnavailable"}, false, func(d time.Duration) bool { return d == 7*time.Second }},
		{"a transient error while Ready in this generation", ready, outcome.Transient("RegistryUnavailable", errors.New("no answer")), []string{"Ready=True/RolloutComplete", "Reconciling=True/RegistryUnavailable"}, true, nil},
		{"a forbidden request", nil, fmt.Errorf("store revision: %w", apierrors.NewForbidden(schema.GroupResource{Resource: "controllerrevisions"}, "x", errors.New("no"))), []string{"Reconciling=True/Forbidden", "Ready=False/Forbidden"}, true, nil},
		{"an error of the machinery", nil, errors.New("list gateways: EOF"), nil, true, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t)
			result, err := b.pass(test.first, test.err)
			if (err != nil) != test.wantErr {
				t.Fatalf("error %v", err)
			}
			if got := b.conditions(); !reflect.DeepEqual(got, test.want) {
				t.Errorf("conditions %v, want %v", got, test.want)
			}
			if test.wantAfter != nil && !test.wantAfter(result.RequeueAfter) {
				t.Errorf("next pass after %s", result.RequeueAfter)
			}
		})
	}
}

func TestATransientErrorOfANewGenerationIsNotReady(t *testing.T) {
	b := newBench(t)
	if _, err := b.pass(ready, nil); err != nil {
		t.Fatal(err)
	}
	release := b.read()
	release.Spec.Image = "registry.example.com/gw:2"
	if err := b.client.Update(t.Context(), release); err != nil {
		t.Fatal(err)
	}
	_, _ = b.pass(nil, outcome.Transient("RegistryUnavailable", errors.New("no answer")))
	if got, want := b.conditions(), []string{"Ready=False/RegistryUnavailable", "Reconciling=True/RegistryUnavailable"}; !reflect.DeepEqual(got, want) {
		t.Errorf("conditions %v, want %v", got, want)
	}
}

func TestStalledGoesWhenCured(t *testing.T) {
	b := newBench(t)
	_, _ = b.pass(nil, outcome.Terminal("InvalidImage", errors.New("write a tag")))
	if _, err := b.pass(ready, nil); err != nil {
		t.Fatal(err)
	}
	if got, want := b.conditions(), []string{"Ready=True/RolloutComplete"}; !reflect.DeepEqual(got, want) {
		t.Errorf("conditions %v, want %v", got, want)
	}
}

// A pass that finds what was found before writes nothing and says nothing, however much time has gone by.
func TestASecondPassWritesNothing(t *testing.T) {
	for name, err := range map[string]error{
		"success":   nil,
		"terminal":  outcome.Terminal("InvalidImage", errors.New("write a tag")),
		"transient": outcome.TransientAfter("RegistryUnavailable", errors.New("no answer"), time.Second),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			fill := func(p *outcome.Pass, r *v1alpha1.GatewayRelease) {
				if err == nil {
					ready(p, r)
				}
			}
			if _, err := b.pass(fill, err); err != nil {
				t.Fatal(err)
			}
			first, firstEvents := b.read(), b.events()
			b.clock.Step(time.Hour)
			if _, err := b.pass(fill, err); err != nil {
				t.Fatal(err)
			}
			if second := b.read(); second.ResourceVersion != first.ResourceVersion {
				t.Errorf("the second pass wrote:\n%v\n%v", first.Status, second.Status)
			}
			if name != "transient" && len(firstEvents) != 1 {
				t.Errorf("the first pass sent %v, want one event", firstEvents)
			}
			if again := b.events(); len(again) != 0 {
				t.Errorf("the second pass sent %v", again)
			}
		})
	}
}

func TestAStalePassStartsOverAndWritesNothing(t *testing.T) {
	b := newBench(t)
	stale := b.read()
	p := b.finisher.Begin(stale)
	newer := b.read()
	newer.Spec.Image = "registry.example.com/gw:2"
	if err := b.client.Update(t.Context(), newer); err != nil {
		t.Fatal(err)
	}
	ready(p, stale)
	result, err := p.Finish(t.Context(), nil)
	if err != nil || result.RequeueAfter <= 0 || result.RequeueAfter > time.Second {
		t.Errorf("a conflict ended with %v, %v; want another pass at once", result, err)
	}
	if got := b.read().Status; got.ObservedGeneration != 0 || len(got.Conditions) != 0 {
		t.Errorf("a stale pass published %+v", got)
	}
	if sent := b.events(); len(sent) != 0 {
		t.Errorf("a stale pass sent %v", sent)
	}
}

func TestRecordIsStoredBeforeThePassGoesOn(t *testing.T) {
	b := newBench(t)
	release := b.read()
	p := b.finisher.Begin(release)
	p.Set(v1alpha1.ConditionReady, metav1.ConditionFalse, "Recorded", "about to move")
	if err := p.Record(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := b.conditions(), []string{"Ready=False/Recorded"}; !reflect.DeepEqual(got, want) {
		t.Fatalf("conditions %v, want %v", got, want)
	}
	ready(p, release)
	if _, err := p.Finish(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if got, want := b.conditions(), []string{"Ready=True/RolloutComplete"}; !reflect.DeepEqual(got, want) {
		t.Errorf("conditions %v, want %v", got, want)
	}
}

func TestAStaleRecordIsAConflict(t *testing.T) {
	b := newBench(t)
	stale := b.read()
	if _, err := b.pass(ready, nil); err != nil {
		t.Fatal(err)
	}
	p := b.finisher.Begin(stale)
	p.Set(v1alpha1.ConditionReady, metav1.ConditionFalse, "Recorded", "about to move")
	if err := p.Record(t.Context()); !apierrors.IsConflict(err) {
		t.Errorf("a stale record ended with %v, want a conflict", err)
	}
}

func TestAnObjectThatIsGoneEndsThePass(t *testing.T) {
	b := newBench(t)
	release := b.read()
	p := b.finisher.Begin(release)
	if err := b.client.Delete(t.Context(), b.read()); err != nil {
		t.Fatal(err)
	}
	ready(p, release)
	if result, err := p.Finish(context.WithoutCancel(t.Context()), nil); err != nil || !result.IsZero() {
		t.Errorf("ended with %v, %v", result, err)
	}
}

func TestTheNearestWakeUpCounts(t *testing.T) {
	b := newBench(t)
	now := b.clock.Now()
	result, err := b.pass(ready, nil, outcome.WakeAt(now.Add(9*time.Second)), outcome.WakeAt(time.Time{}), outcome.WakeAt(now.Add(4*time.Second)))
	if err != nil || result.RequeueAfter != 4*time.Second {
		t.Errorf("next pass after %s, %v; want 4s", result.RequeueAfter, err)
	}
	result, err = b.pass(ready, nil, outcome.WakeAt(now.Add(-time.Minute)))
	if err != nil || result.RequeueAfter <= 0 || result.RequeueAfter > time.Second {
		t.Errorf("a wake-up that is overdue comes after %s, %v", result.RequeueAfter, err)
	}
}

func TestMessagesAreCutOnARuneBoundary(t *testing.T) {
	b := newBench(t)
	_, _ = b.pass(nil, outcome.Terminal("InvalidImage", errors.New(strings.Repeat("ä", 600)+"é")))
	message := meta.FindStatusCondition(b.read().Status.Conditions, v1alpha1.ConditionStalled).Message
	if len(message) > outcome.MessageLimit || !utf8.ValidString(message) || !strings.HasSuffix(message, "…") {
		t.Errorf("message of %d bytes, valid %v", len(message), utf8.ValidString(message))
	}
	if got := outcome.Bound("short", 5); got != "short" {
		t.Errorf("cut what fits: %q", got)
	}
}

func TestBackoffIsJitteredPerObjectAndCapped(t *testing.T) {
	limiter := outcome.NewRateLimiter[string]()
	var last time.Duration
	for i := range 30 {
		wait := limiter.When("a")
		if i < 10 {
			low, high := (100*time.Millisecond<<i)*4/5, (100*time.Millisecond<<i)*6/5
			if wait < low || wait > high {
				t.Fatalf("failure %d waits %s, want %s to %s", i+1, wait, low, high)
			}
		}
		last = wait
	}
	if last > 2*time.Minute*6/5 {
		t.Errorf("back-off grew to %s", last)
	}
	if wait := limiter.When("b"); wait > 120*time.Millisecond {
		t.Errorf("another object waits %s for the failures of the first", wait)
	}
}

// What a forbidden request has cut short is not of the new generation, although the conditions that say so are.
func TestAForbiddenRequestClaimsNoGeneration(t *testing.T) {
	b := newBench(t)
	_, _ = b.pass(nil, apierrors.NewForbidden(schema.GroupResource{Resource: "controllerrevisions"}, "x", errors.New("no")))
	if got := b.read().Status.ObservedGeneration; got != 0 {
		t.Errorf("observedGeneration %d", got)
	}
}
