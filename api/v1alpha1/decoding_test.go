package v1alpha1_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// One object that Go cannot decode ends every list of its kind, and with it the service for everybody. So whatever a
// schema admits, in any field, its Go type must be able to hold.
func TestWhatIsAdmittedCanBeDecoded(t *testing.T) {
	install(t)
	kinds := []struct {
		file, base string
		typed      func() any
	}{
		{"gatewayreleases", release, func() any { return &v1alpha1.GatewayRelease{} }},
		{"gatewayinstances", gateway, func() any { return &v1alpha1.GatewayInstance{} }},
		{"gatewayprofiles", profile, func() any { return &v1alpha1.GatewayProfile{} }},
		{"executors", executor, func() any { return &v1alpha1.Executor{} }},
		{"namespacedexecutors", namespacedExecutor, func() any { return &v1alpha1.NamespacedExecutor{} }},
	}
	for _, kind := range kinds {
		t.Run(kind.file, func(t *testing.T) {
			schema := schemaOf(t, kind.file)
			stored := object(t, kind.base)
			stored.SetName("decoding")
			if err := shared.Client.Create(t.Context(), stored); err != nil && !apierrors.IsAlreadyExists(err) {
				t.Fatal(err)
			}
			for _, field := range append(leaves("spec", schema.Properties["spec"]), leaves("status", schema.Properties["status"])...) {
				admitted := 0
				for _, value := range values(field.schema) {
					o := stored.DeepCopy()
					field.put(o.Object, value)
					var err error
					if field.path[0] == "status" {
						err = shared.Client.Status().Update(t.Context(), o, client.DryRunAll)
					} else {
						err = shared.Client.Update(t.Context(), o, client.DryRunAll)
					}
					if err != nil {
						if !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
							t.Fatalf("%s = %#v: %v", field, value, err)
						}
						continue
					}
					admitted++
					data, err := json.Marshal(o.Object)
					if err != nil {
						t.Fatal(err)
					}
					if err := kjson.UnmarshalCaseSensitivePreserveInts(data, kind.typed()); err != nil {
						t.Errorf("%s = %#v is admitted, but cannot be decoded: %v", field, value, err)
					}
				}
				if admitted == 0 {
					t.Errorf("%s: nothing was admitted, so nothing was tried: teach the test a value", field)
				}
			}
		})
	}
}

func schemaOf(t *testing.T, plural string) apiextensionsv1.JSONSchemaProps {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "config", "crd", "gatehouse.dev_"+plural+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(text, &definition); err != nil {
		t.Fatal(err)
	}
	return *definition.Spec.Versions[0].Schema.OpenAPIV3Schema
}

// leaf is a scalar field of a schema. In its path "[]" is an element of a list and "{}" a value of a map.
type leaf struct {
	path    []string
	parents []apiextensionsv1.JSONSchemaProps // parents[i] is the schema that path[i] is in
	schema  apiextensionsv1.JSONSchemaProps
}

func (l leaf) String() string { return strings.Join(l.path, ".") }

func leaves(name string, schema apiextensionsv1.JSONSchemaProps) []leaf {
	var found []leaf
	below := func(key string, inner apiextensionsv1.JSONSchemaProps) {
		for _, l := range leaves(key, inner) {
			l.path = append([]string{name}, l.path...)
			l.parents = append([]apiextensionsv1.JSONSchemaProps{schema}, l.parents...)
			found = append(found, l)
		}
	}
	switch {
	case schema.Type == "array":
		below("[]", *schema.Items.Schema)
	case schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil:
		below("{}", *schema.AdditionalProperties.Schema)
	case len(schema.Properties) > 0:
		for key, inner := range schema.Properties {
			below(key, inner)
		}
	case schema.Type != "" || schema.XIntOrString:
		return []leaf{{path: []string{name}, schema: schema}}
	}
	slices.SortFunc(found, func(a, b leaf) int { return strings.Compare(a.String(), b.String()) })
	return found
}

// put sets the field, and beside it what the objects on the way to it require.
func (l leaf) put(root map[string]any, value any) {
	top, _ := root[l.path[0]].(map[string]any)
	if top == nil {
		top = map[string]any{}
	}
	root[l.path[0]] = build(top, l.path[1:], l.parents, value)
}

func build(into any, path []string, parents []apiextensionsv1.JSONSchemaProps, value any) any {
	if len(path) == 0 {
		return value
	}
	switch path[0] {
	case "[]":
		return []any{build(sample(*parents[0].Items.Schema), path[1:], parents[1:], value)}
	case "{}":
		return map[string]any{"a": build(sample(*parents[0].AdditionalProperties.Schema), path[1:], parents[1:], value)}
	}
	o, ok := into.(map[string]any)
	if !ok {
		o = map[string]any{}
	}
	// What is there exactly once beside the field.
	if path[0] == "mountPath" || path[0] == "prefix" || path[0] == "name" {
		if _, either := parents[0].Properties["secretRef"]; either {
			o["secretRef"] = map[string]any{"name": "a"}
		} else if _, either := parents[0].Properties["secretKeyRef"]; either {
			o["value"] = "a"
		}
	}
	executorNeeds(o, path[0], parents[0])
	old, there := o[path[0]]
	if !there {
		old = sample(parents[0].Properties[path[0]])
	}
	o[path[0]] = build(old, path[1:], parents[1:], value)
	return o
}

