package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	executor = `
apiVersion: gatehouse.dev/v1alpha1
kind: Executor
metadata: {name: production}
spec:
  scopes: ["registry.example.com/team/*"]
  verifiers:
  - name: builders
    cosign: {keys: [{name: k1, secretRef: {name: keys, key: k1.pub}}], transparencyLog: Ignored}
`
	namespacedExecutor = `
apiVersion: gatehouse.dev/v1alpha1
kind: NamespacedExecutor
metadata: {name: own, namespace: default}
spec:
  scopes: ["registry.example.com/team/*"]
  verifiers:
  - name: builders
    cosign: {keys: [{name: k1, secretRef: {name: keys, key: k1.pub}}], transparencyLog: Ignored}
`
	fullExecutor = `
spec:
  scopes: [registry.example.com/payments/*, registry.example.com/team/app, "*.example.com", "*"]
  stores:
  - {name: registry, registry: {credentials: {secretRef: {name: pull}}, caBundle: {configMapRef: {name: ca, key: ca.crt}}, timeout: 10s}}
  - {name: inner, registry: {plainHTTP: true}}
  - {name: mirror, ociLayout: {path: team/mirror}}
  verifiers:
  - name: release-signers
    notation:
      level: Permissive
      revocation: Log
      trustedIdentities: ["x509.subject: CN=release,O=Example,ST=WA,C=US"]
      trustStores:
      - {name: corp, type: CA, certificates: [{secretRef: {name: ca, key: ca.crt}}, {configMapRef: {name: ca, key: ca.crt}}]}
      - {name: time, type: TSA, certificates: [{inline: "-----BEGIN CERTIFICATE-----"}]}
  - name: builders
    cosign:
      keys: [{name: k1, inline: "-----BEGIN PUBLIC KEY-----"}]
      identities:
      - {issuer: "https://token.actions.githubusercontent.com", subjectRegExp: "https://github.com/example/.*", sourceRepository: "https://github.com/example/app"}
      - {issuerRegExp: "https://.*", subject: robot@example.com}
      trustRoot: {secretRef: {name: sigstore, key: trusted_root.json}}
      transparencyLog: Ignored
      timestamps: Required
  policy:
    groups:
    - {name: any-builder, min: 1, of: [builders]}
    - {name: all, min: 2, of: [release-signers, any-builder]}
  mode: Audit
  tenancy: Delegate
  refreshInterval: 10m
  maxStale: 0s
`
)

func verifier(text string) string { return `spec: {verifiers: [{name: v, ` + text + `}]}` }
func cosign(text string) string   { return verifier(`cosign: {` + text + `}`) }
func notation(text string) string {
	return verifier(`notation: {trustedIdentities: ["*"], trustStores: [{name: a, type: CA, certificates: [{secretRef: {name: a, key: b}}]}], ` + text + `}`)
}
func policy(groups string) string { return `spec: {policy: {groups: [` + groups + `]}}` }
func scope(text string) string    { return `spec: {scopes: ["` + text + `"]}` }
func store(text string) string    { return `spec: {stores: [` + text + `]}` }

