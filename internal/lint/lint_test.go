package lint_test

import (
	"strings"
	"testing"

	"github.com/gatehouse-dev/gatehouse/internal/lint"
)

func problems(t *testing.T, text string) []string {
	t.Helper()
	linter, err := lint.New()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, p := range linter.File(t.Context(), "f.yaml", []byte(text)) {
		lines = append(lines, p.String())
	}
	return lines
}

const release = `apiVersion: gatehouse.dev/v1alpha1
kind: GatewayRelease
metadata:
  name: stable
spec:
  image: registry.example.com/gateways/openshell:1.4.2
  profileRef: {name: openshell}
  verification: Disabled
`

const profile = `apiVersion: gatehouse.dev/v1alpha1
kind: GatewayProfile
metadata: {name: openshell}
spec:
  template:
    spec:
      containers:
      - name: gateway
      - name: sidecar
        image: registry.example.com/sidecar@sha256:7f9c2ba4e88f827d616045507605853ed73b8093f6efbc88eb1a6eacfa66ef26
`

const executor = `apiVersion: gatehouse.dev/v1alpha1
kind: Executor
metadata: {name: production}
spec:
  scopes: ["registry.example.com/*"]
  verifiers:
  - name: builders
    cosign:
      transparencyLog: Ignored
      keys: [{name: k1, secretRef: {name: keys, key: k1.pub}}]
  policy:
    groups:
    - {name: any, min: 1, of: [builders]}
`

