package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/gatehouse-dev/gatehouse/internal/lint"
)

const sample = "../../internal/ratify/testdata/ratify.yaml"

// ratifys is the sample with parts of its text replaced.
func ratifys(t *testing.T, replacements ...string) string {
	t.Helper()
	text, err := os.ReadFile(sample)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(replacements); i += 2 {
		if !strings.Contains(string(text), replacements[i]) {
			t.Fatalf("the sample does not hold %q", replacements[i])
		}
	}
	return strings.NewReplacer(replacements...).Replace(string(text))
}

// imported runs the command, with standard output and standard error apart.
func imported(t *testing.T, text string, args ...string) (out, told string, status int) {
	t.Helper()
	root := newRootCommand()
	var stdout, stderr bytes.Buffer
	root.SetIn(strings.NewReader(text))
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	root.SetArgs(append([]string{"import", "ratify", "-"}, args...))
	if err := root.ExecuteContext(t.Context()); err != nil {
		status = exitStatus(err)
	}
	return stdout.String(), stderr.String(), status
}

// What can be carried over is, and what comes out is admitted.
func TestImportCarriesOver(t *testing.T) {
	const namespaced = "kind: NamespacedExecutor\nmetadata:\n  namespace: tenant-a\n"
	tests := []struct {
		name, text string
		out, told  []string // parts of what is written, and of the warnings
	}{
		{"an Executor", ratifys(t),
			[]string{"kind: Executor\nmetadata:\n  name: production\n", "- ghcr.io/*", "- registry.example.com/team/app", "level: Strict", "revocation: Enforce", "'x509.subject: CN=release,O=Example,ST=WA,C=US'", "issuer: https://accounts.example.com", "subject: builder@example.com", "transparencyLog: Required", "min: 1\n      name: group-1\n      of:\n      - builders", "min: 2\n      name: group-2\n      of:\n      - notation-1\n      - group-1", "type: kubernetes.io/dockerconfigjson", "namespace: gatehouse-system"},
			[]string{"<stdin>:35: Executor/production: spec.verifiers[1].name: warning: is written builders", "put trusted_root.json under that key of the Secret gatehouse-system/production-builders", "counts different signers"}},
		{"of the other group", ratifys(t, "config.ratify.dev", "config.ratify.sh"), []string{"kind: Executor"}, nil},
		{"a NamespacedExecutor", ratifys(t, "kind: Executor\nmetadata:\n", namespaced), []string{"kind: NamespacedExecutor\nmetadata:\n  name: production\n  namespace: tenant-a\n", "kind: Secret\nmetadata:\n  name: production-store-1\n  namespace: tenant-a\n"}, []string{"Secret tenant-a/production-builders", "<stdin>:2: NamespacedExecutor/production: kind: warning: it judges what the gateways of its namespace are given"}},
		{"no identities mean everybody whom the store vouches for", ratifys(t, "      trustedIdentities: [\"x509.subject: CN=release,O=Example,ST=WA,C=US\"]\n", ""), []string{"trustedIdentities:\n      - '*'"}, nil},
		{"a trust store without a type is of authorities", ratifys(t, "type: ca\n        inline", "inline"), []string{"type: CA"}, nil},
		{"a store of a time-stamping authority", ratifys(t, "      certificates:\n", "      certificates:\n      - {type: tsa, files: [/tsa]}\n"), []string{"type: TSA"}, nil},
		{"a registry without TLS", ratifys(t, "credential: {provider: static, username: robot, password: hunter2}", "plainHttp: true"), []string{"plainHTTP: true"}, nil},
		{"anonymous credentials", ratifys(t, ", username: robot, password: hunter2", ""), []string{"registry: {}"}, nil},
		{"a folder", ratifys(t, "  stores:\n", "  stores:\n  - type: filesystem-oci-store\n    parameters: {path: /var/mirror}\n"), []string{"ociLayout:\n      path: var/mirror"}, []string{"below the folder that --oci-layout-root names"}},
		{"a policy of one verifier", ratifys(t, "rules:\n        - verifierName: notation-1\n        - threshold: 1\n          rules:\n          - verifierName: Builders", "verifierName: notation-1"), []string{"- min: 1\n      name: group-1\n      of:\n      - notation-1"}, []string{"builders is not carried over: the policy does not name it"}},
		{"a domain", ratifys(t, "- ghcr.io", "- '*.ghcr.io'"), []string{"- '*.ghcr.io'"}, []string{"a.b.ghcr.io is verified as well", "the Secret does not hold the credentials for *.ghcr.io"}},
		{"certificates in files", ratifys(t, "type: ca\n", "files: [/certs]\n"), []string{"secretRef:\n            key: files.pem\n            name: production-notation-1-ca"}, []string{"under the key files.pem of the Secret gatehouse-system/production-notation-1-ca"}},
		{"certificates in a vault", ratifys(t, "type: ca\n", "keyVault: {}\n"), []string{"secretRef:\n            key: keyvault.pem\n            name: production-notation-1-ca"}, []string{"under the key keyvault.pem of the Secret gatehouse-system/production-notation-1-ca"}},
		{"credentials of a cloud", ratifys(t, "provider: static, username: robot, password: hunter2", "provider: azure"), nil, []string{`credentials of provider "azure" are not carried over`}},
		{"credentials without TLS", ratifys(t, "      allowCosignTag: true\n", "      plainHttp: true\n"), []string{"plainHTTP: true"}, []string{"sends no credentials over plain HTTP", "allowCosignTag"}},
		{"expressions", ratifys(t, "certificateIdentity: builder@example.com", "certificateIdentityRegex: builder@"), []string{"subjectRegExp: builder@"}, []string{"must match the whole text from now on"}},
		{"no log", ratifys(t, "certificateOIDCIssuer: https", "ignoreTLog: true\n        certificateOIDCIssuer: https"), []string{"timestamps: Required\n      transparencyLog: Ignored"}, []string{"needs proof of when it was made"}},
		{"concurrency", ratifys(t, "  scopes:\n", "  concurrency: 5\n  scopes:\n"), nil, []string{"spec.concurrency: warning"}},
		{"a list, as kubectl prints it", "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(ratifys(t)), "\n", "\n  ") + "\n", []string{"kind: Executor"}, []string{"<stdin>:38: Executor/production: spec.verifiers[1].name: warning: is written builders"}},
		{"other kinds beside it", "kind: Secret\napiVersion: v1\n---\n" + ratifys(t), []string{"kind: Executor"}, nil},
	}
	linter, err := lint.New()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, told, status := imported(t, tt.text)
			if status != 0 {
				t.Fatalf("exit status %d: %s", status, told)
			}
			for _, want := range tt.out {
				if !strings.Contains(out, want) {
					t.Errorf("want %q in\n%s", want, out)
				}
			}
			for _, want := range tt.told {
				if !strings.Contains(told, want) {
					t.Errorf("want %q told in\n%s", want, told)
				}
			}
			if strings.Contains(told, "hunter2") {
				t.Errorf("a password is told: %s", told)
			}
			for _, problem := range linter.File(t.Context(), "out", []byte(out)) {
				if !problem.Warning {
					t.Error(problem)
				}
			}
		})
	}
}

