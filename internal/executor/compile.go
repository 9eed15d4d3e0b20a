package executor

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/registry"
	"github.com/gatehouse-dev/gatehouse/internal/verify"
	"github.com/gatehouse-dev/gatehouse/internal/verify/notation"
	"github.com/gatehouse-dev/gatehouse/internal/verify/policy"
)

// Tools are what compiled Executors share.
type Tools struct {
	// Registry reaches the registries that signatures are in, and what certificates name to ask for their revocation.
	Registry *registry.Client
	// LayoutRoot is the folder that stores of kind ociLayout are under; empty allows none.
	LayoutRoot string
	// Revocations keeps what was learnt of revoked certificates; nil keeps it for each verifier apart.
	Revocations *notation.Cache
	// Clock says when certificates are valid; nil is the real one.
	Clock clock.PassiveClock
}

// Compiled is an Executor in its compiled form. It is immutable and safe for concurrent use.
type Compiled struct {
	engine *verify.Engine
	inputs string
	// key is the fingerprint of all that it was made of, credentials included: it is compared, and shown to nobody.
	key      string
	spec     *v1alpha1.ExecutorSpec
	material Material
	problems []error
	access   registry.Access
}

// Access says how the first of the stores that is a registry is reached; the zero value if none is.
func (c *Compiled) Access() registry.Access { return c.access }

// Engine verifies images.
func (c *Compiled) Engine() *verify.Engine { return c.engine }

// Inputs is a hash of the spec and of what it trusts, never of credentials. Two replicas with the same spec and other
// inputs trust something else.
func (c *Compiled) Inputs() string { return c.inputs }

// Problems are the things that the spec names and that are missing or malformed. What is missing vouches for nobody; the
// rest of the Executor is as it should be.
func (c *Compiled) Problems() []error { return slices.Clone(c.problems) }

// SpecError is why a spec does not compile. It tells all that is wrong, so that one more edit cures it.
type SpecError struct {
	// Faults are of the spec itself, Problems of what it names.
	Faults, Problems []error
}

func (e *SpecError) Error() string {
	return errors.Join(slices.Concat(e.Faults, e.Problems)...).Error()
}

// Compile makes an engine of a spec and of what it names. It reads nothing. Both are kept, and must not be modified.
//
// An error is a fault of the spec itself, which only another spec cures: a *SpecError, or one of the engine's. What a spec names and material does not have, or
// has in no form that can be read, is no error but one of the Problems: a key that is gone verifies nothing.
//
// Of where Secrets and ConfigMaps are, namespace is for messages alone; it may be empty.
func Compile(name string, spec *v1alpha1.ExecutorSpec, material Material, namespace string, tools Tools) (*Compiled, error) {
	c := &compiler{tools: tools, material: material, namespace: namespace, trusted: sha256.New()}
	writeJSON(c.trusted, spec)
	if _, err := ParseScopes(spec.Scopes); err != nil {
		c.fault(err)
	}
	config := verify.Config{Name: name, Mode: verify.Mode(spec.Mode)}
	stores := spec.Stores
	if len(stores) == 0 {
		stores = []v1alpha1.Store{{Name: "registry", Registry: &v1alpha1.RegistryStore{}}}
	}
	for i := range stores {
		config.Stores = append(config.Stores, c.store(&stores[i]))
	}
	for i := range spec.Verifiers {
		config.Verifiers = append(config.Verifiers, c.verifier(&spec.Verifiers[i]))
	}
	if spec.Policy != nil {
		for _, g := range spec.Policy.Groups {
			config.Policy = append(config.Policy, policy.Group{Name: g.Name, Min: int(g.Min), Of: g.Of})
		}
	}
	if len(c.faults) > 0 {
		return nil, &SpecError{Faults: c.faults, Problems: c.problems}
	}
	engine, err := verify.New(config)
	if err != nil {
		return nil, err
	}
	return &Compiled{
		engine:   engine,
		inputs:   hex.EncodeToString(c.trusted.Sum(nil))[:inputsLength],
		key:      fingerprint(spec, material),
		spec:     spec,
		material: material,
		problems: c.problems,
		access:   c.first,
	}, nil
}

// inputsLength is how much of the hash is shown: 48 bits, in hexadecimal digits.
const inputsLength = 12

// compiler collects what is wrong while it compiles one spec.
type compiler struct {
	tools     Tools
	material  Material
	namespace string
	trusted   hash.Hash
	faults    []error         // of the spec
	problems  []error         // of what it names
	first     registry.Access // of a registry store
	asked     bool            // there is one
}

func (c *compiler) fault(err error)   { c.faults = append(c.faults, err) }
func (c *compiler) problem(err error) { c.problems = append(c.problems, err) }

// trust takes something that decides who is trusted into the hash.
func (c *compiler) trust(what string, content []byte) {
	fmt.Fprintf(c.trusted, "%d:%s%d:", len(what), what, len(content))
	c.trusted.Write(content)
}