// executorNeeds puts into a part of an Executor what its rules ask for beside a field: a kind for a verifier or a
// store, a source for a key, the issuer of a subject, and the verifiers that a group is made of.
func executorNeeds(o map[string]any, field string, schema apiextensionsv1.JSONSchemaProps) {
	has := func(name string) bool { _, ok := schema.Properties[name]; return ok }
	source := map[string]any{"name": "a", "key": "a"}
	key := map[string]any{"keys": []any{map[string]any{"name": "a", "secretRef": source}}, "transparencyLog": "Ignored"}
	either := func(one, other string, value any) {
		if has(one) && has(other) && field != one && field != other {
			o[one] = value
		}
	}
	switch {
	case has("notation") && field != "notation":
		o["cosign"] = key
	case has("keys") && has("identities"):
		o["transparencyLog"] = "Required"
		if field != "trustRoot" {
			o["trustRoot"] = map[string]any{"secretRef": source}
		}
		if field != "identities" {
			o["keys"] = key["keys"]
		}
	case has("trustedIdentities"):
		o["trustedIdentities"] = []any{"*"}
		o["trustStores"] = []any{map[string]any{"name": "a", "type": "CA", "certificates": []any{map[string]any{"secretRef": source}}}}
	case has("inline") && field != "inline" && field != "secretRef" && field != "configMapRef":
		o["secretRef"] = source
	case has("certificates") && field != "certificates":
		o["certificates"] = []any{map[string]any{"secretRef": source}}
	case has("min") && has("of"):
		if field != "of" {
			o["of"] = []any{"builders"}
		}
	}
	either("registry", "ociLayout", map[string]any{})
	either("issuer", "issuerRegExp", "a")
	either("subject", "subjectRegExp", "a")
	if has("registry") && !has("ociLayout") {
		o["registry"] = map[string]any{}
	}
}

// sample is a value that a schema admits.
func sample(schema apiextensionsv1.JSONSchemaProps) any {
	switch {
	case len(schema.Enum) > 0:
		return strings.Trim(string(schema.Enum[0].Raw), `"`)
	case schema.Type == "object":
		o := map[string]any{}
		for _, key := range schema.Required {
			o[key] = sample(schema.Properties[key])
		}
		return o
	case schema.Type == "array":
		return []any{}
	case schema.Type == "integer" || schema.XIntOrString:
		return int64(1)
	case schema.Type == "boolean":
		return true
	case schema.Format == "date-time":
		return "2026-11-30T10:00:00Z"
	case strings.HasPrefix(schema.Pattern, "^/"):
		return "/a"
	}
	return "a"
}

// values are what people, tools and enemies write into a scalar field.
func values(schema apiextensionsv1.JSONSchemaProps) []any {
	all := []any{
		sample(schema),
		int64(0), int64(-1), int64(65536), int64(math.MaxInt32) + 1, int64(99999999999), int64(math.MaxInt64),
		1.5, 1e9, 1e19, 1e21, -1e21, 1e300, true, nil, []any{}, map[string]any{}, "", "a", "1",
		"*", "builders", "-----BEGIN A-----",
	}
	rules := fmt.Sprint(schema.XValidations)
	if schema.Type == "string" && schema.Format == "" && !strings.Contains(rules, "duration(") {
		return all
	}
	for _, text := range []string{
		"0", "-1", "+1", "1.", ".5", ".", "+", " 1", "1.5", "0x10", "1_000", "NaN", "Inf", "99999999999", strings.Repeat("9", 400), "٣",
		"1e3", "1E3", "1e1.5", "1E1.5", "1e.5", "1e+", "1e-400", "1e400", "1e99999999999", "1n", "1Ki", "1.5Ei", "1000000000E", "1k1", "10%", "1000%",
		"10m", "0s", "1s", "1m30s", "1d", "1e3s", "1.s", ".5s", "-1s", " 1s", "1s ", "1us", "1µs", "1h1", "9999999h", "99999999999h", "1.5.5s", "999999h999999h999999h",
		"2026-11-30", "2026-11-30T10:00:00", "2026-11-30t10:00:00z", "2026-13-30T10:00:00Z", "2026-02-30T10:00:00Z", "2026-11-30T24:00:00Z", "2026-11-30T10:00:60Z",
		"2026-11-30T10:00:00.123456789123Z", "2026-11-30T10:00:00+25:00", "2026-11-30T10:00:00+2500", "0000-00-00T00:00:00Z", "2026-11-30 10:00:00Z", "2026-11-30T10:00:00,5Z", "-2026-11-30T10:00:00Z",
	} {
		all = append(all, text)
	}
	return all
}
