package executor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/registry"
	"github.com/gatehouse-dev/gatehouse/internal/verify"
	testregistry "github.com/gatehouse-dev/gatehouse/test/registry"
	"github.com/gatehouse-dev/gatehouse/test/signatures/cosign"
	"github.com/gatehouse-dev/gatehouse/test/signatures/notation"
)

// specOf has one verifier of each kind, all of whose material is in Secrets and ConfigMaps.
func specOf() *v1alpha1.ExecutorSpec {
	spec := &v1alpha1.ExecutorSpec{VerificationSpec: byKeys("a.test/*", "keys/a", "keys/b")}
	spec.Verifiers = append(spec.Verifiers, v1alpha1.Verifier{Name: "release", Notation: &v1alpha1.NotationVerifier{
		TrustedIdentities: []v1alpha1.TrustedIdentity{"x509.subject: CN=release,O=Example,ST=WA,C=US"},
		TrustStores: []v1alpha1.TrustStore{{Name: "corp", Type: v1alpha1.TrustStoreCA, Certificates: []v1alpha1.PEMSource{
			{Material: v1alpha1.Material{SecretRef: &v1alpha1.KeyReference{Name: "ca", Key: "one"}}},
			{Material: v1alpha1.Material{ConfigMapRef: &v1alpha1.KeyReference{Name: "ca", Key: "two"}}},
		}}},
	}})
	spec.Stores = []v1alpha1.Store{{Name: "registry", Registry: &v1alpha1.RegistryStore{RegistryAccess: v1alpha1.RegistryAccess{
		Credentials: &v1alpha1.RegistryCredentials{SecretRef: v1alpha1.LocalObjectReference{Name: "pull"}},
	}}}}
	return spec
}

