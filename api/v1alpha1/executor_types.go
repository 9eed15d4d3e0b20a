package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Executor says how images are verified by their signatures: which images, where signatures are found, who must have
// signed, and what is enough. Every replica of Gatehouse compiles every Executor and verifies from memory. An image is
// verified by the Executor with the most specific scope that it is in.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=exe,categories=gatehouse
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.replicas.summary`
// +kubebuilder:printcolumn:name="Generation",type=integer,JSONPath=`.status.observedGeneration`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`,priority=1
// +kubebuilder:printcolumn:name="Error",type=string,JSONPath=`.status.briefError`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Executor struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Which images are verified, and how.
	// +required
	Spec ExecutorSpec `json:"spec"`
	// What became of it. Written by Gatehouse alone.
	// +optional
	Status ExecutorStatus `json:"status,omitempty"`
}

// ExecutorList is a list of Executors.
//
// +kubebuilder:object:root=true
type ExecutorList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Executor `json:"items"`
}

// NamespacedExecutor is a tenant's own Executor, for what runs in its namespace. An image must pass the cluster's
// Executor as well, unless that one says tenancy: Delegate.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=nexe,categories=gatehouse
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.replicas.summary`
// +kubebuilder:printcolumn:name="Generation",type=integer,JSONPath=`.status.observedGeneration`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`,priority=1
// +kubebuilder:printcolumn:name="Error",type=string,JSONPath=`.status.briefError`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NamespacedExecutor struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Which images are verified, and how.
	// +required
	Spec NamespacedExecutorSpec `json:"spec"`
	// What became of it. Written by Gatehouse alone.
	// +optional
	Status ExecutorStatus `json:"status,omitempty"`
}

// NamespacedExecutorList is a list of NamespacedExecutors.
//
// +kubebuilder:object:root=true
type NamespacedExecutorList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NamespacedExecutor `json:"items"`
}

// ExecutorSpec is what a person asks of an Executor.
type ExecutorSpec struct {
	VerificationSpec `json:",inline"`

	// Where signatures are found; tried in order. Default: the image's own registry, anonymously.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:default={{name: "registry", registry: {}}}
	Stores []Store `json:"stores,omitempty"`

	// What NamespacedExecutors that match an image may do in their namespace. Add: an image must pass them and this one.
	// Delegate: they replace this one. Default Add.
	// +optional
	// +kubebuilder:default=Add
	Tenancy Tenancy `json:"tenancy,omitempty"`
}

// NamespacedExecutorSpec is what a tenant asks of a NamespacedExecutor.
type NamespacedExecutorSpec struct {
	VerificationSpec `json:",inline"`

	// Where signatures are found; tried in order. Default: the image's own registry, anonymously.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:default={{name: "registry", registry: {}}}
	Stores []NamespacedStore `json:"stores,omitempty"`
}

// ExecutorSpec is the spec in the form that both kinds share.
func (s *NamespacedExecutorSpec) ExecutorSpec() ExecutorSpec {
	shared := ExecutorSpec{VerificationSpec: *s.VerificationSpec.DeepCopy()}
	for _, store := range s.Stores {
		shared.Stores = append(shared.Stores, Store{Name: store.Name, Registry: store.Registry.DeepCopy()})
	}
	return shared
}

// VerificationSpec is what Executor and NamespacedExecutor have in common.
//
// +kubebuilder:validation:XValidation:rule="!has(self.policy) || self.policy.groups.all(g, !self.verifiers.exists(v, v.name == g.name))",message="policy.groups: a group has the name of a verifier, and members could mean either; rename the group"
// +kubebuilder:validation:XValidation:rule="!has(self.policy) || self.policy.groups.all(g, g.of.all(m, self.verifiers.exists(v, v.name == m) || self.policy.groups.exists(e, e.name == m)))",message="policy.groups: a member is neither a verifier nor a group; write the name of one of spec.verifiers, or of an earlier group"
// +kubebuilder:validation:XValidation:rule="!has(self.policy) || self.verifiers.all(v, self.policy.groups.exists(g, v.name in g.of))",message="policy.groups: a verifier is in no group and would decide nothing; make it a member of a group, or remove it"
type VerificationSpec struct {
	// Which images: registry.example.com/team/app is one repository, registry.example.com/team/* all below a path,
	// *.example.com all registries of a domain, * everything. The most specific scope over all Executors wins. A port is
	// part of the registry's name.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Scopes []Scope `json:"scopes"`

	// Who must have signed.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Verifiers []Verifier `json:"verifiers"`

	// How many of the verifiers are enough. Omitted: every one of them must pass.
	// +optional
	Policy *Policy `json:"policy,omitempty"`

	// Enforce, or Audit: report the truth, enforce nothing, and satisfy nothing. Default Enforce.
	// +optional
	// +kubebuilder:default=Enforce
	Mode Mode `json:"mode,omitempty"`

	// How often keys, certificates and credentials are read again, besides whenever they change. Default 1h.
	// +optional
	// +kubebuilder:default="1h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=24
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('10s') && duration(self) <= duration('168h')",message="write a duration from 10s to 168h in h, m and s, as 10m or 24h"
	RefreshInterval *metav1.Duration `json:"refreshInterval,omitempty"`

	// How long the last build may serve while its keys or certificates cannot be read. One that is certainly gone is
	// withdrawn at once. Default 24h.
	// +optional
	// +kubebuilder:default="24h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=24
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|([0-9]+([.][0-9]+)?(ms|s|m|h))+)$') && duration(self) >= duration('0s') && duration(self) <= duration('720h')",message="write a duration from 0s to 720h in h, m and s, as 30m or 24h"
	MaxStale *metav1.Duration `json:"maxStale,omitempty"`
}

