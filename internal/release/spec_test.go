package release_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	testregistry "github.com/gatehouse-dev/gatehouse/test/registry"
)

func intOrString(n int) intstr.IntOrString { return intstr.FromInt32(int32(n)) }

func interval(d time.Duration) func(*v1alpha1.GatewayRelease) {
	return func(r *v1alpha1.GatewayRelease) { r.Spec.ResolveInterval = &metav1.Duration{Duration: d} }
}

func TestAnEditReachesTheFleetThroughTheWindow(t *testing.T) {
	b := newBench(t)
	first := b.hub.PushImage(t, "team/gateway", "1.0")
	second := b.hub.PushImage(t, "team/gateway", "1.1")
	r := b.release(b.hub.Reference("team/gateway", "1.0"), b.profile().Name)
	for range 3 {
		b.gateway(r)
	}
	b.start()

	b.reaches(r, complete(r, b.hub.Host+"/team/gateway@"+first.String()))
	if !strings.HasPrefix(r.Status.Revision, r.Name+"-") || r.Status.Rollout.Fleet.Updated != 3 {
		t.Errorf("status %+v", r.Status)
	}
	attempt := r.Status.Rollout.Attempt

	edit(b, r, func(r *v1alpha1.GatewayRelease) { r.Spec.Image = b.hub.Reference("team/gateway", "1.1") })
	most := 0
	b.reaches(r, func() error {
		most = max(most, len(r.Status.Rollout.InFlight))
		return complete(r, b.hub.Host+"/team/gateway@"+second.String())()
	})
	if most > 1 {
		t.Errorf("%d gateways were under way at once, the budget is 1", most)
	}
	if r.Status.Rollout.Attempt <= attempt {
		t.Errorf("attempt %d after %d", r.Status.Rollout.Attempt, attempt)
	}

	stored, err := b.revision(r.Status.Revision)
	if err != nil {
		t.Fatal(err)
	}
	if stored.Tag != "1.1" || stored.Image.String() != r.Status.Image {
		t.Errorf("stored revision: %+v", stored)
	}
	eventually.Succeeds(t, within, func() error {
		events := b.events(r)
		for _, want := range []string{
			"Normal Resolved resolved to " + r.Status.Image,
			fmt.Sprintf("Normal RolloutStarted attempt %d moves 3 gateways to %s", r.Status.Rollout.Attempt, r.Status.Revision),
			"Normal RolloutComplete ",
		} {
			if !slices.ContainsFunc(events, func(e string) bool { return strings.HasPrefix(e, want) }) {
				return fmt.Errorf("no event %q among %q", want, events)
			}
		}
		return nil
	})
}

func TestAMalformedImageMovesNothingAndKeepsWhatWasAccepted(t *testing.T) {
	b := newBench(t)
	digest := b.hub.PushImage(t, "team/gateway", "1.0")
	r := b.release(b.hub.Reference("team/gateway", "1.0"), b.profile().Name)
	b.gateway(r)
	b.start()
	image := b.hub.Host + "/team/gateway@" + digest.String()
	b.reaches(r, complete(r, image))
	accepted := r.Status

	edit(b, r, func(r *v1alpha1.GatewayRelease) { r.Spec.Image = b.hub.Host + "/Team/gateway:1.1" })
	b.reaches(r, all(
		summary(r, `Invalid: image repository "Team": upper case "T"; a repository is written in lower case`),
		condition(r, v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonInvalidImage),
		condition(r, v1alpha1.ConditionResolved, metav1.ConditionFalse, v1alpha1.ReasonNotAccepted),
		condition(r, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonInvalidImage),
		condition(r, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonInvalidImage),
		absent(r, v1alpha1.ConditionReconciling),
	))
	if r.Status.Image != accepted.Image || r.Status.Revision != accepted.Revision || r.Status.Rollout.Attempt != accepted.Rollout.Attempt {
		t.Errorf("the accepted revision was lost: %+v", r.Status)
	}

	// The correction is what runs already: nothing moves.
	edit(b, r, func(r *v1alpha1.GatewayRelease) { r.Spec.Image = b.hub.Reference("team/gateway", "1.0") })
	b.reaches(r, complete(r, image))
	if r.Status.Rollout.Attempt != accepted.Rollout.Attempt {
		t.Errorf("attempt %d, want still %d", r.Status.Rollout.Attempt, accepted.Rollout.Attempt)
	}
}