func materialOf(t *testing.T) Material {
	t.Helper()
	authority := func() []byte {
		made, err := notation.New(notation.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return made.PEM()
	}
	return Material{
		{Secret, "keys"}:    {Data: map[string][]byte{"a": []byte(newKey(t)), "b": []byte(newKey(t))}},
		{Secret, "ca"}:      {Data: map[string][]byte{"one": authority()}},
		{ConfigMap, "ca"}:   {Data: map[string][]byte{"two": authority()}},
		{Secret, "pull"}:    pull("secret"),
		{Secret, "another"}: {Data: map[string][]byte{"unused": []byte("unused")}},
	}
}

func pull(password string) Object {
	return Object{Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{
		corev1.DockerConfigJsonKey: []byte(`{"auths": {"a.test": {"username": "u", "password": "` + password + `"}}}`),
	}}
}

func TestWhatIsMissingIsAProblemAndNoFaultOfTheSpec(t *testing.T) {
	tests := []struct {
		name   string
		change func(Material)
		want   []string // the problems
	}{
		{"nothing", func(Material) {}, nil},
		{"a Secret", func(m Material) { delete(m, Ref{Secret, "keys"}) }, []string{
			"verifier builders: key k1: Secret ns/keys not found; create it, or remove the reference",
			"verifier builders: key k2: Secret ns/keys not found; create it, or remove the reference",
		}},
		{"a key of a Secret", func(m Material) { delete(m[Ref{Secret, "keys"}].Data, "b") }, []string{
			`verifier builders: key k2: Secret ns/keys has nothing under the key "b"; put it there, or correct the reference`,
		}},
		{"a key that is none", func(m Material) { m[Ref{Secret, "keys"}].Data["a"] = []byte("hunter2") }, []string{
			`verifier builders: key k1: Secret ns/keys, key "a": it is not PEM; give a public key that begins with -----BEGIN PUBLIC KEY-----`,
		}},
		{"certificates in a ConfigMap", func(m Material) { delete(m, Ref{ConfigMap, "ca"}) }, []string{
			"verifier release: trustStores[corp].certificates[1]: ConfigMap ns/ca not found; create it, or remove the reference",
		}},
		{"certificates that are none", func(m Material) { m[Ref{Secret, "ca"}].Data["one"] = []byte("hunter2") }, []string{
			`verifier release: trustStores[corp].certificates[0]: Secret ns/ca, key "one": it is not PEM`,
		}},
		{"credentials", func(m Material) { delete(m, Ref{Secret, "pull"}) }, []string{
			"store registry: credentials: Secret ns/pull not found; create it with the type kubernetes.io/dockerconfigjson",
		}},
		{"credentials of another type", func(m Material) { m[Ref{Secret, "pull"}] = Object{Type: corev1.SecretTypeOpaque} }, []string{
			`store registry: credentials: Secret ns/pull has the type "Opaque"; create it anew with the type kubernetes.io/dockerconfigjson`,
		}},
		{"everything", func(m Material) { clear(m) }, []string{
			"store registry: credentials", "builders: key k1", "builders: key k2", "release: trustStores[corp].certificates[0]", "release: trustStores[corp].certificates[1]",
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			material := materialOf(t)
			test.change(material)
			compiled, err := Compile("e", specOf(), material, "ns", tools())
			if err != nil {
				t.Fatalf("the spec is at fault: %v", err)
			}
			problems := compiled.Problems()
			if len(problems) != len(test.want) {
				t.Fatalf("problems %v, want %d", problems, len(test.want))
			}
			for i, want := range test.want {
				if !strings.Contains(problems[i].Error(), want) {
					t.Errorf("problem %q, want %q", problems[i], want)
				}
				if strings.Contains(problems[i].Error(), "hunter2") {
					t.Errorf("problem %q repeats a Secret", problems[i])
				}
			}
		})
	}
}

func TestFaultsOfASpec(t *testing.T) {
	tests := []struct {
		name   string
		change func(*v1alpha1.ExecutorSpec)
		want   string
	}{
		{"a scope", func(s *v1alpha1.ExecutorSpec) { s.Scopes = append(s.Scopes, "a.test") }, `scopes[1]: scope "a.test"`},
		{"an inline key", func(s *v1alpha1.ExecutorSpec) {
			s.Verifiers[0].Cosign.Keys[0].Material = v1alpha1.Material{Inline: "-----BEGIN nothing"}
		}, "verifier builders: key k1: inline: it is not PEM"},
		{"an inline certificate", func(s *v1alpha1.ExecutorSpec) {
			s.Verifiers[1].Notation.TrustStores[0].Certificates[0].Material = v1alpha1.Material{Inline: "-----BEGIN nothing"}
		}, "verifier release: trustStores[corp].certificates[0]: inline: "},
		{"an identity", func(s *v1alpha1.ExecutorSpec) {
			s.Verifiers[1].Notation.TrustedIdentities = []v1alpha1.TrustedIdentity{"x509.subject: CN=release"}
		}, "verifier release: trustedIdentities[0]"},
		{"a regular expression", func(s *v1alpha1.ExecutorSpec) {
			s.Verifiers[0].Cosign.Identities = []v1alpha1.CosignIdentity{{Issuer: "https://a.test", SubjectRegExp: "("}}
			s.Verifiers[0].Cosign.TransparencyLog = v1alpha1.Required
			s.Verifiers[0].Cosign.TrustRoot = &v1alpha1.Material{SecretRef: &v1alpha1.KeyReference{Name: "nowhere", Key: "a"}}
		}, "verifier builders: identity 1"},
		{"a regular expression beside a trust root", func(s *v1alpha1.ExecutorSpec) {
			s.Verifiers[0].Cosign.Identities = []v1alpha1.CosignIdentity{{Issuer: "https://a.test", SubjectRegExp: "("}}
			s.Verifiers[0].Cosign.TransparencyLog = v1alpha1.Required
			s.Verifiers[0].Cosign.TrustRoot = &v1alpha1.Material{Inline: trustRoot(t)}
		}, "verifier builders: identity 1"},
		{"an inline trust root", func(s *v1alpha1.ExecutorSpec) {
			s.Verifiers[0].Cosign.TransparencyLog = v1alpha1.Required
			s.Verifiers[0].Cosign.TrustRoot = &v1alpha1.Material{Inline: "{"}
		}, "verifier builders: trustRoot"},
		{"a policy", func(s *v1alpha1.ExecutorSpec) {
			s.Policy = &v1alpha1.Policy{Groups: []v1alpha1.PolicyGroup{{Name: "g", Min: 1, Of: []string{"builders"}}}}
		}, "policy: verifier release is in no group"},
		{"a verifier of no kind", func(s *v1alpha1.ExecutorSpec) { s.Verifiers[0].Cosign = nil }, "verifier builders: give it exactly one kind"},
		{"a store of no kind", func(s *v1alpha1.ExecutorSpec) { s.Stores[0].Registry = nil }, "store registry: give it exactly one kind"},
		{"an OCI layout that is not allowed", func(s *v1alpha1.ExecutorSpec) {
			s.Stores = []v1alpha1.Store{{Name: "mirror", OCILayout: &v1alpha1.OCILayoutStore{Path: "a"}}}
		}, "store mirror: ociLayout: no root for OCI layouts is given; set --oci-layout-root"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			spec := specOf()
			test.change(spec)
			for with, material := range map[string]Material{"what it names": materialOf(t), "nothing that it names": nil} {
				_, err := Compile("e", spec, material, "ns", tools())
				var faulty *SpecError
				if errors.As(err, &faulty) && len(faulty.Faults) == 1 {
					err = faulty.Faults[0]
				}
				if err == nil || !strings.HasPrefix(err.Error(), test.want) {
					t.Errorf("with %s: got %v, want %q", with, err, test.want)
				}
			}
		})
	}
}