// Each fault is told with the line at which it is written, the object and the field.
func TestFaultsAreToldWhereTheyAre(t *testing.T) {
	disabled := "f.yaml:8: GatewayRelease/stable: spec.verification: warning: Disabled asks for no signature"
	tests := []struct {
		name, text string
		want       []string // a prefix or a part of each problem, in order
	}{
		{"a good profile", profile, nil},
		{"a rule about numbers", executor, nil},
		{"a rule about numbers, broken", strings.Replace(executor, "min: 1", "min: 2", 1), []string{"f.yaml:13: Executor/production: spec.policy.groups[0]: Invalid value", "min is more than the group has members"}},
		{"audit of everything", strings.Replace(executor, `scopes: ["registry.example.com/*"]`, "mode: Audit\n  scopes: [\"*\"]", 1), []string{"f.yaml:6: Executor/production: spec.scopes[0]: warning: * in mode Audit enforces nothing"}},
		{"signatures over plain HTTP", executor + "  stores: [{name: r, registry: {plainHTTP: true}}]\n", []string{"f.yaml:14: Executor/production: spec.stores[0].registry.plainHTTP: warning"}},
		{"a workflow that others share", strings.Replace(executor, "      transparencyLog: Ignored\n      keys: [{name: k1, secretRef: {name: keys, key: k1.pub}}]\n", "      trustRoot: {secretRef: {name: s, key: k}}\n      identities: [{issuer: https://token.actions.githubusercontent.com, subjectRegExp: \"https://github\\\\.com/a/b/\\\\.github/workflows/.*\"}]\n", 1), []string{"f.yaml:10: Executor/production: spec.verifiers[0].cosign.identities[0]: warning: a workflow that other repositories may call"}},
		{"an identity that is none, of certificates that are elsewhere", strings.Replace(executor, "    cosign:\n      transparencyLog: Ignored\n      keys: [{name: k1, secretRef: {name: keys, key: k1.pub}}]\n", "    notation:\n      trustedIdentities: [\"x509.subject: CN=release\"]\n      trustStores: [{name: corp, type: CA, certificates: [{secretRef: {name: s, key: k}}]}]\n", 1), []string{"f.yaml:4: Executor/production: spec: verifier builders: trustedIdentities[0]: "}},
		{"an expression that is none", strings.Replace(executor, "      transparencyLog: Ignored\n      keys: [{name: k1, secretRef: {name: keys, key: k1.pub}}]\n", "      trustRoot: {secretRef: {name: s, key: k}}\n      identities: [{issuer: https://a, subjectRegExp: \"(\"}]\n", 1), []string{"f.yaml:4: Executor/production: spec: verifier builders: identity 1: subjectRegExp: does not compile: error parsing regexp"}},
		{"a key that is none", strings.Replace(executor, "secretRef: {name: keys, key: k1.pub}", "inline: \"-----BEGIN PUBLIC KEY-----\\nx\\n-----END PUBLIC KEY-----\"", 1), []string{"f.yaml:4: Executor/production: spec: verifier builders"}},
		{"nothing at all", "", nil},
		{"comments and empty documents", "---\n# nothing\n---\n---\n" + profile, nil},
		{"another kind", "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\nnonsense: true\n", nil},
		{"what is weak", release, []string{disabled}},
		{"an unknown field", release + "  imag: x\n", []string{"f.yaml:9: GatewayRelease/stable: spec.imag: unknown field; correct its spelling"}},
		{"a value of another type", release + "  revisionHistoryLimit: many\n", []string{"f.yaml:9: GatewayRelease/stable: spec.revisionHistoryLimit: Invalid value"}},
		{"a value out of bounds", release + "  revisionHistoryLimit: -1\n", []string{"f.yaml:9: GatewayRelease/stable: spec.revisionHistoryLimit: Invalid value"}},
		{"a rule between fields", release + "  registry:\n    plainHTTP: true\n    credentials: {secretRef: {name: pull}}\n", []string{"f.yaml:9: GatewayRelease/stable: spec.registry: Invalid value", "remove credentials, or set plainHTTP to false"}},
		{"a rule that needs a default", release + "  rollout: {progressDeadline: 10s}\n", []string{"f.yaml:9: GatewayRelease/stable: spec.rollout", "progressDeadline must be longer than minReadySeconds"}},
		{"a field that is missing", strings.Replace(release, "  image: registry.example.com/gateways/openshell:1.4.2\n", "", 1), []string{"f.yaml:5: GatewayRelease/stable: spec.image: Required value"}},
		{"an image without a tag", strings.Replace(release, ":1.4.2", "", 1), []string{"f.yaml:6: GatewayRelease/stable: spec.image: ", disabled}},
		{"a name that is none", strings.Replace(release, "name: stable", "name: Stable", 1), []string{"f.yaml:4: GatewayRelease/Stable: metadata.name"}},
		{"no name", strings.Replace(release, "  name: stable\n", "  labels: {}\n", 1), []string{"f.yaml:3: GatewayRelease/: metadata.name: Required value: write a name"}},
		{"no metadata", strings.Replace(release, "metadata:\n  name: stable\n", "", 1), []string{"f.yaml:1: GatewayRelease/: metadata: Required value: write metadata with a name"}},
		{"a namespace of a cluster's kind", strings.Replace(release, "  name: stable\n", "  name: stable\n  namespace: x\n", 1), []string{"f.yaml:5: GatewayRelease/stable: metadata.namespace"}},
		{"a pod template that could not run", strings.Replace(profile, "@sha256:7f9c2ba4e88f827d616045507605853ed73b8093f6efbc88eb1a6eacfa66ef26", ":1", 1), []string{"f.yaml:10: GatewayProfile/openshell: spec.template.spec.containers[1].image: image \"registry.example.com/sidecar:1\" is not pinned"}},
		{"a template's field misspelt", strings.Replace(profile, "      - name: sidecar\n        image", "      - name: sidecar\n        imagee", 1), []string{"f.yaml:10: GatewayProfile/openshell: spec.template.spec.containers[1].imagee: unknown field"}},
		{"a kind that does not exist", "apiVersion: gatehouse.dev/v1alpha1\nkind: Gateway\n", []string{"f.yaml:2: Gateway/: kind: gatehouse.dev/v1alpha1 has no kind \"Gateway\"; write one of v1alpha1 "}},
		{"a version that does not exist", "apiVersion: gatehouse.dev/v1\nkind: GatewayRelease\n", []string{"gatehouse.dev/v1 has no kind"}},
		{"a later document", profile + "---\n" + strings.Replace(release, ":1.4.2", "", 1), []string{"f.yaml:17: GatewayRelease/stable: spec.image", "f.yaml:19:"}},
		{"a key twice", "a: 1\n---\nb:\n  c: 1\n  c: 2\n", []string{`f.yaml:5: the key "c" is written twice, first at line 4; keep one`}},
		{"no YAML", "a: 1\n---\nb: [\n", []string{"f.yaml:3: does not read as YAML"}},
		{"a list of manifests", "apiVersion: v1\nkind: List\nitems:\n- apiVersion: gatehouse.dev/v1alpha1\n  kind: GatewayRelease\n  metadata: {name: a}\n  spec: {image: x, profileRef: {name: b}, verification: Disabled}\n", []string{"f.yaml:7: GatewayRelease/a: spec.image", "f.yaml:7: GatewayRelease/a: spec.verification: warning"}},
		{"a list of one kind", "apiVersion: gatehouse.dev/v1alpha1\nkind: GatewayReleaseList\nitems:\n- apiVersion: gatehouse.dev/v1alpha1\n  kind: GatewayRelease\n  metadata: {name: a}\n  spec: {image: x, profileRef: {name: b}, verification: Disabled}\n", []string{"f.yaml:7: GatewayRelease/a: spec.image", "warning"}},
		{"a list whose items are an object", "apiVersion: v1\nkind: List\nitems:\n  a: {}\n", []string{"f.yaml:3: List/: items: is no list of manifests"}},
		{"a list whose items are a text", "apiVersion: gatehouse.dev/v1alpha1\nkind: ExecutorList\nitems: x\n", []string{"f.yaml:3: ExecutorList/: items: is no list of manifests"}},
		{"a list of no manifests", "apiVersion: v1\nkind: List\nitems:\n- x\n- {}\n", []string{"f.yaml:4: List/: items[0]: is no manifest"}},
		{"a list of nothing", "apiVersion: v1\nkind: List\nitems: []\n---\napiVersion: v1\nkind: List\n---\napiVersion: v1\nkind: List\nitems: null\n", nil},
		{"a kind of others that is called a list", "apiVersion: example.com/v1\nkind: AllowList\nitems: {a: b}\n", nil},
		{"lists in lists", "apiVersion: v1\nkind: List\nitems: [{kind: List, items: [{kind: List, items: [{kind: List, items: [{kind: List, items: []}]}]}]}]\n", []string{"f.yaml:3: List/: lists in lists are read 4 deep"}},
		{"a document that is no object", "- a\n- b\n", []string{"f.yaml:1: is no manifest; write an object with apiVersion and kind"}},
		{"a text", "kind: Secret\n---\nhello\n", []string{"f.yaml:3: is no manifest; write an object with apiVersion and kind"}},
		{"what is no text", "\x7fELF\x00\xff\xfe", []string{"f.yaml:1: is no text in UTF-8; name a file of YAML or JSON, and save it as UTF-8"}},
		{"another encoding", "\xff\xfek\x00i\x00n\x00d\x00:\x00x\x00", []string{"f.yaml:1: is no text in UTF-8"}},
		{"a mark of UTF-8", "\ufeff" + profile, nil},
		{"no version", strings.Replace(executor, "apiVersion: gatehouse.dev/v1alpha1\n", "", 1), []string{`f.yaml:1: Executor/production: apiVersion: "" is no version of an API; write gatehouse.dev/v1alpha1`}},
		{"a version that does not read", strings.Replace(executor, "v1alpha1", "v1alpha1/x", 1), []string{`f.yaml:1: Executor/production: apiVersion: "gatehouse.dev/v1alpha1/x" is no version of an API; write gatehouse.dev/v1alpha1`}},
		{"others without a version, as in a kustomization", "resources: [a.yaml]\n", nil},
		{"no kind", strings.Replace(executor, "kind: Executor\n", "", 1), []string{`f.yaml:1: kind: gatehouse.dev/v1alpha1 has no kind ""; write one of v1alpha1 Executor, `}},
		{"a document on the line of its mark", "--- {kind: Executor, metadata: {name: a}}\n---  # a comment\n" + profile, []string{"f.yaml:1: what stands on the line of --- is not read when it is applied; begin on the next line"}},
		{"a document after an end without a mark", profile + "...\n" + release, []string{"f.yaml:11: does not read as YAML: did not find expected <document start>"}},
		{"a mark with white space", "a: 1\n--- \t\n" + profile + "---\t# b\n" + strings.Replace(release, ":1.4.2", "", 1), []string{"f.yaml:19: GatewayRelease/stable: spec.image"}},
		{"an end", profile + "...\n", nil},
		{"one name twice", executor + "---\n" + executor, []string{"f.yaml:17: Executor/production: metadata.name: is written twice, first at f.yaml:3, and a cluster keeps what is applied last; keep the one that is meant"}},
		{"one name twice in a list", "apiVersion: v1\nkind: List\nitems:\n- &a\n  apiVersion: v1\n  kind: Secret\n  metadata: {name: x}\n- *a\n", []string{"f.yaml:7: Secret/x: metadata.name: is written twice, first at f.yaml:7"}},
		{"a ConfigMap twice", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n", []string{"f.yaml:7: ConfigMap/x: metadata.name: is written twice, first at f.yaml:3"}},
		{"one name in two namespaces, and of two kinds", "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: x, namespace: tenant-a}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n", nil},
		{"other kinds twice", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\n", nil},
		{"an object whose metadata is text", "apiVersion: gatehouse.dev/v1alpha1\nkind: GatewayProfile\nmetadata: x\nspec: y\n", []string{"f.yaml:3: GatewayProfile/: metadata", "f.yaml:4: GatewayProfile/: spec"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := problems(t, tt.text)
			all := strings.Join(got, "\n")
			if len(tt.want) == 0 && len(got) > 0 {
				t.Errorf("told:\n%s", all)
			}
			rest := all
			for _, want := range tt.want {
				at := strings.Index(rest, want)
				if at < 0 {
					t.Fatalf("want %q in\n%s", want, all)
				}
				rest = rest[at+len(want):]
			}
		})
	}
}

// Files of a batch are applied together: what one of them holds another does not.
func TestOfOneNameThereIsOneInABatch(t *testing.T) {
	linter, err := lint.New()
	if err != nil {
		t.Fatal(err)
	}
	batch := linter.Batch()
	for _, step := range []struct{ file, text, want string }{
		{"a.yaml", executor, ""},
		{"b.yaml", profile, ""},
		{"c.yaml", "# again\n" + executor, "c.yaml:4: Executor/production: metadata.name: is written twice, first at a.yaml:3, and a cluster keeps what is applied last; keep the one that is meant"},
	} {
		told := ""
		for _, p := range batch.File(t.Context(), step.file, []byte(step.text)) {
			told += p.String()
		}
		if told != step.want {
			t.Errorf("%s: told %q, want %q", step.file, told, step.want)
		}
	}
	if batch.Manifests != 3 {
		t.Errorf("%d manifests, want 3", batch.Manifests)
	}
	if alone := linter.File(t.Context(), "a.yaml", []byte(executor)); len(alone) > 0 {
		t.Errorf("a file that stands alone: %v", alone)
	}
}

// No text makes it panic or go on for ever.
func FuzzFile(f *testing.F) {
	linter, err := lint.New()
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(release))
	f.Add([]byte(profile))
	f.Add([]byte("a: &a [*a]\n"))
	f.Add([]byte("kind: List\nitems: 1\n---\n--- x\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		lines := strings.Count(string(text), "\n") + 1
		for _, p := range linter.File(t.Context(), "f.yaml", text) {
			if p.Line < 1 || p.Line > lines+1 || p.Message == "" {
				t.Errorf("%+v", p)
			}
		}
	})
}