func TestARolloutUnderWayGoesOnWhileALaterSpecIsInvalid(t *testing.T) {
	b := newBench(t)
	digest := b.hub.PushImage(t, "team/gateway", "1.0")
	r := b.release(b.hub.Reference("team/gateway", "1.0"), b.profile().Name)
	for range 3 {
		b.gateway(r)
	}
	b.start()
	b.deaf = true
	b.reaches(r, func() error {
		if r.Status.Rollout == nil || len(r.Status.Rollout.InFlight) == 0 {
			return fmt.Errorf("nobody is admitted: %+v", r.Status.Rollout)
		}
		return nil
	})
	edit(b, r, func(r *v1alpha1.GatewayRelease) { r.Spec.Image = b.hub.Host + "/team/gateway" })
	b.deaf = false
	b.reaches(r, all(
		summary(r, fmt.Sprintf(`Invalid: image reference "%s/team/gateway": neither a tag nor a digest is stated; add one, for example :1.4.2`, b.hub.Host)),
		func() error {
			if r.Status.Rollout.State != v1alpha1.RolloutComplete || r.Status.Rollout.Fleet.Updated != 3 {
				return fmt.Errorf("rollout %+v", r.Status.Rollout)
			}
			return nil
		},
		condition(r, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonInvalidImage),
	))
	if want := b.hub.Host + "/team/gateway@" + digest.String(); r.Status.Image != want {
		t.Errorf("image %s, want %s", r.Status.Image, want)
	}
}