func trustRoot(t *testing.T) string {
	t.Helper()
	sigstore, err := cosign.NewSigstore()
	if err != nil {
		t.Fatal(err)
	}
	root, err := sigstore.TrustRoot()
	if err != nil {
		t.Fatal(err)
	}
	return string(root)
}

// The inputs change with the spec and with what it trusts, and with nothing else.
func TestInputs(t *testing.T) {
	material := materialOf(t)
	made := func(spec *v1alpha1.ExecutorSpec) *Compiled {
		t.Helper()
		compiled, err := Compile("e", spec, material, "ns", tools())
		if err != nil {
			t.Fatal(err)
		}
		return compiled
	}
	of := func(spec *v1alpha1.ExecutorSpec) string { t.Helper(); return made(spec).Inputs() }
	first, key := of(specOf()), made(specOf()).key
	if again := of(specOf()); again != first || len(first) != 12 {
		t.Errorf("inputs %s, then %s", first, again)
	}
	material[Ref{Secret, "pull"}] = pull("another")
	material[Ref{Secret, "another"}] = Object{}
	if rotated := of(specOf()); rotated != first {
		t.Error("another password changes the inputs")
	}
	if made(specOf()).key == key {
		t.Error("what was said with the old password holds with the new one")
	}
	seen := map[string]string{first: "the first"}
	differs := func(name, inputs string) {
		t.Helper()
		if earlier, ok := seen[inputs]; ok {
			t.Errorf("%s has the inputs of %s", name, earlier)
		}
		seen[inputs] = name
	}
	spec := specOf()
	spec.Mode = v1alpha1.ModeAudit
	differs("another mode", of(spec))
	material[Ref{Secret, "keys"}].Data["a"] = []byte(newKey(t))
	differs("another key", of(specOf()))
	delete(material[Ref{Secret, "keys"}].Data, "a")
	differs("no key", of(specOf()))
	delete(material, Ref{ConfigMap, "ca"})
	differs("no certificate", of(specOf()))
}

// signing is a registry with signed images, and an Executor that trusts a key of a Secret.
type signing struct {
	t        *testing.T
	registry *testregistry.Registry
	key      *cosign.Key
}

