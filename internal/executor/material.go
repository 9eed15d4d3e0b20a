package executor

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// RefKind is a kind of object that holds keys, certificates or credentials.
type RefKind string

// The kinds.
const (
	Secret    RefKind = "Secret"
	ConfigMap RefKind = "ConfigMap"
)

// Ref names a Secret or a ConfigMap that a spec refers to.
type Ref struct {
	Kind RefKind
	Name string
}

// Object is what was read of one.
type Object struct {
	// Type is that of a Secret.
	Type corev1.SecretType
	// Data holds its keys; those that a spec does not name may be left out.
	Data map[string][]byte
	// Err is why it was not read, as it is said after its name: "not found; …". It is nil of what was.
	Err error
}

// Material is what the references of a spec name, read before so that compiling reads nothing. What is not in it
// certainly does not exist.
type Material map[Ref]Object

// keyRef is one key of an object.
type keyRef struct {
	Ref
	key string
}

// references are all keys that a spec names, sorted. They follow the spec alone, whether it is well-formed or not.
func references(spec *v1alpha1.ExecutorSpec) []keyRef {
	var found []keyRef
	add := func(m *v1alpha1.Material) {
		if m != nil && m.SecretRef != nil {
			found = append(found, keyRef{Ref{Secret, m.SecretRef.Name}, m.SecretRef.Key})
		}
		if m != nil && m.ConfigMapRef != nil {
			found = append(found, keyRef{Ref{ConfigMap, m.ConfigMapRef.Name}, m.ConfigMapRef.Key})
		}
	}
	for _, store := range spec.Stores {
		if store.Registry == nil {
			continue
		}
		if c := store.Registry.Credentials; c != nil {
			found = append(found, keyRef{Ref{Secret, c.SecretRef.Name}, corev1.DockerConfigJsonKey})
		}
		if c := store.Registry.CABundle; c != nil {
			found = append(found, keyRef{Ref{ConfigMap, c.ConfigMapRef.Name}, c.ConfigMapRef.Key})
		}
	}
	for i := range spec.Verifiers {
		if n := spec.Verifiers[i].Notation; n != nil {
			for j := range n.TrustStores {
				for k := range n.TrustStores[j].Certificates {
					add(&n.TrustStores[j].Certificates[k].Material)
				}
			}
		}
		if c := spec.Verifiers[i].Cosign; c != nil {
			for j := range c.Keys {
				add(&c.Keys[j].Material)
			}
			add(c.TrustRoot)
		}
	}
	slices.SortFunc(found, func(a, b keyRef) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.key, b.key))
	})
	return slices.Compact(found)
}

// References are the Secrets and ConfigMaps that a spec names, sorted.
func References(spec *v1alpha1.ExecutorSpec) []Ref {
	var refs []Ref
	for _, key := range references(spec) {
		refs = append(refs, key.Ref)
	}
	return slices.Compact(refs)
}
