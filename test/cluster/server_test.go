package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/test/eventually"
)

func configFrom(kubeconfig string) (*rest.Config, error) {
	return clientcmd.BuildConfigFromFlags("", kubeconfig)
}

// create makes a ConfigMap, once RBAC has been seen by the authorizer.
func create(t *testing.T, c kubernetes.Interface, namespace string) {
	t.Helper()
	eventually.Succeeds(t, soon, func() error {
		_, err := c.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "made-"}}, metav1.CreateOptions{})
		return err
	})
}

func deleteText(t *testing.T, text string) {
	t.Helper()
	objects, err := decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	for _, o := range objects {
		if err := client.IgnoreNotFound(shared.Client.Delete(ctx, o)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheKubeconfigVerifiesTheServer(t *testing.T) {
	t.Parallel()
	tls := shared.Config.TLSClientConfig
	if tls.Insecure || len(tls.CAData) == 0 {
		t.Fatalf("insecure %t with a CA of %d bytes, want a verified server", tls.Insecure, len(tls.CAData))
	}
	stranger := rest.CopyConfig(shared.Config)
	stranger.CAData = nil
	c, err := kubernetes.NewForConfig(stranger)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Discovery().ServerVersion(); err == nil {
		t.Error("the server was trusted without its CA")
	}
}

func TestOwnedObjectsAreCollectedUnlessThereIsNoGC(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{"gc": {}, "no-gc": {NoGC: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := shared
			if o.NoGC {
				c = New(t, o)
			}
			ns := c.Namespace(t, "gc")
			owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "owner"}}
			if err := c.Client.Create(t.Context(), owner); err != nil {
				t.Fatal(err)
			}
			owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "owned", OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID},
			}}}
			if err := c.Client.Create(t.Context(), owned); err != nil {
				t.Fatal(err)
			}
			if err := c.Client.Delete(t.Context(), owner); err != nil {
				t.Fatal(err)
			}
			there := func() error {
				return c.Client.Get(t.Context(), client.ObjectKeyFromObject(owned), owned)
			}
			if o.NoGC {
				eventually.Holds(t, 2*time.Second, there)
				return
			}
			eventually.Succeeds(t, soon, func() error {
				if err := there(); !apierrors.IsNotFound(err) {
					return fmt.Errorf("the owned object is still there (%v)", err)
				}
				return nil
			})
		})
	}
}

func TestAnAPIServerAloneServesDefinitions(t *testing.T) {
	t.Parallel()
	c := New(t, Options{APIServerOnly: true})
	// The object comes before its definition and its namespace.
	err := c.ApplyText(t.Context(), `
apiVersion: test.example.com/v1
kind: Widget
metadata: {name: w, namespace: made}
spec: {size: 3}
---
apiVersion: v1
kind: Namespace
metadata: {name: made}
---
# a comment alone
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.test.example.com}
spec:
  group: test.example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`)
	if err != nil {
		t.Fatal(err)
	}
	w := &unstructured.Unstructured{}
	w.SetAPIVersion("test.example.com/v1")
	w.SetKind("Widget")
	if err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: "made", Name: "w"}, w); err != nil {
		t.Fatal(err)
	}
	var nodes corev1.NodeList
	if err := c.Client.List(t.Context(), &nodes); err != nil || len(nodes.Items) > 0 {
		t.Errorf("%d nodes (%v), want none", len(nodes.Items), err)
	}
}

func TestApplyReportsWhatIsWrong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	empty := filepath.Dir(write("empty/readme.txt", "no manifest"))
	for name, path := range map[string]string{
		"a missing file":               filepath.Join(dir, "nowhere.yaml"),
		"an empty directory":           empty,
		"no YAML":                      write("bad.yaml", "a: b: c"),
		"a document without a kind":    write("kindless.yaml", "metadata: {name: x}"),
		"an object the server rejects": write("rejected.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: UPPER, namespace: default}\n"),
		"a namespace that is missing":  write("namespace.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: nowhere}\n"),
	} {
		if err := shared.Apply(t.Context(), path); err == nil {
			t.Errorf("%s was applied", name)
		}
	}
}

func TestAUserIsHeldToTheirRightsAndToAdmissionPolicies(t *testing.T) {
	t.Parallel()
	ns := shared.Namespace(t, "user")
	err := shared.ApplyText(t.Context(), `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: editors, namespace: `+ns+`}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects:
- {kind: Group, name: editors, apiGroup: rbac.authorization.k8s.io}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: `+ns+`}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}
  validations:
  - {expression: "request.userInfo.username != 'mallory'", message: not mallory}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: `+ns+`}
spec:
  policyName: `+ns+`
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: `+ns+`}}}
`)
	if err != nil {
		t.Fatal(err)
	}
	as := func(name string, groups ...string) func() error {
		c, err := kubernetes.NewForConfig(shared.User(name, groups...))
		if err != nil {
			t.Fatal(err)
		}
		return func() error {
			_, err := c.CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "u-"}}, metav1.CreateOptions{})
			return err
		}
	}
	eventually.Succeeds(t, soon, as("alice", "editors"))
	if err := as("bob")(); !apierrors.IsForbidden(err) {
		t.Errorf("bob, who is no editor: %v, want forbidden", err)
	}
	mallory := as("mallory", "editors")
	eventually.Succeeds(t, soon, func() error {
		if err := mallory(); !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			return fmt.Errorf("mallory, whom the policy names: %v, want a refusal", err)
		}
		return nil
	})
}

func TestASuspendedServerAnswersAgainWhenResumed(t *testing.T) {
	t.Parallel()
	c := New(t, Options{APIServerOnly: true})
	get := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return c.Client.Get(ctx, client.ObjectKey{Name: "default"}, &corev1.Namespace{})
	}
	eventually.Succeeds(t, soon, get)
	if err := c.Suspend(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := get(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a suspended server: %v, want no answer", err)
	}
	if err := c.Resume(); err != nil {
		t.Fatal(err)
	}
	eventually.Succeeds(t, soon, get)
}