func newSigning(t *testing.T) *signing {
	t.Helper()
	key, err := cosign.NewKey(cosign.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	return &signing{t, testregistry.Start(t), key}
}

// image pushes one, signed if a key is given.
func (s *signing) image(repository string, key *cosign.Key) image.Pinned {
	s.t.Helper()
	digest := s.registry.PushImage(s.t, repository, "latest")
	pinned := ref(s.t, s.registry.Reference(repository, "latest")).WithDigest(digest)
	if key == nil {
		return pinned
	}
	signature, err := (&cosign.Signer{Key: key}).Sign(cosign.Payload(pinned.Repository(), digest))
	if err != nil {
		s.t.Fatal(err)
	}
	artifact := cosign.Tagged(digest, signature)
	for _, blob := range artifact.Blobs {
		s.blob(repository, blob)
	}
	s.registry.PushManifest(s.t, repository, artifact.Tag, artifact.MediaType, string(artifact.Manifest))
	return pinned
}

func (s *signing) blob(repository string, blob cosign.Blob) {
	s.t.Helper()
	url := fmt.Sprintf("%s/v2/%s/blobs/uploads/?digest=%s", s.registry.URL(), repository, blob.Descriptor().Digest)
	response, err := http.Post(url, "application/octet-stream", bytes.NewReader(blob.Content))
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusCreated {
		s.t.Fatalf("push a blob: %s", response.Status)
	}
}

// serve compiles an Executor that trusts the keys of a Secret, if there are any.
func (s *signing) serve(name, scope string, keys ...string) *Served {
	s.t.Helper()
	spec := &v1alpha1.ExecutorSpec{VerificationSpec: byKeys(scope, "keys/0")}
	spec.Stores = []v1alpha1.Store{{Name: "registry", Registry: &v1alpha1.RegistryStore{RegistryAccess: v1alpha1.RegistryAccess{PlainHTTP: true}}}}
	material := Material{}
	for i, key := range keys {
		material[Ref{Secret, "keys"}] = Object{Data: map[string][]byte{fmt.Sprint(i): []byte(key)}}
	}
	reaching := Tools{Registry: registry.New(registry.Options{Reach: registry.Reach{Loopback: true}}), Clock: clock.RealClock{}}
	compiled, err := Compile(name, spec, material, "ns", reaching)
	if err != nil {
		s.t.Fatal(err)
	}
	served := serve(s.t, name, v1alpha1.Scope(scope))
	served.Compiled = compiled
	return served
}

// All who enforce must pass; what one of them cannot decide is decided by nobody, and what one refuses is refused.
func TestVerdicts(t *testing.T) {
	s := newSigning(t)
	signed, unsigned := s.image("team/signed", s.key), s.image("team/unsigned", nil)
	trusting := func(name string) *Served { return s.serve(name, "*", string(s.key.PublicPEM())) }
	tests := []struct {
		name    string
		served  []*Served
		image   image.Pinned
		state   State
		outcome verify.Outcome
		says    string
	}{
		{"nobody", nil, signed, Unmatched, verify.Undecided, "no Executor has " + signed.Repository() + " in scope"},
		{"one that passes", []*Served{trusting("a")}, signed, Matched, verify.Passed, "Executor a: signed by builders"},
		{"one that fails", []*Served{trusting("a")}, unsigned, Matched, verify.Failed, "Executor a: no signature by builders"},
		{"two that pass", []*Served{trusting("a"), trusting("b")}, signed, Matched, verify.Passed, "; Executor b: signed by builders"},
		{"one of two that fails", []*Served{trusting("a"), s.serve("b", "*", newKey(t))}, signed, Matched, verify.Failed, "Executor b: no signature by builders"},
		{"one of two without a build", []*Served{trusting("a"), serve(t, "b", "*").unbuilt()}, signed, Matched, verify.Undecided, "Executor b: cannot decide: it is not compiled"},
		{"one without a build, one that fails", []*Served{s.serve("a", "*", newKey(t)), serve(t, "b", "*").unbuilt()}, signed, Matched, verify.Failed, "Executor a: "},
		{"a key that is gone", []*Served{s.serve("a", "*")}, signed, Matched, verify.Failed, "verifier builders: key k1: Secret ns/keys not found"},
		{"audit alone", []*Served{trusting("a").audit()}, signed, Audited, verify.Undecided, "only Executors in mode Audit have"},
		{"audit that would fail beside one that passes", []*Served{trusting("a"), s.serve("b", "*", newKey(t)).audit()}, signed, Matched, verify.Passed, "Executor a: signed by builders"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			live, _ := newTestLive()
			live.Expect(nil)
			for _, served := range test.served {
				live.Put(served)
			}
			v := live.Match(test.image.Reference(), "").Verify(t.Context(), test.image)
			if v.State != test.state || v.Outcome != test.outcome || !strings.Contains(v.Message, test.says) || strings.Contains(v.Message, "\n") {
				t.Errorf("state %d, %v, %q; want state %d, %v, %q", v.State, v.Outcome, v.Message, test.state, test.outcome, test.says)
			}
			if len(v.Reports) != len(test.served) {
				t.Errorf("%d reports of %d Executors", len(v.Reports), len(test.served))
			}
		})
	}
}

// A replica that has not attempted everything says nothing, and one whose registry is away cannot decide.
func TestWhatCannotBeDecidedIsNotRefused(t *testing.T) {
	s := newSigning(t)
	signed := s.image("team/signed", s.key)
	live, _ := newTestLive()
	live.Put(s.serve("a", "*", string(s.key.PublicPEM())))
	if v := live.Match(signed.Reference(), "").Verify(t.Context(), signed); v.State != NotReady || v.Outcome != verify.Undecided || len(v.Reports) > 0 {
		t.Errorf("before it is ready: %+v", v)
	}
	live.Expect(nil)
	s.registry.Down()
	if v := live.Match(signed.Reference(), "").Verify(t.Context(), signed); v.State != Matched || v.Outcome != verify.Undecided {
		t.Errorf("without its registry: %v %s", v.Outcome, v.Message)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the caller gave up"))
	if v := live.Match(signed.Reference(), "").Verify(ctx, signed); v.Outcome != verify.Undecided {
		t.Errorf("given up: %v %s", v.Outcome, v.Message)
	}
}
