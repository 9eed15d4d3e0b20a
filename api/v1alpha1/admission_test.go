package v1alpha1_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gatehouse-dev/gatehouse/internal/lint"
	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
)

var shared *cluster.Cluster

func TestMain(m *testing.M) { cluster.Main(m, cluster.Options{APIServerOnly: true}, &shared) }

func install(t *testing.T) {
	t.Helper()
	if err := shared.Apply(t.Context(), "config/crd", "config/policy", "config/rbac/users.yaml"); err != nil {
		t.Fatal(err)
	}
}

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return o
}

// merged is base with the fields of change put over it; null takes a field away.
func merged(t *testing.T, base, change string) *unstructured.Unstructured {
	t.Helper()
	o, c := object(t, base), object(t, change)
	overlay(o.Object, c.Object)
	return o
}

func overlay(into, from map[string]any) {
	for key, value := range from {
		if value == nil {
			delete(into, key)
		} else if inner, ok := value.(map[string]any); ok {
			if old, ok := into[key].(map[string]any); ok {
				overlay(old, inner)
				continue
			}
			into[key] = value
		} else {
			into[key] = value
		}
	}
}

const (
	release = `
apiVersion: gatehouse.dev/v1alpha1
kind: GatewayRelease
metadata: {name: stable}
spec:
  image: registry.example.com/gateways/openshell:1.4.2
  profileRef: {name: openshell}
  verification: Disabled
`
	gateway = `
apiVersion: gatehouse.dev/v1alpha1
kind: GatewayInstance
metadata: {name: edge, namespace: default}
spec:
  releaseRef: {name: stable}
`
	profile = `
apiVersion: gatehouse.dev/v1alpha1
kind: GatewayProfile
metadata: {name: openshell}
spec:
  template: {spec: {containers: [{name: gateway}]}}
`
)

