package release_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	testregistry "github.com/gatehouse-dev/gatehouse/test/registry"
)

func interval(d time.Duration) func(*v1alpha1.GatewayRelease) {
	return func(r *v1alpha1.GatewayRelease) { r.Spec.ResolveInterval = &metav1.Duration{Duration: d} }
}

func TestARegistryThatDoesNotAnswerDelaysOnlyItsReleases(t *testing.T) {
	b := newBench(t)
	other := testregistry.Start(t)
	other.PushImage(t, "team/gateway", "1.0")
	b.hub.PushImage(t, "team/gateway", "1.0")
	b.hub.Break(testregistry.Hang())
	p := b.profile().Name
	r := b.release(b.hub.Reference("team/gateway", "1.0"), p)
	healthy := b.release(other.Reference("team/gateway", "1.0"), p)
	b.gateway(healthy)
	b.start()
	eventually.Succeeds(t, time.Second+within, func() error {
		return b.is(r, all(summary(r, "Resolving"), condition(r, v1alpha1.ConditionResolved, metav1.ConditionFalse, v1alpha1.ReasonResolving)))
	})
	b.reaches(healthy, summary(healthy, "Available"))

	b.hub.Break(testregistry.AnswerText(503, "secret words of the peer"))
	b.reaches(r, all(
		summary(r, "Resolving: registry "+b.hub.Host+": answered 503 (service unavailable)"),
		condition(r, v1alpha1.ConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAccepted),
		condition(r, v1alpha1.ConditionResolved, metav1.ConditionFalse, v1alpha1.ReasonRegistryUnavailable),
		condition(r, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonRegistryUnavailable),
		condition(r, v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonRegistryUnavailable),
		absent(r, v1alpha1.ConditionStalled),
	))
	b.hub.Heal()
	b.reaches(r, all(summary(r, "Available"), condition(r, v1alpha1.ConditionResolved, metav1.ConditionTrue, v1alpha1.ReasonResolved)))
}

func TestAFailingRefreshKeepsTheReleaseAvailable(t *testing.T) {
	b := newBench(t)
	b.hub.PushImage(t, "team/gateway", "1.0")
	r := b.release(b.hub.Reference("team/gateway", "1.0"), b.profile().Name, interval(time.Second))
	b.gateway(r)
	b.start()
	b.reaches(r, summary(r, "Available"))
	b.hub.Down()
	b.reaches(r, all(
		summary(r, "Available"),
		condition(r, v1alpha1.ConditionResolved, metav1.ConditionUnknown, v1alpha1.ReasonRegistryUnavailable),
		condition(r, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRolloutComplete),
	))
	b.hub.Up(t)
	b.reaches(r, condition(r, v1alpha1.ConditionResolved, metav1.ConditionTrue, v1alpha1.ReasonResolved))
}

func TestWaitingForARegistryIsNoBusyLoop(t *testing.T) {
	b := newBench(t)
	b.hub.Break(testregistry.Answer(503))
	r := b.release(b.hub.Reference("team/gateway", "1.0"), b.profile().Name)
	c := b.start()
	want := "Resolving: registry " + b.hub.Host + ": answered 503 (service unavailable)"
	b.reaches(r, summary(r, want))
	b.hub.Break(testregistry.Hang())
	asked := len(b.hub.Requests())
	eventually.Succeeds(t, within, func() error { // an attempt hangs after one that has failed
		if len(b.hub.Requests()) == asked {
			return fmt.Errorf("it is not asked")
		}
		return nil
	})
	before, _ := c.value("gatehouse_reconcile_total")
	eventually.Holds(t, time.Second, func() error { return b.is(r, summary(r, want)) })
	if after, _ := c.value("gatehouse_reconcile_total"); after > before+10 {
		t.Errorf("%v passes in a second while an attempt is under way", after-before)
	}
}