// What an Executor may say, and the sentence that answers each kind of nonsense.
func TestExecutorAdmission(t *testing.T) {
	install(t)
	const key = `keys: [{name: k, inline: "-----BEGIN PUBLIC KEY-----"}]`
	const identity = `identities: [{issuer: a, subject: b}]`
	const root = `trustRoot: {secretRef: {name: a, key: b}}`
	const ca = `trustStores: [{name: a, type: CA, certificates: [{secretRef: {name: a, key: b}}]}]`
	tests := []struct{ name, base, change, want string }{
		{"a minimal Executor", executor, `{}`, ""},
		{"a full Executor", executor, fullExecutor, ""},
		{"a minimal NamespacedExecutor", namespacedExecutor, `{}`, ""},
		{"a tenant reads no files of the replicas", namespacedExecutor, store(`{name: a, ociLayout: {path: mirror}}`), `unknown field "spec.stores[0].ociLayout"`},
		{"a tenant does not say what tenants may do", namespacedExecutor, `spec: {tenancy: Delegate}`, `unknown field "spec.tenancy"`},

		{"no scope", executor, `spec: {scopes: null}`, "spec.scopes: Required"},
		{"an empty list of scopes", executor, `spec: {scopes: []}`, "spec.scopes"},
		{"too many scopes", executor, `spec: {scopes: [` + numbered(33, `"a.example/%d"`) + `]}`, "must have at most 32 items"},
		{"one scope twice", executor, `spec: {scopes: ["*", "*"]}`, "Duplicate value"},
		{"a scope: everything", executor, scope(`*`), ""},
		{"a scope: a whole registry", executor, scope(`registry.example.com/*`), ""},
		{"a scope: a registry with a port", executor, scope(`registry:5000/team/app`), ""},
		{"a scope: an address", executor, scope(`[fd00::1]:5000/team/*`), ""},
		{"a scope: this machine", executor, scope(`localhost/app`), ""},
		{"a scope: the registries of a domain at a port", executor, scope(`*.example.com:5000`), ""},
		{"a scope: a path with separators", executor, scope(`registry.example.com/a-b/c__d/e.f`), ""},
		{"a scope with a tag", executor, scope(`registry.example.com/team/app:1`), "(without scheme, tag or digest, the path in lower case)"},
		{"a scope with a digest", executor, scope(`registry.example.com/app@sha256:a`), "(without scheme, tag or digest, the path in lower case)"},
		{"a scope with a scheme", executor, scope(`https://registry.example.com/app`), "(without scheme, tag or digest, the path in lower case)"},
		{"a scope in upper case", executor, scope(`registry.example.com/Team/app`), "(without scheme, tag or digest, the path in lower case)"},
		{"a scope that is a registry alone", executor, scope(`registry.example.com`), "everything below a path as registry.example.com/team/*"},
		{"a scope with a star in the middle", executor, scope(`registry.example.com/*/app`), "everything below a path as registry.example.com/team/*"},
		{"a scope with a star in a name", executor, scope(`registry.example.com/team-*`), "everything below a path as registry.example.com/team/*"},
		{"a scope with a wildcard registry and a path", executor, scope(`*.example.com/team/*`), "the registries of a domain as *.example.com"},
		{"a scope with a star in a domain", executor, scope(`a*.example.com`), "the registries of a domain as *.example.com"},
		{"a scope with white space", executor, scope(` registry.example.com/app`), "write a repository as"},
		{"a short name as scope", executor, scope(`library/nginx`), "begin a scope with its registry, as docker.io/library/nginx"},
		{"a scope at the last port", executor, scope(`registry.example.com:65535/app`), ""},
		{"a scope at a port with a zero before", executor, scope(`registry.example.com:0443/app`), ""},
		{"a scope at no port", executor, scope(`registry.example.com:0/app`), "the port of a scope is between 1 and 65535"},
		{"a scope beyond the last port", executor, scope(`registry.example.com:65536/app`), "the port of a scope is between 1 and 65535"},
		{"a domain beyond the last port", executor, scope(`*.example.com:70000`), "the port of a scope is between 1 and 65535"},
		{"an IPv6 address beyond the last port", executor, scope(`[fd00::1]:65536/app`), "the port of a scope is between 1 and 65535"},
		{"a scope: an IPv4 address", executor, scope(`10.0.0.5:5000/team/*`), ""},
		{"a scope: a name with numbers", executor, scope(`10.0.0.5.example.com/team/*`), ""},
		{"an address of two parts", executor, scope(`127.1/*`), "as 10.0.0.5:5000/team/app, without leading zeros"},
		{"an address in hexadecimal", executor, scope(`0x7f.1/app`), "as 10.0.0.5:5000/team/app, without leading zeros"},
		{"an address in octal", executor, scope(`0177.0.0.1/app`), "as 10.0.0.5:5000/team/app, without leading zeros"},
		{"an address of one number", executor, scope(`2130706433:80/app`), "as 10.0.0.5:5000/team/app, without leading zeros"},
		{"the domain of an address", executor, scope(`*.0.0.1`), "as 10.0.0.5:5000/team/app, without leading zeros"},
		{"an address that is none", executor, scope(`[fd00::1::2]/app`), "write an IPv6 address in brackets"},
		{"an IPv4 address in brackets", executor, scope(`[10.0.0.5]/app`), "and an IPv4 address as 10.0.0.5:5000/team/app"},
		{"an address that is another kind's", executor, scope(`[::ffff:a00:1]/app`), "and an IPv4 address as 10.0.0.5:5000/team/app"},
		{"a scope with a dot at the end of its registry", executor, scope(`registry.example.com./app`), "write a repository as"},
		{"an endless scope", executor, scope(`a.example/` + strings.Repeat("a", 320)), "may not be more than 320"},

		{"a store of no kind", executor, store(`{name: a}`), "give each store exactly one kind: registry or ociLayout"},
		{"a store of two kinds", executor, store(`{name: a, registry: {}, ociLayout: {path: a}}`), "give each store exactly one kind: registry or ociLayout"},
		{"a tenant's store of no kind", namespacedExecutor, store(`{name: a}`), "spec.stores[0].registry: Required"},
		{"one store twice", executor, store(`{name: a, registry: {}}, {name: a, registry: {}}`), "Duplicate value"},
		{"no store", executor, `spec: {stores: []}`, "spec.stores"},
		{"too many stores", executor, store(numbered(9, `{name: s%d, registry: {}}`)), "must have at most 8 items"},
		{"a store's name that is none", executor, store(`{name: A, registry: {}}`), "spec.stores[0].name"},
		{"a store's credentials over plain HTTP", executor, store(`{name: a, registry: {plainHTTP: true, credentials: {secretRef: {name: a}}}}`), "credentials are never sent over plain HTTP: remove credentials, or set plainHTTP to false"},
		{"a store's certificates over plain HTTP", executor, store(`{name: a, registry: {plainHTTP: true, caBundle: {configMapRef: {name: a, key: b}}}}`), "plain HTTP has no certificate to check"},
		{"a store that waits for ever", executor, store(`{name: a, registry: {timeout: 1h}}`), "write a duration from 100ms to 60s, as 5s"},
		{"a folder outside", executor, store(`{name: a, ociLayout: {path: ../etc}}`), "write a path below --oci-layout-root"},
		{"a folder outside, in the middle", executor, store(`{name: a, ociLayout: {path: a/../../etc}}`), "without '..'"},
		{"an absolute folder", executor, store(`{name: a, ociLayout: {path: /etc}}`), "without a leading '/'"},

		{"no verifier", executor, `spec: {verifiers: null}`, "spec.verifiers: Required"},
		{"an empty list of verifiers", executor, `spec: {verifiers: []}`, "spec.verifiers"},
		{"too many verifiers", executor, `spec: {verifiers: [` + numbered(17, `{name: v%d, cosign: {`+key+`, transparencyLog: Ignored}}`) + `]}`, "must have at most 16 items"},
		{"one verifier twice", executor, `spec: {verifiers: [` + strings.Repeat(`{name: v, cosign: {`+key+`, transparencyLog: Ignored}},`, 2) + `]}`, "Duplicate value"},
		{"a verifier of no kind", executor, `spec: {verifiers: [{name: v}]}`, "give each verifier exactly one kind: notation or cosign"},
		{"a verifier of two kinds", executor, verifier(`cosign: {` + key + `, transparencyLog: Ignored}, notation: {trustedIdentities: ["*"], ` + ca + `}`), "give each verifier exactly one kind: notation or cosign"},
		{"a verifier's name that is none", executor, `spec: {verifiers: [{name: "a b", cosign: {` + key + `, transparencyLog: Ignored}}]}`, "spec.verifiers[0].name"},

		{"notation", executor, notation(``), ""},
		{"notation at a level that does not exist", executor, notation(`level: Skip`), `supported values: "Strict", "Permissive", "Audit"`},
		{"notation with a revocation that does not exist", executor, notation(`revocation: Maybe`), `supported values: "Enforce", "Log", "Skip"`},
		{"notation without identities", executor, verifier(`notation: {` + ca + `}`), "trustedIdentities: Required"},
		{"notation without trust stores", executor, verifier(`notation: {trustedIdentities: ["*"]}`), "trustStores: Required"},
		{"everybody beside somebody", executor, verifier(`notation: {trustedIdentities: ["*", "x509.subject: CN=a"], ` + ca + `}`), "* means everybody whom the trust stores vouch for"},
		{"an identity of an unknown kind", executor, verifier(`notation: {trustedIdentities: ["CN=a"], ` + ca + `}`), "write an identity as 'x509.subject: CN=release,O=Example,ST=WA,C=US', or *"},
		{"an identity of nobody", executor, verifier(`notation: {trustedIdentities: ["x509.subject: "], ` + ca + `}`), "write an identity as 'x509.subject: CN=release"},
		{"trust in time alone", executor, verifier(`notation: {trustedIdentities: ["*"], trustStores: [{name: a, type: TSA, certificates: [{secretRef: {name: a, key: b}}]}]}`), "a time-stamping authority signs no images; give a store of type CA or SigningAuthority as well"},
		{"one trust store twice", executor, verifier(`notation: {trustedIdentities: ["*"], trustStores: [` + strings.Repeat(`{name: a, type: CA, certificates: [{secretRef: {name: a, key: b}}]},`, 2) + `]}`), "Duplicate value"},
		{"a trust store of an unknown type", executor, verifier(`notation: {trustedIdentities: ["*"], trustStores: [{name: a, type: ca, certificates: [{secretRef: {name: a, key: b}}]}]}`), `supported values: "CA", "TSA", "SigningAuthority"`},
		{"an empty trust store", executor, verifier(`notation: {trustedIdentities: ["*"], trustStores: [{name: a, type: CA, certificates: []}]}`), "certificates"},
		{"certificates from nowhere", executor, verifier(`notation: {trustedIdentities: ["*"], trustStores: [{name: a, type: CA, certificates: [{}]}]}`), "give exactly one of inline, secretRef and configMapRef"},
		{"certificates from two places", executor, verifier(`notation: {trustedIdentities: ["*"], trustStores: [{name: a, type: CA, certificates: [{secretRef: {name: a, key: b}, configMapRef: {name: a, key: b}}]}]}`), "give exactly one of inline, secretRef and configMapRef"},
		{"certificates that are no PEM", executor, verifier(`notation: {trustedIdentities: ["*"], trustStores: [{name: a, type: CA, certificates: [{inline: MIIB}]}]}`), "inline: give PEM, beginning with its -----BEGIN line"},

		{"cosign with a key", executor, cosign(key + `, transparencyLog: Ignored`), ""},
		{"cosign with a key and the log", executor, cosign(key + `, ` + root), ""},
		{"cosign keyless", executor, cosign(identity + `, ` + root), ""},
		{"cosign keyless with time stamps in place of the log", executor, cosign(identity + `, transparencyLog: Ignored, timestamps: Required, ` + root), ""},
		{"cosign trusting nobody", executor, cosign(`transparencyLog: Ignored`), "give keys, identities or both: without them nobody's signature would count"},
		{"cosign with an empty list of keys", executor, cosign(`keys: [], transparencyLog: Ignored`), "keys"},
		{"too many keys", executor, cosign(`keys: [` + numbered(17, `{name: k%d, secretRef: {name: a, key: b}}`) + `], transparencyLog: Ignored`), "must have at most 16 items"},
		{"one key twice", executor, cosign(`keys: [` + strings.Repeat(`{name: k, secretRef: {name: a, key: b}},`, 2) + `], transparencyLog: Ignored`), "Duplicate value"},
		{"a key from nowhere", executor, cosign(`keys: [{name: k}], transparencyLog: Ignored`), "give exactly one of inline, secretRef and configMapRef"},
		{"an empty key", executor, cosign(`keys: [{name: k, inline: ""}], transparencyLog: Ignored`), "inline"},
		{"a key that is no PEM", executor, cosign(`keys: [{name: k, inline: "AAAA"}], transparencyLog: Ignored`), "inline: give PEM, beginning with its -----BEGIN line"},
		{"an endless key", executor, cosign(`keys: [{name: k, inline: "-----BEGIN ` + strings.Repeat("a", 65536) + `"}], transparencyLog: Ignored`), "may not be more than 65536"},
		{"a key of a Secret without its name", executor, cosign(`keys: [{name: k, secretRef: {name: a}}], transparencyLog: Ignored`), "secretRef.key: Required"},
		{"the log without its keys", executor, cosign(key), "transparencyLog: Required needs the log's keys: give trustRoot (trusted_root.json), or set transparencyLog to Ignored"},
		{"time stamps without their authority", executor, cosign(key + `, transparencyLog: Ignored, timestamps: Required`), "timestamps: Required needs the timestamp authority's certificates"},
		{"keyless without a trust root", executor, cosign(identity), "identities are vouched for by a certificate authority: give its trustRoot"},
		{"keyless without a time", executor, cosign(identity + `, transparencyLog: Ignored, ` + root), "identities need proof of when it was signed, because their certificates live for minutes: set transparencyLog or timestamps to Required"},
		{"a subject without an issuer", executor, cosign(`identities: [{subject: b}], ` + root), "give exactly one of issuer and issuerRegExp"},
		{"an issuer twice", executor, cosign(`identities: [{issuer: a, issuerRegExp: a, subject: b}], ` + root), "give exactly one of issuer and issuerRegExp"},
		{"an issuer without a subject", executor, cosign(`identities: [{issuer: b}], ` + root), "give exactly one of subject and subjectRegExp"},
		{"a subject twice", executor, cosign(`identities: [{issuer: b, subject: a, subjectRegExp: a}], ` + root), "give exactly one of subject and subjectRegExp"},
		{"an empty subject", executor, cosign(`identities: [{issuer: b, subject: ""}], ` + root), "subject"},
		{"a trust root from two places", executor, cosign(identity + `, trustRoot: {inline: "{}", secretRef: {name: a, key: b}}`), "give exactly one of inline, secretRef and configMapRef"},

		{"a policy", executor, policy(`{name: all, min: 1, of: [builders]}`), ""},
		{"a policy without groups", executor, `spec: {policy: {groups: []}}`, "spec.policy.groups"},
		{"too many groups", executor, policy(numbered(17, `{name: g%d, min: 1, of: [builders]}`)), "must have at most 16 items"},
		{"one group twice", executor, policy(strings.Repeat(`{name: a, min: 1, of: [builders]},`, 2)), "Duplicate value"},
		{"a group of strangers", executor, policy(`{name: all, min: 1, of: [nobody]}`), "a member is neither a verifier nor a group; write the name of one of spec.verifiers, or of an earlier group"},
		{"a group of a later group", executor, policy(`{name: a, min: 1, of: [b]}, {name: b, min: 1, of: [builders]}`), "a member is the group itself or a later one; groups refer to earlier groups only, and the last one decides"},
		{"a group of itself", executor, policy(`{name: a, min: 1, of: [a]}`), "a member is the group itself or a later one"},
		{"a group that is called like a verifier", executor, policy(`{name: builders, min: 1, of: [builders]}`), "a group has the name of a verifier, and members could mean either; rename the group"},
		{"a threshold that nobody reaches", executor, policy(`{name: a, min: 2, of: [builders]}`), "min is more than the group has members, so it could never pass; lower min, or add members to of"},
		{"a threshold of nothing", executor, policy(`{name: a, min: 0, of: [builders]}`), "greater than or equal to 1"},
		{"no threshold", executor, policy(`{name: a, of: [builders]}`), "min: Required"},
		{"one member twice", executor, policy(`{name: a, min: 2, of: [builders, builders]}`), "Duplicate value"},
		{"a group that decides nothing", executor, policy(`{name: a, min: 1, of: [builders]}, {name: b, min: 1, of: [builders]}`), "a group is a member of no later one and would decide nothing"},
		{"a verifier that decides nothing", executor, `spec: {verifiers: [{name: builders, cosign: {` + key + `, transparencyLog: Ignored}}, {name: other, cosign: {` + key + `, transparencyLog: Ignored}}], policy: {groups: [{name: a, min: 1, of: [builders]}]}}`, "a verifier is in no group and would decide nothing; make it a member of a group, or remove it"},
		{"a group of nobody", executor, policy(`{name: a, min: 1, of: []}`), "of"},

		{"a mode that does not exist", executor, `spec: {mode: Off}`, `supported values: "Enforce", "Audit"`},
		{"a tenancy that does not exist", executor, `spec: {tenancy: Ignore}`, `supported values: "Add", "Delegate"`},
		{"refreshing all the time", executor, `spec: {refreshInterval: 1s}`, "write a duration from 10s to 168h in h, m and s, as 10m or 24h"},
		{"refreshing in days", executor, `spec: {refreshInterval: 1d}`, "write a duration from 10s to 168h in h, m and s, as 10m or 24h"},
		{"stale for ever", executor, `spec: {maxStale: 9999h}`, "write a duration from 0s to 720h in h, m and s, as 30m or 24h"},
		{"a field that does not exist", executor, `spec: {priority: 1}`, `unknown field "spec.priority"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { admission(t, merged(t, test.base, test.change), test.want) })
	}
}

// numbered is format n times, with commas between.
func numbered(n int, format string) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(format, i))
	}
	return strings.Join(all, ", ")
}

func TestExecutorDefaults(t *testing.T) {
	install(t)
	for base, want := range map[string][]string{
		executor:           {"mode:Enforce", "tenancy:Add", "refreshInterval:1h", "maxStale:24h", "stores:[map[name:registry registry:map[timeout:5s]]]", "timestamps:Ignored"},
		namespacedExecutor: {"mode:Enforce", "refreshInterval:1h", "maxStale:24h", "stores:[map[name:registry registry:map[timeout:5s]]]"},
	} {
		o := object(t, base)
		if err := shared.Client.Create(t.Context(), o, client.DryRunAll); err != nil {
			t.Fatal(err)
		}
		spec := fmt.Sprint(o.Object["spec"])
		for _, w := range want {
			if !strings.Contains(spec, w) {
				t.Errorf("%s: want %s among the defaults: %s", o.GetKind(), w, spec)
			}
		}
	}
	o := merged(t, executor, notation(``))
	if err := shared.Client.Create(t.Context(), o, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	if spec := fmt.Sprint(o.Object["spec"]); !strings.Contains(spec, "level:Strict") || !strings.Contains(spec, "revocation:Enforce") {
		t.Errorf("want level Strict and revocation Enforce: %s", spec)
	}
	o = merged(t, executor, cosign(`keys: [{name: k, secretRef: {name: a, key: b}}], trustRoot: {secretRef: {name: a, key: b}}`))
	if err := shared.Client.Create(t.Context(), o, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	if spec := fmt.Sprint(o.Object["spec"]); !strings.Contains(spec, "transparencyLog:Required") {
		t.Errorf("want transparencyLog Required: %s", spec)
	}
}

// An Executor with the most of everything is still admitted: no rule runs out of its budget.
func TestTheLargestExecutorIsAdmitted(t *testing.T) {
	install(t)
	long := strings.Repeat("x", 60)
	var names, groups []string
	for i := range 16 {
		names = append(names, fmt.Sprintf("%s%02d", long, i))
	}
	for i := range 16 {
		of := names
		if i > 0 {
			of = append([]string{fmt.Sprintf("g%s%02d", long, i-1)}, names[1:]...)
		}
		groups = append(groups, fmt.Sprintf(`{name: g%s%02d, min: 16, of: [%s]}`, long, i, strings.Join(of, ", ")))
	}
	pem := `-----BEGIN PUBLIC KEY-----` + strings.Repeat("A", 4000)
	var verifiers, scopes []string
	for _, name := range names {
		verifiers = append(verifiers, fmt.Sprintf(`{name: %s, cosign: {transparencyLog: Ignored, keys: [%s]}}`, name, numbered(16, `{name: k%d, inline: "`+pem+`"}`)))
	}
	for i := range 32 {
		scopes = append(scopes, fmt.Sprintf("%s.example.com/%s%02d", long, strings.Repeat("a/", 110)+"b", i))
	}
	o := merged(t, executor, fmt.Sprintf(`spec: {scopes: [%s], verifiers: [%s], policy: {groups: [%s]}}`, strings.Join(scopes, ", "), strings.Join(verifiers, ", "), strings.Join(groups, ", ")))
	if err := shared.Client.Create(t.Context(), o, client.DryRunAll); err != nil {
		if apierrors.IsInvalid(err) {
			t.Fatalf("%.2000s", err.Error())
		}
		t.Fatal(err)
	}
}
