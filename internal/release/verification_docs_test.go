package release_test

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// The page's example does what the page says: an image that nobody has signed stays where it is, in these words, and a
// signature of the one who is named moves it. Only the registry is another, which speaks plain HTTP, and nobody answers
// for revocation.
func TestTheExampleOfTheVerificationPage(t *testing.T) {
	b := newBench(t)
	page, err := os.ReadFile("../../docs/verification.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, found := strings.Cut(string(page), "```yaml\n")
	example, _, closed := strings.Cut(example, "```")
	first, second, two := strings.Cut(strings.ReplaceAll(example, "registry.example.com", b.hub.Host), "---\n")
	if !found || !closed || !two {
		t.Fatal("the page has no example of two objects")
	}
	e, r := &v1alpha1.Executor{}, &v1alpha1.GatewayRelease{}
	for text, into := range map[string]any{first: e, second: r} {
		if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	e.Spec.Stores = []v1alpha1.Store{{Name: "registry", Registry: &v1alpha1.RegistryStore{RegistryAccess: v1alpha1.RegistryAccess{PlainHTTP: true}}}}
	e.Spec.Verifiers[0].Notation.Revocation = v1alpha1.RevocationSkip
	r.Spec.Registry = &v1alpha1.RegistryAccess{PlainHTTP: true}
	s := b.signer()
	b.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "release-ca"}, Data: map[string][]byte{"ca.crt": s.authority.PEM()}})
	b.create(&v1alpha1.GatewayProfile{
		ObjectMeta: metav1.ObjectMeta{Name: r.Spec.ProfileRef.Name},
		Spec:       v1alpha1.GatewayProfileSpec{Template: runtime.RawExtension{Raw: []byte(template)}},
	})
	b.create(e)
	b.create(r)
	digest := b.hub.PushImage(t, "gateways/openshell", "1.4.2")
	b.start()
	pinned := b.hub.Host + "/gateways/openshell@" + digest.String()

	b.reaches(r, summary(r, "Unverified: "+pinned+": Executor gateways: no signature by release-signers; no signature found"))
	said := strings.ReplaceAll(strings.ReplaceAll(r.Status.Summary, b.hub.Host, "registry.example.com"), digest.String(), "sha256:4bcf…")
	if !strings.Contains(string(page), said) {
		t.Errorf("the page does not say %q", said)
	}
	s.sign("gateways/openshell", digest)
	b.reaches(r, complete(r, pinned))

	// And it has every reason, event and metric that there are.
	for _, word := range []string{
		v1alpha1.ReasonVerified, v1alpha1.ReasonNotRequired, v1alpha1.ReasonVerifying, v1alpha1.ReasonVerificationFailed, v1alpha1.ReasonNoExecutor,
		v1alpha1.ReasonNoLongerVerified, v1alpha1.ReasonCannotVerify, v1alpha1.ReasonNotAccepted, v1alpha1.ReasonWithheld,
		"gatehouse_release_verified", "gatehouse_release_verifications_total", "status.rollout.withheld",
	} {
		if !strings.Contains(string(page), "`"+word+"`") {
			t.Errorf("the page does not explain %s", word)
		}
	}
}
