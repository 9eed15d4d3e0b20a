// Package v1alpha1 holds the kinds of gatehouse.dev/v1alpha1.
//
// The types are the product's interface: their documentation is what `kubectl explain` prints, their CEL rules are
// what refuses nonsense at admission, and their condition and reason constants are the vocabulary of every status,
// event and metric. The package decides nothing and imports no other room.
//
// +kubebuilder:object:generate=true
// +groupName=gatehouse.dev
package v1alpha1