// Scope names repositories.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=320
// +kubebuilder:validation:XValidation:rule="self == '*' || self.matches('^([*][.][a-zA-Z0-9_]+([-a-zA-Z0-9_]*[a-zA-Z0-9_])?([.][a-zA-Z0-9_]+([-a-zA-Z0-9_]*[a-zA-Z0-9_])?)*(:[0-9]{1,5})?)$') || self.matches('^(\\\\[[0-9a-fA-F:.]+\\\\]|[a-zA-Z0-9_]([-a-zA-Z0-9_]*[a-zA-Z0-9_])?([.][a-zA-Z0-9_]([-a-zA-Z0-9_]*[a-zA-Z0-9_])?)*)(:[0-9]{1,5})?(/[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*)*/([*]|[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*)$')",message="write a repository as registry.example.com/team/app (without scheme, tag or digest, the path in lower case), everything below a path as registry.example.com/team/*, the registries of a domain as *.example.com, or * for everything"
// +kubebuilder:validation:XValidation:rule="!self.contains('/') || self.matches('^[^/]*[.:]') || self.startsWith('localhost/')",message="begin a scope with its registry, as docker.io/library/nginx: short names are not completed here"
// +kubebuilder:validation:XValidation:rule="!self.matches(':[0-9]+(/|$)') || self.matches(':0*([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])(/|$)')",message="the port of a scope is between 1 and 65535: write that of the registry, or leave it out"
// +kubebuilder:validation:XValidation:rule="!self.matches('^([*][.])?([-a-zA-Z0-9_]+[.])*([0-9]+|0[xX][0-9a-fA-F]*)(:[0-9]+)?(/|$)') || self.matches('^((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])[.]){3}(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])(:[0-9]+)?/')",message="a registry that ends in a number is an address of four decimal numbers, as 10.0.0.5:5000/team/app, without leading zeros: programs disagree where others lead"
// +kubebuilder:validation:XValidation:rule="!self.startsWith('[') || self.matches('^.[^]]*:') && isIP(self.substring(1, self.indexOf(']')))",message="write an IPv6 address in brackets, as [fd00::1]:5000/team/app, and an IPv4 address as 10.0.0.5:5000/team/app"
type Scope string

// Mode says whether an Executor's verdicts count.
//
// +kubebuilder:validation:Enum=Enforce;Audit
type Mode string

// The modes.
const (
	ModeEnforce Mode = "Enforce"
	ModeAudit   Mode = "Audit"
)

// Tenancy says what NamespacedExecutors may do to an Executor in their namespace.
//
// +kubebuilder:validation:Enum=Add;Delegate
type Tenancy string

// The tenancies.
const (
	TenancyAdd      Tenancy = "Add"
	TenancyDelegate Tenancy = "Delegate"
)

// ExecutorStatus is what became of an Executor.
type ExecutorStatus struct {
	// The generation of the spec that was last attempted.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Whether that generation is what answers now, with all the keys and certificates it names.
	// +optional
	Succeeded bool `json:"succeeded"`
	// Why not, in full: the field, what is wrong, and what to do.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Error string `json:"error,omitempty"`
	// Why not, in a line.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	BriefError string `json:"briefError,omitempty"`
	// How many replicas of Gatehouse serve it. Out of a cluster it is the one process.
	// +optional
	Replicas ReplicaCounts `json:"replicas,omitzero"`
	// Replica by replica, what those that serve have made of it: those with trouble first, at most 100. The counts are
	// of all. Empty when Gatehouse runs out of a cluster.
	// +optional
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=100
	ByPod []ReplicaStatus `json:"byPod,omitempty"`
	// Ready, and Reconciling and Stalled while they are true.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(c, c.lastTransitionTime > timestamp('0001-01-01T00:00:00Z'))",message="write lastTransitionTime as a time in RFC 3339: 2006-01-02T15:04:05Z"
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