func TestARegistryThatTakesLongerThanTheIntervalIsBelieved(t *testing.T) {
	b := newBench(t)
	b.hub.Break(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		select {
		case <-time.After(1200 * time.Millisecond):
			next.ServeHTTP(w, req)
		case <-req.Context().Done():
		}
	})
	first := b.hub.PushImage(t, "team/gateway", "latest")
	r := b.release(b.hub.Reference("team/gateway", "latest"), b.profile().Name, interval(time.Second))
	b.start()
	b.reaches(r, complete(r, b.hub.Host+"/team/gateway@"+first.String()))
	second := b.hub.PushImage(t, "team/gateway", "latest")
	b.reaches(r, complete(r, b.hub.Host+"/team/gateway@"+second.String()))
}

func TestAMovedTagBecomesANewRevisionAfterTheInterval(t *testing.T) {
	b := newBench(t)
	first := b.hub.PushImage(t, "team/gateway", "latest")
	r := b.release(b.hub.Reference("team/gateway", "latest"), b.profile().Name, interval(time.Second))
	b.gateway(r)
	b.start()
	b.reaches(r, complete(r, b.hub.Host+"/team/gateway@"+first.String()))
	second := b.hub.PushImage(t, "team/gateway", "latest")
	b.reaches(r, complete(r, b.hub.Host+"/team/gateway@"+second.String()))
}

func TestATagIsResolvedOncePerGenerationWithoutAnInterval(t *testing.T) {
	b := newBench(t)
	first := b.hub.PushImage(t, "team/gateway", "latest")
	r := b.release(b.hub.Reference("team/gateway", "latest"), b.profile().Name, interval(0))
	b.gateway(r)
	c := b.start()
	image := b.hub.Host + "/team/gateway@" + first.String()
	b.reaches(r, complete(r, image))
	b.hub.PushImage(t, "team/gateway", "latest")
	asked := len(b.hub.Requests())

	// Neither time nor a restart nor a pass asks again; a new generation does.
	c.stop()
	c = b.start()
	eventually.Succeeds(t, within, func() error { return passes(c, 1) })
	edit(b, r, func(r *v1alpha1.GatewayRelease) { r.Labels = map[string]string{"touched": "yes"} })
	eventually.Succeeds(t, within, func() error { return passes(c, 2) })
	if err := b.is(r, complete(r, image)); err != nil {
		t.Error(err)
	}
	if now := len(b.hub.Requests()); now != asked {
		t.Errorf("the registry was asked %d times more", now-asked)
	}
}

func passes(c *controller, want float64) error {
	if got, _ := c.value("gatehouse_reconcile_total"); got < want {
		return fmt.Errorf("%v passes, want %v", got, want)
	}
	return nil
}

func TestARequestAsksTheRegistryNow(t *testing.T) {
	b := newBench(t)
	first := b.hub.PushImage(t, "team/gateway", "latest")
	r := b.release(b.hub.Reference("team/gateway", "latest"), b.profile().Name, interval(time.Hour))
	b.start()
	b.reaches(r, complete(r, b.hub.Host+"/team/gateway@"+first.String()))
	second := b.hub.PushImage(t, "team/gateway", "latest")
	edit(b, r, func(r *v1alpha1.GatewayRelease) {
		r.Annotations = map[string]string{v1alpha1.AnnotationReconcileRequestedAt: time.Now().Format(time.RFC3339Nano)}
	})
	b.reaches(r, complete(r, b.hub.Host+"/team/gateway@"+second.String()))
}

func TestADigestIsTakenOnceTheRegistryHasShownIt(t *testing.T) {
	b := newBench(t)
	digest := b.hub.PushImage(t, "team/gateway", "1.0")
	missing := "sha256:" + strings.Repeat("0", 64)
	r := b.release(b.hub.Host+"/team/gateway@"+missing, b.profile().Name)
	b.start()
	notFound := summary(r, "Resolving: registry "+b.hub.Host+": repository team/gateway: digest "+missing+" not found")
	b.reaches(r, all(notFound, resolvedImage(r, "")))
	edit(b, r, func(r *v1alpha1.GatewayRelease) { r.Spec.Image = b.hub.Host + "/team/gateway@" + digest.String() })
	b.reaches(r, all(complete(r, b.pinned(digest)), resolvedImage(r, b.pinned(digest))))
	edit(b, r, func(r *v1alpha1.GatewayRelease) { r.Spec.Image = b.hub.Host + "/team/gateway@" + missing })
	b.reaches(r, all(notFound, resolvedImage(r, "")))
}