func TestAProfileThatIsMissingOrInvalidStallsItsReleases(t *testing.T) {
	b := newBench(t)
	b.hub.PushImage(t, "team/gateway", "1.0")
	r := b.release(b.hub.Reference("team/gateway", "1.0"), "profile-of-"+b.tenant)
	b.gateway(r)
	b.start()
	b.reaches(r, all(
		summary(r, "Invalid: profile profile-of-"+b.tenant+": not found; create the GatewayProfile or correct spec.profileRef"),
		condition(r, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonProfileNotFound),
		condition(r, v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonProfileNotFound),
	))

	p := &v1alpha1.GatewayProfile{
		ObjectMeta: metav1.ObjectMeta{Name: "profile-of-" + b.tenant},
		Spec:       v1alpha1.GatewayProfileSpec{Template: runtime.RawExtension{Raw: []byte(`{"spec":{"containers":[{"name":"gateway","imagee":"x"}]}}`)}},
	}
	b.create(p)
	b.reaches(r, all(
		summary(r, "Invalid: profile "+p.Name+": spec.template.spec.containers[0].imagee: unknown field; correct its spelling or remove it"),
		condition(r, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonInvalidProfile),
	))
	if r.Status.Revision != "" {
		t.Errorf("revision %s of an invalid profile", r.Status.Revision)
	}

	edit(b, p, func(p *v1alpha1.GatewayProfile) { p.Spec.Template.Raw = []byte(template) })
	b.reaches(r, all(summary(r, "Available"), condition(r, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRolloutComplete)))
	accepted, attempt := r.Status.Revision, r.Status.Rollout.Attempt

	// An edit of the content is a new revision; an edit of who may use it is none.
	edit(b, p, func(p *v1alpha1.GatewayProfile) {
		p.Spec.AllowedNamespaces = &v1alpha1.AllowedNamespaces{Names: []string{b.tenant}}
	})
	edit(b, p, func(p *v1alpha1.GatewayProfile) { p.Spec.ClusterRoles = []string{"view"} })
	b.reaches(r, func() error {
		if r.Status.Revision == accepted || r.Status.Rollout.Stable != r.Status.Revision {
			return fmt.Errorf("revision %s, rollout %+v", r.Status.Revision, r.Status.Rollout)
		}
		return nil
	})
	if r.Status.Rollout.Attempt != attempt+1 {
		t.Errorf("attempt %d after %d: one edit of the content is one attempt", r.Status.Rollout.Attempt, attempt)
	}

	edit(b, p, func(p *v1alpha1.GatewayProfile) {
		p.Spec.Template.Raw = []byte(`{"spec":{"containers":[{"name":"proxy"}]}}`)
	})
	moved := r.Status.Revision
	b.reaches(r, func() error {
		if !strings.HasPrefix(r.Status.Summary, `Invalid: profile `+p.Name+`: spec.template.spec.containers`) {
			return fmt.Errorf("summary %q", r.Status.Summary)
		}
		return nil
	})
	if r.Status.Revision != moved {
		t.Errorf("an invalid profile moved the release from %s to %s", moved, r.Status.Revision)
	}
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

func TestATemplateThatTheAPIServerRefusesMovesNothing(t *testing.T) {
	b := newBench(t)
	digest := b.hub.PushImage(t, "team/gateway", "1.0")
	p := b.profile()
	r := b.release(b.hub.Reference("team/gateway", "1.0"), p.Name)
	b.gateway(r)
	b.start()
	image := b.hub.Host + "/team/gateway@" + digest.String()
	b.reaches(r, complete(r, image))
	accepted := r.Status.Revision
	edit(b, p, func(p *v1alpha1.GatewayProfile) {
		p.Spec.Template.Raw = []byte(`{"spec":{"containers":[{"name":"gateway","ports":[{"containerPort":70000}],"volumeMounts":[{"name":"data","mountPath":"/data"}]}]}}`)
	})
	b.reaches(r, all(
		summary(r, "Invalid: profile "+p.Name+": spec.template.spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive; "+
			`spec.template.spec.containers[0].volumeMounts[0].name: Not found: "data"`),
		condition(r, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonInvalidProfile),
	))
	if r.Status.Revision != accepted {
		t.Errorf("revision %s, want still %s", r.Status.Revision, accepted)
	}
	edit(b, p, func(p *v1alpha1.GatewayProfile) { p.Spec.Template.Raw = []byte(template) })
	b.reaches(r, complete(r, image))
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

func TestAnotherTagOfTheSameDigestMovesNothing(t *testing.T) {
	b := newBench(t)
	digest := b.hub.PushImage(t, "team/gateway", "1.0")
	b.hub.MoveTag(t, "team/gateway", "stable", digest)
	r := b.release(b.hub.Reference("team/gateway", "1.0"), b.profile().Name)
	b.gateway(r)
	b.start()
	image := b.hub.Host + "/team/gateway@" + digest.String()
	b.reaches(r, complete(r, image))
	before, mark := r.Status, b.mark()
	edit(b, r, func(r *v1alpha1.GatewayRelease) { r.Spec.Image = b.hub.Reference("team/gateway", "stable") })
	b.reaches(r, complete(r, image))
	if r.Status.Revision != before.Revision || r.Status.Rollout.Attempt != before.Rollout.Attempt {
		t.Errorf("revision %s attempt %d, want still %s %d", r.Status.Revision, r.Status.Rollout.Attempt, before.Revision, before.Rollout.Attempt)
	}
	for _, write := range b.writes(mark) {
		if !strings.Contains(write, "gatewayreleases.gatehouse.dev/status") {
			t.Errorf("it also wrote: %s", write)
		}
	}
}

func TestADigestIsTakenOnceTheRegistryHasShownIt(t *testing.T) {
	b := newBench(t)
	digest := b.hub.PushImage(t, "team/gateway", "1.0")
	missing := "sha256:" + strings.Repeat("0", 64)
	r := b.release(b.hub.Host+"/team/gateway@"+missing, b.profile().Name)
	b.start()
	b.reaches(r, summary(r, "Resolving: registry "+b.hub.Host+": repository team/gateway: digest "+missing+" not found"))
	edit(b, r, func(r *v1alpha1.GatewayRelease) { r.Spec.Image = b.hub.Host + "/team/gateway@" + digest.String() })
	b.reaches(r, complete(r, b.hub.Host+"/team/gateway@"+digest.String()))
}

func TestCredentialsAndAuthoritiesAreReadAndWatched(t *testing.T) {
	b := newBench(t)
	hub := testregistry.Start(t, testregistry.WithTLS(), testregistry.WithBasicAuth("robot", "hunter2"))
	digest := hub.PushImage(t, "team/gateway", "1.0")
	p := b.profile().Name
	r := b.release(hub.Reference("team/gateway", "1.0"), p, func(r *v1alpha1.GatewayRelease) {
		r.Spec.Registry = &v1alpha1.RegistryAccess{
			Credentials: &v1alpha1.RegistryCredentials{SecretRef: v1alpha1.LocalObjectReference{Name: "pull"}},
			CABundle:    &v1alpha1.CABundle{ConfigMapRef: v1alpha1.KeyReference{Name: "corp-ca", Key: "ca.crt"}},
		}
	})
	b.start()
	invalid := func(want string) {
		t.Helper()
		b.reaches(r, all(
			summary(r, "Invalid: "+want),
			condition(r, v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonInvalidAccess),
			condition(r, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonInvalidAccess),
		))
	}
	invalid("spec.registry.credentials: Secret " + b.namespace + "/pull not found; create it with the type kubernetes.io/dockerconfigjson")

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "pull"}, Data: map[string][]byte{"password": []byte("hunter2")}}
	b.create(secret)
	invalid("spec.registry.credentials: Secret " + b.namespace + `/pull has the type "Opaque"; create it anew with the type kubernetes.io/dockerconfigjson`)
	if err := b.client.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	config := func(password string) map[string][]byte {
		auth := base64.StdEncoding.EncodeToString([]byte("robot:" + password))
		return map[string][]byte{corev1.DockerConfigJsonKey: fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, hub.Host, auth)}
	}
	secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "pull"}, Type: corev1.SecretTypeDockerConfigJson, Data: config("wrong")}
	b.create(secret)
	invalid("spec.registry.caBundle: ConfigMap " + b.namespace + `/corp-ca not found; create it with the certificates under the key "ca.crt"`)

	bundle := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "corp-ca"}}
	b.create(bundle)
	invalid("spec.registry.caBundle: ConfigMap " + b.namespace + `/corp-ca has nothing under the key "ca.crt"; put the PEM certificates there`)
	edit(b, bundle, func(m *corev1.ConfigMap) { m.Data = map[string]string{"ca.crt": "no certificate"} })
	invalid("registry " + hub.Host + ": caBundle holds no certificate; give PEM blocks of type CERTIFICATE")
	edit(b, bundle, func(m *corev1.ConfigMap) { m.Data["ca.crt"] = string(hub.CA) })
	b.reaches(r, summary(r, "Resolving: registry "+hub.Host+": repository team/gateway: unauthorized; the credentials are wrong or do not allow to pull"))

	edit(b, secret, func(s *corev1.Secret) { s.Data = config("hunter2") })
	b.reaches(r, complete(r, hub.Host+"/team/gateway@"+digest.String()))

	// What is accepted stays so when the Secret goes: what runs was resolved with it.
	if err := b.client.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	b.reaches(r, all(summary(r, "Available"), condition(r, v1alpha1.ConditionResolved, metav1.ConditionUnknown, v1alpha1.ReasonInvalidAccess)))

	list := &v1alpha1.GatewayReleaseList{}
	if err := b.client.List(t.Context(), list, client.MatchingFields{"metadata.name": r.Name}); err != nil {
		t.Fatal(err)
	}
	if said := fmt.Sprintf("%+v %q", list.Items, b.events(r)); strings.Contains(said, "hunter2") || strings.Contains(said, "wrong\"") {
		t.Errorf("a secret is in status or events: %s", said)
	}
}