// Nonsense is refused where it is written, with a sentence that says what to write instead.
func TestAdmission(t *testing.T) {
	install(t)
	long := strings.Repeat("a", 64)
	tests := []struct {
		name, base, change string
		want               string // part of the refusal; empty means admitted
	}{
		{"a minimal release", release, `{}`, ""},
		{"a full release", release, `spec: {registry: {credentials: {secretRef: {name: pull}}, caBundle: {configMapRef: {name: ca, key: ca.crt}}}, resolveInterval: 0s, revisionHistoryLimit: 0, rollout: {maxUnavailable: 25%, minReadySeconds: 0, progressDeadline: 1m30s, maxFailures: 0%, paused: true}}`, ""},
		{"a malformed image is the controller's to refuse", release, `spec: {image: "not an image"}`, ""},
		{"no image", release, `spec: {image: null}`, "spec.image: Required"},
		{"an empty image", release, `spec: {image: ""}`, "spec.image"},
		{"an endless image", release, `spec: {image: ` + strings.Repeat("a", 1025) + `}`, "may not be more than 1024"},
		{"verification that is not written", release, `spec: {verification: null}`, ""},
		{"verification where it is configured", release, `spec: {verification: IfConfigured}`, ""},
		{"verification that does not exist", release, `spec: {verification: Sometimes}`, `supported values: "Required", "IfConfigured", "Disabled"`},
		{"no profile", release, `spec: {profileRef: null}`, "spec.profileRef: Required"},
		{"credentials over plain HTTP", release, `spec: {registry: {plainHTTP: true, credentials: {secretRef: {name: pull}}}}`, "credentials are never sent over plain HTTP: remove credentials, or set plainHTTP to false"},
		{"certificates over plain HTTP", release, `spec: {registry: {plainHTTP: true, caBundle: {configMapRef: {name: ca, key: ca.crt}}}}`, "plain HTTP has no certificate to check"},
		{"plain HTTP alone", release, `spec: {registry: {plainHTTP: true}}`, ""},
		{"a budget of nothing", release, `spec: {rollout: {maxUnavailable: 0}}`, "write a count from 1 to 1000000, or a percentage from 1% to 100%; to stop a rollout set paused"},
		{"a budget of no percent", release, `spec: {rollout: {maxUnavailable: 0%}}`, "percentage from 1% to 100%"},
		{"a budget of too much", release, `spec: {rollout: {maxUnavailable: 101%}}`, "percentage from 1% to 100%"},
		{"a budget in words", release, `spec: {rollout: {maxUnavailable: half}}`, "percentage from 1% to 100%"},
		{"negative failures", release, `spec: {rollout: {maxFailures: -1}}`, "write a count from 0 to 1000000, or a percentage from 0% to 100%"},
		{"a budget that no number can hold", release, `spec: {rollout: {maxUnavailable: 99999999999}}`, "write a count from 1 to 1000000, or a percentage from 1% to 100%"},
		{"failures that no number can hold", release, `spec: {rollout: {maxFailures: 99999999999}}`, "write a count from 0 to 1000000, or a percentage from 0% to 100%"},
		{"failures in percent", release, `spec: {rollout: {maxFailures: 5%}}`, ""},
		{"a deadline in words", release, `spec: {rollout: {progressDeadline: soon}}`, "spec.rollout.progressDeadline"},
		{"a deadline beyond a day", release, `spec: {rollout: {progressDeadline: 25h}}`, "write a duration from 1s to 24h"},
		{"a deadline that overflows", release, `spec: {rollout: {progressDeadline: 99999999999999999h}}`, "spec.rollout.progressDeadline"},
		{"a deadline shorter than readiness", release, `spec: {rollout: {progressDeadline: 10s, minReadySeconds: 10}}`, "progressDeadline must be longer than minReadySeconds"},
		{"an interval too short", release, `spec: {resolveInterval: 10ms}`, "write a duration from 1s to 168h in h, m and s, as 10m or 24h, or 0s to resolve once per generation"},
		{"an interval in days", release, `spec: {resolveInterval: 1d}`, "write a duration from 1s to 168h in h, m and s, as 10m or 24h, or 0s"},
		{"an interval with an exponent", release, `spec: {resolveInterval: 1e3s}`, "write a duration from 1s to 168h in h, m and s, as 10m or 24h, or 0s"},
		{"a deadline in days", release, `spec: {rollout: {progressDeadline: 1d}}`, "write a duration from 1s to 24h in h, m and s, as 90s or 10m"},
		{"a negative interval", release, `spec: {resolveInterval: -1m}`, "spec.resolveInterval"},
		{"too long a history", release, `spec: {revisionHistoryLimit: 101}`, "less than or equal to 100"},
		{"a release's name that is no label", release, `metadata: {name: ` + long + `}`, "use at most 63 characters"},
		{"a field that does not exist", release, `spec: {stages: []}`, `unknown field "spec.stages"`},

		{"a minimal gateway", gateway, `{}`, ""},
		{"a full gateway", gateway, `spec: {replicas: 3, config: {gateway.toml: "a = 1"}, env: [{name: A, value: ""}, {name: B, secretKeyRef: {name: s, key: k}}], envFrom: [{secretRef: {name: s}, prefix: X_}], volumes: [{name: tls, mountPath: /tls, secretRef: {name: s}}], resources: {requests: {cpu: 10m}, limits: {memory: 64Mi}}}`, ""},
		{"no release", gateway, `spec: {releaseRef: null}`, "spec.releaseRef: Required"},
		{"an empty release", gateway, `spec: {releaseRef: {name: ""}}`, "spec.releaseRef.name"},
		{"a release that cannot exist", gateway, `spec: {releaseRef: {name: Not_A_Name}}`, "write the name of a GatewayRelease"},
		{"a release with dots", gateway, `spec: {releaseRef: {name: stable-1.4}}`, ""},
		{"a key that no Secret can have", gateway, `spec: {env: [{name: A, secretKeyRef: {name: s, key: ..data}}]}`, "does not begin with '..'"},
		{"a file of the kubelet's", gateway, `spec: {config: {..data: x}}`, "does not begin with '..'"},
		{"fewer than no replicas", gateway, `spec: {replicas: -1}`, "greater than or equal to 0"},
		{"a gateway's name that no Service can have", gateway, `metadata: {name: 1-edge}`, "a gateway's name becomes that of its Service"},
		{"a dotted name", gateway, `metadata: {name: edge.a}`, "a gateway's name becomes that of its Service"},
		{"a path as a file name", gateway, `spec: {config: {../etc/passwd: x}}`, "a file name is at most 253"},
		{"a folder as a file name", gateway, `spec: {config: {"..": x}}`, "a file name is at most 253"},
		{"two values at once", gateway, `spec: {env: [{name: A, value: x, secretKeyRef: {name: s, key: k}}]}`, "set exactly one of value, secretKeyRef and configMapKeyRef"},
		{"no value at all", gateway, `spec: {env: [{name: A}]}`, "set exactly one of value, secretKeyRef and configMapKeyRef"},
		{"one variable twice", gateway, `spec: {env: [{name: A, value: x}, {name: A, value: y}]}`, "Duplicate value"},
		{"two sources at once", gateway, `spec: {envFrom: [{secretRef: {name: s}, configMapRef: {name: c}}]}`, "set exactly one of secretRef and configMapRef"},
		{"an empty volume", gateway, `spec: {volumes: [{name: tls, mountPath: /tls}]}`, "set exactly one of secretRef and configMapRef"},
		{"a relative mount", gateway, `spec: {volumes: [{name: tls, mountPath: tls, secretRef: {name: s}}]}`, "spec.volumes[0].mountPath"},
		{"the volume of the configuration", gateway, `spec: {config: {a: b}, volumes: [{name: gatehouse-config, mountPath: /tls, secretRef: {name: s}}]}`, "the name gatehouse-config is taken"},
		{"a quantity that is none", gateway, `spec: {resources: {requests: {cpu: "1e1.5"}}}`, "write quantities as in a container's resources: cpu: 250m, memory: 64Mi"},
		{"an endless quantity", gateway, `spec: {resources: {limits: {memory: "1e99999999999"}}}`, "write quantities as in a container's resources: cpu: 250m, memory: 64Mi"},
		{"a quantity that is a number", gateway, `spec: {resources: {requests: {cpu: 2}, limits: {cpu: "4"}}}`, ""},
		{"an image of one's own", gateway, `spec: {image: "evil:1"}`, `unknown field "spec.image"`},

		{"a minimal profile", profile, `{}`, ""},
		{"a full profile", profile, `spec: {config: {mountPath: /etc/gw}, ports: [{name: grpc, port: 8080, targetPort: grpc, appProtocol: kubernetes.io/h2c}], networkPolicy: {ingress: [], egress: [{}]}, serviceAccount: {automountToken: true}, clusterRoles: [view], allowedNamespaces: {names: [a], selector: {matchLabels: {a: b}}}}`, ""},
		{"no template", profile, `spec: {template: null}`, "spec.template: Required"},
		{"a template that is text", profile, `spec: {template: text}`, "spec.template"},
		{"port zero", profile, `spec: {ports: [{name: a, port: 0}]}`, "greater than or equal to 1"},
		{"one port twice", profile, `spec: {ports: [{name: a, port: 1}, {name: a, port: 2}]}`, "Duplicate value"},
		{"a target that is no name", profile, `spec: {ports: [{name: a, port: 1, targetPort: NO}]}`, "spec.ports[0].targetPort"},
		{"a target that no port can have", profile, `spec: {ports: [{name: a, port: 1, targetPort: 99999999999}]}`, "write a port from 1 to 65535, or the name of one of the container's ports"},
		{"ports of a network policy", profile, `spec: {networkPolicy: {ingress: [{ports: [{port: 80, endPort: 90}, {port: grpc, protocol: TCP}]}], egress: [{ports: [{port: 53, protocol: UDP}]}]}}`, ""},
		{"a port of a network policy that none can have", profile, `spec: {networkPolicy: {ingress: [{ports: [{port: 99999999999}]}]}}`, "write a port from 1 to 65535, or the name of a port"},
		{"a range of ports that does not end", profile, `spec: {networkPolicy: {egress: [{ports: [{port: 1, endPort: 65536}]}]}}`, "less than or equal to 65535"},
		{"nowhere allowed by omission", profile, `spec: {allowedNamespaces: {}}`, "set names, selector or both; to allow every namespace omit allowedNamespaces"},
		{"a relative configuration folder", profile, `spec: {config: {mountPath: etc}}`, "spec.config.mountPath"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { admission(t, merged(t, test.base, test.change), test.want) })
	}
}

