package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// named is a client with a user agent of its own.
func named(t *testing.T, config *rest.Config, userAgent string) client.Client {
	t.Helper()
	config = rest.CopyConfig(config)
	config.UserAgent = userAgent
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestWritesAreCountedByUserAgent(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	ns := shared.Namespace(t, "audit")
	alice, bob := named(t, shared.Config, "alice/1"), named(t, shared.Config, "bob/1")
	configMap := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	}
	if err := alice.Create(ctx, configMap("before")); err != nil {
		t.Fatal(err)
	}
	mark, err := shared.Mark(ctx)
	if err != nil {
		t.Fatal(err)
	}

	// Every kind of write counts, whatever comes of it; reads do not.
	if err := alice.Create(ctx, configMap("a")); err != nil {
		t.Fatal(err)
	}
	if err := alice.Create(ctx, configMap("a")); err == nil {
		t.Fatal("a second create of the same name succeeded")
	}
	if err := alice.Create(ctx, configMap("dry"), client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	same := configMap("a")
	if err := alice.Patch(ctx, same, client.RawPatch("application/merge-patch+json", []byte("{}"))); err != nil {
		t.Fatal(err)
	}
	if err := alice.Get(ctx, client.ObjectKeyFromObject(same), same); err != nil {
		t.Fatal(err)
	}
	if err := bob.Delete(ctx, configMap("a")); err != nil {
		t.Fatal(err)
	}

	for userAgent, want := range map[string][]AuditEvent{
		"alice": {{Verb: "create", Name: "a", Code: 201}, {Verb: "create", Name: "a", Code: 409}, {Verb: "create", Name: "dry", Code: 201}, {Verb: "patch", Name: "a", Code: 200}},
		"bob":   {{Verb: "delete", Name: "a", Code: 200}},
		"carol": nil,
	} {
		got, err := shared.Writes(ctx, mark, ByUserAgent(userAgent), OfResource("", "configmaps"))
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Errorf("%s: %d writes, want %d: %v", userAgent, len(got), len(want), got)
			continue
		}
		for i, e := range got {
			w := want[i]
			// The server learns the name of a created object from its body, after
			// the request has been described.
			if e.Verb != w.Verb || e.Code != w.Code || e.Namespace != ns || (e.Name != w.Name && e.Verb != "create") {
				t.Errorf("%s: write %d is %v, want %v", userAgent, i, e, w)
			}
			if e.User != "admin" || e.Time.IsZero() || e.RequestURI == "" {
				t.Errorf("%s: write %d lacks its user, time or URI: %+v", userAgent, i, e)
			}
		}
	}
	got, err := shared.Writes(ctx, mark, ByUserAgent("alice"), Not(OfResource("", "configmaps")))
	if err != nil || len(got) != 0 {
		t.Errorf("alice wrote something else: %v, %v", got, err)
	}
}

func TestAServiceAccountsTokenHasItsRightsAndNoMore(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	ns := shared.Namespace(t, "token")
	err := shared.ApplyText(ctx, `
apiVersion: v1
kind: ServiceAccount
metadata: {name: worker, namespace: `+ns+`}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: worker, namespace: `+ns+`}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: worker, namespace: `+ns+`}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: worker}
subjects:
- {kind: ServiceAccount, name: worker, namespace: `+ns+`}
`)
	if err != nil {
		t.Fatal(err)
	}
	mark, err := shared.Mark(ctx)
	if err != nil {
		t.Fatal(err)
	}
	path, err := shared.TokenFor(ctx, ns, "worker")
	if err != nil {
		t.Fatal(err)
	}
	worker := clientOf(t, path)

	create(t, worker, ns)
	if _, err := worker.CoreV1().Secrets(ns).List(ctx, metav1.ListOptions{}); err == nil {
		t.Error("the token may list Secrets, which its Role does not allow")
	}

	got, err := shared.Writes(ctx, mark, ByServiceAccount(ns, "worker"))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) == 0 || got[len(got)-1].Resource != "configmaps" || got[len(got)-1].Code != 201 {
		t.Errorf("writes of the service account: %v, want the ConfigMap last", got)
	}
}

func TestWithoutAnAuditLogCountingIsRefused(t *testing.T) {
	t.Parallel()
	unaudited := &Cluster{process: shared.process, Config: shared.Config}
	if _, err := unaudited.Writes(t.Context(), 0); err == nil {
		t.Error("writes were counted without an audit log")
	}
}

func clientOf(t *testing.T, kubeconfig string) kubernetes.Interface {
	t.Helper()
	config, err := configFrom(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