// store compiles one store. One whose credentials or authorities are missing is asked nothing: what it holds cannot be
// known.
func (c *compiler) store(s *v1alpha1.Store) verify.Store {
	if s.OCILayout != nil {
		layout, err := registry.OpenLayout(c.tools.LayoutRoot, s.OCILayout.Path)
		if err != nil {
			c.fault(fmt.Errorf("store %s: ociLayout: %w", s.Name, err))
			return verify.UnusableStore(s.Name, err)
		}
		return verify.LayoutStore(s.Name, layout, registry.SessionOptions{})
	}
	if s.Registry == nil {
		err := fmt.Errorf("store %s: give it exactly one kind: registry or ociLayout", s.Name)
		c.fault(err)
		return verify.UnusableStore(s.Name, err)
	}
	access, err := c.access(s.Registry)
	if err != nil {
		err = fmt.Errorf("store %s: %w", s.Name, err)
		c.problem(err)
		return verify.UnusableStore(s.Name, err)
	}
	if !c.asked {
		c.first, c.asked = access, true
	}
	options := registry.SessionOptions{}
	if s.Registry.Timeout != nil {
		options.Timeout = s.Registry.Timeout.Duration
	}
	return verify.RegistryStore(s.Name, c.tools.Registry, access, options)
}

func (c *compiler) access(s *v1alpha1.RegistryStore) (registry.Access, error) {
	access := registry.Access{PlainHTTP: s.PlainHTTP}
	if s.Credentials != nil {
		ref := Ref{Secret, s.Credentials.SecretRef.Name}
		secret, there := c.material[ref]
		switch {
		case there && secret.Err != nil:
			return access, fmt.Errorf("credentials: %s %w", c.describe(ref), secret.Err)
		case !there:
			return access, fmt.Errorf("credentials: %s not found; create it with the type %s", c.describe(ref), corev1.SecretTypeDockerConfigJson)
		case secret.Type != "" && secret.Type != corev1.SecretTypeDockerConfigJson:
			return access, fmt.Errorf("credentials: %s has the type %q; create it anew with the type %s", c.describe(ref), secret.Type, corev1.SecretTypeDockerConfigJson)
		}
		config, err := registry.ParseDockerConfig(secret.Data[corev1.DockerConfigJsonKey])
		if err != nil {
			return access, fmt.Errorf("credentials: %s is no use: %w", c.describe(ref), err)
		}
		access.Credentials = config
	}
	if s.CABundle != nil {
		named := s.CABundle.ConfigMapRef
		bundle, err := c.lookUp(Ref{ConfigMap, named.Name}, named.Key)
		c.trust("caBundle", bundle)
		if err != nil {
			return access, fmt.Errorf("caBundle: %w", err)
		}
		access.CABundle = bundle
	}
	if err := access.Validate(); err != nil {
		return access, err
	}
	return access, nil
}

// lookUp finds one key of what was read.
func (c *compiler) lookUp(ref Ref, key string) ([]byte, error) {
	object, there := c.material[ref]
	if !there {
		return nil, fmt.Errorf("%s not found; create it, or remove the reference", c.describe(ref))
	}
	if object.Err != nil {
		return nil, fmt.Errorf("%s %w", c.describe(ref), object.Err)
	}
	if content := object.Data[key]; len(content) > 0 {
		return content, nil
	}
	return nil, fmt.Errorf("%s has nothing under the key %q; put it there, or correct the reference", c.describe(ref), key)
}

func (c *compiler) describe(ref Ref) string {
	if c.namespace == "" {
		return fmt.Sprintf("%s %s", ref.Kind, ref.Name)
	}
	return fmt.Sprintf("%s %s/%s", ref.Kind, c.namespace, ref.Name)
}

// source finds a key, certificates or a trust root, and takes it into the hash, also that it is missing. Of what stands
// in the spec itself check decides whether the spec is at fault, of what it names whether that has a problem; without a
// check that is found out later. It returns nil for what is not to be had.
func (c *compiler) source(field string, m *v1alpha1.Material, check func([]byte) error) []byte {
	var content []byte
	var err error
	switch {
	case m.SecretRef != nil:
		content, err = c.lookUp(Ref{Secret, m.SecretRef.Name}, m.SecretRef.Key)
	case m.ConfigMapRef != nil:
		content, err = c.lookUp(Ref{ConfigMap, m.ConfigMapRef.Name}, m.ConfigMapRef.Key)
	case m.Inline != "":
		if check != nil {
			if err := check([]byte(m.Inline)); err != nil {
				c.fault(fmt.Errorf("%s: inline: %w", field, err))
				return nil
			}
		}
		return []byte(m.Inline) // the hash has it already, with the spec
	default:
		c.fault(fmt.Errorf("%s: give exactly one of inline, secretRef and configMapRef", field))
		return nil
	}
	c.trust(field, content)
	if err == nil && check != nil {
		if err = check(content); err != nil {
			err = fmt.Errorf("%s: %w", c.origin(m), err)
		}
	}
	if err != nil {
		c.problem(fmt.Errorf("%s: %w", field, err))
		return nil
	}
	return content
}

// origin names where a piece of material comes from.
func (c *compiler) origin(m *v1alpha1.Material) string {
	if m.SecretRef != nil {
		return fmt.Sprintf("%s, key %q", c.describe(Ref{Secret, m.SecretRef.Name}), m.SecretRef.Key)
	}
	return fmt.Sprintf("%s, key %q", c.describe(Ref{ConfigMap, m.ConfigMapRef.Name}), m.ConfigMapRef.Key)
}
