package release_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	testregistry "github.com/gatehouse-dev/gatehouse/test/registry"
)

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
