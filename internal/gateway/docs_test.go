package gateway_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// blocks are the manifests of a page of the documentation, by kind.
func blocks(t *testing.T, page string) map[string]string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, part := range strings.Split(string(raw), "```yaml\n")[1:] {
		text, _, _ := strings.Cut(part, "```")
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(text), &kind); err != nil {
			t.Fatal(err)
		}
		out[kind.Kind] = text
	}
	return out
}

func read[T any](t *testing.T, text string, into T) T {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return into
}

// What the pages show runs as they show it.
func TestTheExamplesOfThePagesRun(t *testing.T) {
	example := read(t, blocks(t, "gatewayprofile.md")["GatewayProfile"], &v1alpha1.GatewayProfile{})
	w := given(t, func(p *v1alpha1.GatewayProfileSpec) { *p = example.Spec })
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.tenant}}
	edit(w, namespace, func(n *corev1.Namespace) {
		for key, value := range example.Spec.AllowedNamespaces.Selector.MatchLabels {
			n.Labels[key] = value
		}
	})
	w.stable(w.accept(imageOf(1)), 1)
	shown := read(t, blocks(t, "gatewayinstance.md")["GatewayInstance"], &v1alpha1.GatewayInstance{})
	g := w.gateway(shown.Name, func(g *v1alpha1.GatewayInstance) {
		release := g.Spec.ReleaseRef
		g.Spec = shown.Spec
		g.Spec.ReleaseRef = release
	})
	now := w.becomes(g, v1alpha1.ReasonReplicasAvailable)
	if now.Status.Replicas.Summary != "2/2" {
		t.Errorf("replicas %+v", now.Status.Replicas)
	}
	for _, page := range []string{"gatewayinstance.md", "gatewayprofile.md"} {
		role := read(t, blocks(t, page)["ClusterRole"], &rbacv1.ClusterRole{})
		if err := w.Create(t.Context(), role, client.DryRunAll); err != nil {
			t.Errorf("%s: %v", page, err)
		}
	}
}

// Every reason that a gateway gives is explained.
func TestThePageExplainsEveryReason(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "gatewayinstance.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, reason := range []string{
		v1alpha1.ReasonReleaseNotFound, v1alpha1.ReasonRevisionNotFound, v1alpha1.ReasonWaitingForRelease, v1alpha1.ReasonWaitingForWindow, v1alpha1.ReasonNotAdopted,
		v1alpha1.ReasonNamespaceNotAllowed, v1alpha1.ReasonForeignObject, v1alpha1.ReasonInvalidSpec, v1alpha1.ReasonApplyFailed,
		v1alpha1.ReasonProgressing, v1alpha1.ReasonNotProgressing, v1alpha1.ReasonReplicasUnavailable, v1alpha1.ReasonReplicasAvailable,
		v1alpha1.ReasonProfileNotFound, v1alpha1.ReasonVerificationFailed, v1alpha1.ReasonVerifying, v1alpha1.ReasonCannotVerify,
	} {
		if !strings.Contains(string(page), "`"+reason+"`") {
			t.Errorf("docs/gatewayinstance.md does not explain %s", reason)
		}
	}
}

// The samples run where pod security is restricted.
func TestTheSamplesRunUnderRestrictedPodSecurity(t *testing.T) {
	for _, make := range []string{"openshell", "envoy"} {
		t.Run(make, func(t *testing.T) {
			sample := func(name string) string {
				raw, err := os.ReadFile(filepath.Join("..", "..", "config", "samples", name+"-"+make+".yaml"))
				if err != nil {
					t.Fatal(err)
				}
				return string(raw)
			}
			profile := read(t, sample("profile"), &v1alpha1.GatewayProfile{})
			w := given(t, func(p *v1alpha1.GatewayProfileSpec) { *p = profile.Spec })
			edit(w, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.tenant}}, func(n *corev1.Namespace) {
				n.Labels["pod-security.kubernetes.io/enforce"] = "restricted"
			})
			w.stable(w.accept(imageOf(1)), 1)
			shown := read(t, sample("gateway"), &v1alpha1.GatewayInstance{})
			g := w.gateway(shown.Name, func(g *v1alpha1.GatewayInstance) {
				release := g.Spec.ReleaseRef
				g.Spec = shown.Spec
				g.Spec.ReleaseRef = release
			})
			w.becomes(g, v1alpha1.ReasonReplicasAvailable)
		})
	}
}