// admission sends an object as a dry run; want is part of the refusal, and empty if it is to be admitted.
func admission(t *testing.T, o *unstructured.Unstructured, want string) {
	t.Helper()
	err := shared.Client.Create(t.Context(), o.DeepCopy(), client.DryRunAll, client.FieldValidation("Strict"))
	switch {
	case want == "" && err != nil:
		t.Fatalf("refused: %v", err)
	case want != "" && err == nil:
		t.Fatalf("admitted, want a refusal with %q", want)
	case want != "" && !strings.Contains(err.Error(), want):
		t.Fatalf("refused with\n%v\nwant\n%s", err, want)
	}
	linted(t, o, err)
}

var linter = sync.OnceValues(lint.New)

// controllersSay are the fields that the linter reads as the controllers do, besides the whole spec of an Executor, which
// it compiles.
var controllersSay = []string{"spec.image", "spec.template", "spec.verifiers"}

// linted holds the linter to what the API server said. It goes further only where a controller would refuse.
func linted(t *testing.T, o *unstructured.Unstructured, refused error) {
	t.Helper()
	l, err := linter()
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(o.Object)
	if err != nil {
		t.Fatal(err)
	}
	var wrong []string
	for _, p := range l.File(t.Context(), "manifest", text) {
		if !p.Warning && (refused != nil || !slices.ContainsFunc(controllersSay, func(field string) bool { return strings.HasPrefix(p.Field, field) }) && p.Field != "spec") {
			wrong = append(wrong, p.String())
		}
	}
	if (refused != nil) != (len(wrong) > 0) {
		t.Errorf("the API server says: %v\nthe linter says: %s", refused, strings.Join(wrong, "\n"))
	}
}