func TestAPausedReleaseWaitsAndSaysSo(t *testing.T) {
	b := newBench(t)
	b.hub.PushImage(t, "team/gateway", "1.0")
	second := b.hub.PushImage(t, "team/gateway", "1.1")
	r := b.release(b.hub.Reference("team/gateway", "1.0"), b.profile().Name)
	b.gateway(r)
	b.start()
	b.reaches(r, summary(r, "Available"))
	b.reaches(r, condition(r, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRolloutComplete))
	edit(b, r, func(r *v1alpha1.GatewayRelease) {
		r.Spec.Image, r.Spec.Rollout.Paused = b.hub.Reference("team/gateway", "1.1"), true
	})
	b.reaches(r, all(
		summary(r, "Available"),
		condition(r, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonRolloutPaused),
		condition(r, v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonRolloutPaused),
		absent(r, v1alpha1.ConditionStalled),
	))
	edit(b, r, func(r *v1alpha1.GatewayRelease) { r.Spec.Rollout.Paused = false })
	b.reaches(r, complete(r, b.hub.Host+"/team/gateway@"+second.String()))
}

func TestAFailedRolloutIsStalledAndTheWayBackIsAnEdit(t *testing.T) {
	b := newBench(t)
	good := b.hub.PushImage(t, "team/gateway", "1.0")
	bad := b.hub.PushImage(t, "team/gateway", "1.1")
	b.broken[b.hub.Host+"/team/gateway@"+bad.String()] = true
	r := b.release(b.hub.Reference("team/gateway", "1.0"), b.profile().Name, func(r *v1alpha1.GatewayRelease) {
		r.Spec.Rollout.ProgressDeadline = &metav1.Duration{Duration: time.Second}
		zero := intOrString(0)
		r.Spec.Rollout.MaxFailures = &zero
	})
	for range 3 {
		b.gateway(r)
	}
	b.start()
	b.reaches(r, complete(r, b.hub.Host+"/team/gateway@"+good.String()))
	edit(b, r, func(r *v1alpha1.GatewayRelease) { r.Spec.Image = b.hub.Reference("team/gateway", "1.1") })
	b.reaches(r, all(
		summary(r, "Available"),
		condition(r, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonRolloutFailed),
		condition(r, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonRolloutFailed),
		absent(r, v1alpha1.ConditionReconciling),
	))
	if r.Status.Rollout.Fleet.Failed != 1 || r.Status.Rollout.Fleet.Updated > 1 {
		t.Errorf("fleet %+v: want one failed and two that were never moved", r.Status.Rollout.Fleet)
	}
	edit(b, r, func(r *v1alpha1.GatewayRelease) { r.Spec.Image = b.hub.Reference("team/gateway", "1.0") })
	b.reaches(r, complete(r, b.hub.Host+"/team/gateway@"+good.String()))
}