// What would be loosened, or cannot be understood, is an error, and nothing is written.
func TestImportRefuses(t *testing.T) {
	tests := []struct {
		name, text string
		want       string
	}{
		{"a verifier of another type", ratifys(t, "type: cosign", "type: sbom"), "without it less would be required"},
		{"a store of another type", ratifys(t, "type: registry-store", "type: cloud"), "spec.stores[0].type: Gatehouse has no stores of type"},
		{"a policy of another type", ratifys(t, "type: threshold-policy", "type: rego"), "spec.policyEnforcer.type: Gatehouse has no policy of type"},
		{"no policy", ratifys(t, "  policyEnforcer:\n    type: threshold-policy\n    parameters:\n      policy:\n        rules:\n        - verifierName: notation-1\n        - threshold: 1\n          rules:\n          - verifierName: Builders\n", ""), "spec.policyEnforcer: is missing: Ratify lets nothing pass then"},
		{"nobody vouches", ratifys(t, "        certificateOIDCIssuer: https://accounts.example.com\n", ""), "certificateOIDCIssuer is missing"},
		{"everybody signs", ratifys(t, "certificateIdentity: builder@example.com\n        ", ""), "certificateIdentity is missing"},
		{"a verifier for some scopes", ratifys(t, "      certificates:\n", "      scopes: [registry.example.com/team/app]\n      certificates:\n"), "spec.verifiers[0].parameters.scopes: covers only some of spec.scopes"},
		{"a store for some scopes", ratifys(t, "      allowCosignTag", "      scopes: [ghcr.io]\n      allowCosignTag"), "spec.stores[0].parameters.scopes: covers only some"},
		{"two trust policies", ratifys(t, "      - certificateIdentity", "      - {scopes: [ghcr.io]}\n      - certificateIdentity"), "2 trust policies are for different scopes"},
		{"rules about a signature's signatures", ratifys(t, "- verifierName: notation-1", "- verifierName: notation-1\n          rules: [{verifierName: Builders}]"), "has a verifier and rules"},
		{"a rule of nothing", ratifys(t, "- verifierName: notation-1", "- {}"), "spec.policyEnforcer.parameters.policy.rules[0]: has neither a verifier nor rules"},
		{"a threshold out of reach", ratifys(t, "threshold: 1", "threshold: 2"), "is 2 of 1 rules"},
		{"a negative threshold", ratifys(t, "threshold: 1", "threshold: -1"), "is -1 of 1 rules"},
		{"a verifier that does not exist", ratifys(t, "verifierName: Builders", "verifierName: Nobody"), `no verifier is named "Nobody"`},
		{"a verifier twice", ratifys(t, "- verifierName: notation-1", "- verifierName: notation-1\n        - verifierName: notation-1"), "names notation-1 a second time"},
		{"names that become one", ratifys(t, "name: Builders\n    type", "name: Notation_1\n    type"), `"Notation_1" cannot be made a name`},
		{"a parameter that is not known", ratifys(t, "      trustedIdentities:", "      trustedIdentity:"), "unknown field"},
		{"a field that is not known", ratifys(t, "  scopes:\n  - ghcr.io", "  scope: x\n  scopes:\n  - ghcr.io"), "unknown field"},
		{"a name that is a number", ratifys(t, "name: production", "name: 5"), "<stdin>:4: Executor/: metadata.name: is no text but a number; write it in quotation marks"},
		{"a name that is a list", ratifys(t, "name: production", "name: [production]"), "<stdin>:4: Executor/: metadata.name: is no text but a list"},
		{"no name", ratifys(t, "  name: production", "  labels: {}"), "<stdin>:3: Executor/: metadata.name: is missing; write the name of the Executor"},
		{"a verifier's name that is a truth value", ratifys(t, "name: Builders\n    type", "name: yes\n    type"), "Executor/production: spec.verifiers[1].name: is no text but a truth value"},
		{"a scope that is a number", ratifys(t, "- ghcr.io", "- 5"), "Executor/production: spec.scopes: is a number where a string belongs"},
		{"a rule's name that is a number", ratifys(t, "verifierName: notation-1", "verifierName: 1"), "spec.policyEnforcer.parameters: policy.rules.verifierName is a number where a string belongs"},
		{"a value of another type", ratifys(t, "allowCosignTag: true", "allowCosignTag: {}"), "spec.stores[0].parameters: "},
		{"a type of trust store that is none", ratifys(t, "type: ca", "type: root"), "is none of ca, tsa and signingAuthority"},
		{"two trust stores of one type", ratifys(t, "      certificates:\n", "      certificates:\n      - {files: [/more]}\n"), "spec.verifiers[0].parameters.certificates[1].type: is ca a second time"},
		{"a store without certificates", ratifys(t, "type: ca\n        inline: |", "type: ca\n        inline: \"\" #"), ""},
		{"a scope that is none", ratifys(t, "- ghcr.io", "- '*'"), "is no scope of Ratify's"},
		{"only folders for a tenant", ratifys(t, "kind: Executor", "kind: NamespacedExecutor", "type: registry-store\n    parameters:\n      allowCosignTag: true\n      credential: {provider: static, username: robot, password: hunter2}", "type: filesystem-oci-store\n    parameters: {path: /x}"), "none of them can be carried over"},
		{"a scope that would be refused", ratifys(t, "- registry.example.com/team/app", "- registry.example.com/Team"), "what comes out would be refused"},
		{"more than is read", ratifys(t) + "---\n" + strings.Repeat("# x\n", 3<<20) + ratifys(t), "is larger than 8 MiB"},
		{"one name twice", ratifys(t) + "---\n" + ratifys(t), "metadata.name: what comes out would be refused: is written twice, first at <stdin>:1, "},
		{"one name in both of its groups", ratifys(t) + "---\n" + ratifys(t, "config.ratify.dev", "config.ratify.sh"), "Executor/production: metadata.name: what comes out would be refused: is written twice"},
		{"no Ratify", "kind: Secret\napiVersion: v1\n", "no manifest in - is an Executor or a NamespacedExecutor of Ratify's v2alpha1; name files that hold some"},
		{"no YAML", "a: [", "does not read as YAML"},
		{"nonsense where objects are", "apiVersion: config.ratify.dev/v2alpha1\nkind: Executor\nmetadata: 1\nspec: [x]\n", "Executor/"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, told, status := imported(t, tt.text)
			if status == 0 || out != "" || !strings.Contains(told, tt.want) {
				t.Errorf("exit status %d, wrote %q, told\n%s\nwant %q", status, out, told, tt.want)
			}
			if strings.Contains(told, "hunter2") {
				t.Errorf("a password is told: %s", told)
			}
		})
	}
}

// The page's example is the sample, which TestImportCarriesOver turns.
func TestTheExampleOfTheImportPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/import-ratify.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```yaml\n"+ratifys(t)+"```\n") {
		t.Errorf("docs/import-ratify.md does not show %s as it is", sample)
	}
}