func TestDefaults(t *testing.T) {
	install(t)
	o := object(t, release)
	o.SetName("defaults")
	if err := shared.Client.Create(t.Context(), o, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	spec := fmt.Sprint(o.Object["spec"])
	for _, want := range []string{"resolveInterval:10m", "revisionHistoryLimit:10", "maxUnavailable:10%", "minReadySeconds:30", "progressDeadline:10m", "maxFailures:1"} {
		if !strings.Contains(spec, want) {
			t.Errorf("want %s among the defaults: %s", want, spec)
		}
	}
}

// Gateways of one release are found on the server, without reading the others.
func TestGatewaysAreSelectableByRelease(t *testing.T) {
	install(t)
	namespace := shared.Namespace(t, "select")
	for name, follows := range map[string]string{"a": "stable", "b": "stable", "c": "canary"} {
		o := merged(t, gateway, fmt.Sprintf(`{metadata: {name: %s, namespace: %s}, spec: {releaseRef: {name: %s}}}`, name, namespace, follows))
		if err := shared.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	found := &unstructured.UnstructuredList{}
	found.SetAPIVersion("gatehouse.dev/v1alpha1")
	found.SetKind("GatewayInstanceList")
	if err := shared.Client.List(t.Context(), found, client.InNamespace(namespace), client.MatchingFields{"spec.releaseRef.name": "stable"}); err != nil {
		t.Fatal(err)
	}
	if len(found.Items) != 2 {
		t.Errorf("found %d gateways of release stable, want 2", len(found.Items))
	}
}

// Two users edit gateways in one namespace; only one may use the release.
func TestUsingAReleaseTakesTheVerbUse(t *testing.T) {
	install(t)
	namespace := shared.Namespace(t, "use")
	rights := `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: use-stable}
rules: [{apiGroups: [gatehouse.dev], resources: [gatewayreleases], resourceNames: [stable], verbs: [use]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: alice-uses-stable}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: use-stable}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: alice}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: editors, namespace: ` + namespace + `}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: gatehouse-edit}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: alice}
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: bob}
`
	if err := shared.ApplyText(t.Context(), rights); err != nil {
		t.Fatal(err)
	}
	alice, bob := as(t, shared.User("alice")), as(t, shared.User("bob"))

	edge := merged(t, gateway, `metadata: {namespace: `+namespace+`}`)
	// The policy and the rights take effect within moments, not at once.
	eventually.Succeeds(t, 30*time.Second, func() error {
		return alice.Create(context.Background(), edge.DeepCopy(), client.DryRunAll)
	})
	eventually.Succeeds(t, 30*time.Second, func() error {
		err := bob.Create(context.Background(), edge.DeepCopy(), client.DryRunAll)
		if err == nil {
			return fmt.Errorf("bob may use the release")
		}
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `bob may not use the release stable; it takes a ClusterRole with the verb "use" on gatewayreleases named stable`) {
			return err
		}
		return nil
	})
	if err := alice.Create(t.Context(), edge); err != nil {
		t.Fatal(err)
	}

	// Who may not use the release may still edit a gateway that follows it, but not move one to it.
	if err := bob.Patch(t.Context(), edge.DeepCopy(), patch(`{"spec":{"replicas":2}}`)); err != nil {
		t.Errorf("bob edits replicas: %v", err)
	}
	if err := alice.Patch(t.Context(), edge.DeepCopy(), patch(`{"spec":{"releaseRef":{"name":"canary"}}}`)); !apierrors.IsForbidden(err) {
		t.Errorf("alice moves the gateway to a release that she may not use: %v", err)
	}
}

func patch(text string) client.Patch {
	return client.RawPatch("application/merge-patch+json", []byte(text))
}

func as(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Deleting a CRD would delete every gateway's workload, so it takes a person who says so.
func TestKindsAreNotDeletedByAccident(t *testing.T) {
	install(t)
	definition := &unstructured.Unstructured{}
	definition.SetAPIVersion("apiextensions.k8s.io/v1")
	definition.SetKind("CustomResourceDefinition")
	definition.SetName("gatewayinstances.gatehouse.dev")
	eventually.Succeeds(t, 30*time.Second, func() error {
		err := shared.Client.Delete(context.Background(), definition, client.DryRunAll)
		if err == nil {
			return fmt.Errorf("the kind could be deleted")
		}
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "kubectl annotate crd gatewayinstances.gatehouse.dev gatehouse.dev/deletion-removes-workloads=true") {
			return err
		}
		return nil
	})
	if err := shared.Client.Patch(t.Context(), definition, patch(`{"metadata":{"annotations":{"gatehouse.dev/deletion-removes-workloads":"true"}}}`)); err != nil {
		t.Fatal(err)
	}
	if err := shared.Client.Delete(t.Context(), definition, client.DryRunAll); err != nil {
		t.Errorf("a person has said so: %v", err)
	}
	if err := shared.Client.Patch(t.Context(), definition, patch(`{"metadata":{"annotations":{"gatehouse.dev/deletion-removes-workloads":null}}}`)); err != nil {
		t.Fatal(err)
	}
}
