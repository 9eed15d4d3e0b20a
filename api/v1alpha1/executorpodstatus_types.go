package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ExecutorPodStatus says what one replica of Gatehouse serves of one Executor. Each replica writes its own, in
// Gatehouse's namespace, and nobody else does; the status of the Executor is made of them.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,path=executorpodstatuses,shortName=eps,categories=gatehouse
// +kubebuilder:printcolumn:name="Executor",type=string,JSONPath=`.spec.executor.name`
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.spec.executor.namespace`,priority=1
// +kubebuilder:printcolumn:name="Replica",type=string,JSONPath=`.spec.pod.name`
// +kubebuilder:printcolumn:name="Succeeded",type=boolean,JSONPath=`.status.succeeded`
// +kubebuilder:printcolumn:name="Serving",type=integer,JSONPath=`.status.servingGeneration`
// +kubebuilder:printcolumn:name="Inputs",type=string,JSONPath=`.status.inputs`
// +kubebuilder:printcolumn:name="Error",type=string,JSONPath=`.status.briefError`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ExecutorPodStatus struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Which Executor, and which replica.
	// +required
	Spec ExecutorPodStatusSpec `json:"spec"`
	// What the replica serves. Written by that replica alone.
	// +optional
	Status ExecutorPodStatusStatus `json:"status,omitempty"`
}

// ExecutorPodStatusList is a list of ExecutorPodStatuses.
//
// +kubebuilder:object:root=true
type ExecutorPodStatusList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ExecutorPodStatus `json:"items"`
}

// ExecutorPodStatusSpec is the identity of a report. It never changes: another Executor or another pod of the same name
// gets a report of its own.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec says whose report this is and cannot change; delete the report, and the replica makes its own anew"
type ExecutorPodStatusSpec struct {
	// What is reported on.
	// +required
	Executor ExecutorIdentity `json:"executor"`
	// Who reports.
	// +required
	Pod PodIdentity `json:"pod"`
}

// ExecutorIdentity is one Executor or NamespacedExecutor.
//
// +kubebuilder:validation:XValidation:rule="(self.kind == 'NamespacedExecutor') == (has(self.namespace) && size(self.namespace) > 0)",message="write a namespace for a NamespacedExecutor, and none for an Executor"
type ExecutorIdentity struct {
	// Executor or NamespacedExecutor.
	// +required
	Kind ExecutorKind `json:"kind"`
	// The NamespacedExecutor's namespace; empty for an Executor.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// Its name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Its UID: one that was created anew under the same name is another.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	UID types.UID `json:"uid"`
}

// ExecutorKind is one of the kinds that say how images are verified.
//
// +kubebuilder:validation:Enum=Executor;NamespacedExecutor
type ExecutorKind string

// The kinds of Executors.
const (
	KindExecutor           ExecutorKind = "Executor"
	KindNamespacedExecutor ExecutorKind = "NamespacedExecutor"
)

// PodIdentity is one pod in the namespace of the report.
type PodIdentity struct {
	// The pod's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// The pod's UID: one that comes back under the same name is another.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	UID types.UID `json:"uid"`
}

// ExecutorPodStatusStatus is what a replica serves of an Executor.
type ExecutorPodStatusStatus struct {
	// Which process of the pod says so: a container that was restarted is another.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Process string `json:"process,omitempty"`
	// The generation of the spec that was last attempted.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// The generation of the spec whose build answers now; 0 if none does.
	// +optional
	ServingGeneration int64 `json:"servingGeneration,omitempty"`
	// A hash of what answers now: the spec, and the keys and certificates that it trusts (never credentials).
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Inputs string `json:"inputs,omitempty"`
	// Whether the generation that was attempted is what answers, with all the keys and certificates it names.
	// +optional
	Succeeded bool `json:"succeeded"`
	// Why not, in a word: one of the reasons of an Executor's conditions.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?)?$')",message="write reason as one word, as MaterialMissing"
	Reason string `json:"reason,omitempty"`
	// Why not, in full: the field, what is wrong, and what to do.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Error string `json:"error,omitempty"`
	// Why not, in a line.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	BriefError string `json:"briefError,omitempty"`
	// When anything else of this status last changed.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self > timestamp('0001-01-01T00:00:00Z')",message="write lastTransitionTime as a time in RFC 3339: 2006-01-02T15:04:05Z"
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
}

// ReplicaCounts counts the replicas of Gatehouse by what they serve of an Executor.
type ReplicaCounts struct {
	// Replicas that serve requests: their pods are Ready.
	// +optional
	Expected int32 `json:"expected"`
	// Of these, those that have said what they serve.
	// +optional
	Reported int32 `json:"reported"`
	// Of these, those that serve the present generation and trust what the leader trusts.
	// +optional
	Ready int32 `json:"ready"`
	// Of those that reported, those that could not build the present generation.
	// +optional
	Failed int32 `json:"failed"`
	// Replicas besides: they start, or end, or their pods are not Ready. They change nothing else here.
	// +optional
	NotServing int32 `json:"notServing"`
	// Ready of expected, as 3/5.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Summary string `json:"summary,omitempty"`
}

// ReplicaStatus is what one replica that serves has made of an Executor.
type ReplicaStatus struct {
	// The name of the replica's pod.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ID string `json:"id"`
	// The UID of the replica's pod.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=63
	PodUID types.UID `json:"podUID,omitempty"`
	// The generation of the spec that the replica last attempted; 0 if it has not reported.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// The generation of the spec whose build answers there now; 0 if none does.
	// +optional
	ServingGeneration int64 `json:"servingGeneration,omitempty"`
	// A hash of what answers there: replicas with the same trust the same.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Inputs string `json:"inputs,omitempty"`
	// Whether the replica serves the present generation and what the leader trusts.
	// +optional
	Succeeded bool `json:"succeeded"`
	// Why not, in a line.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	BriefError string `json:"briefError,omitempty"`
	// When what the replica reports last changed.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self > timestamp('0001-01-01T00:00:00Z')",message="write lastTransitionTime as a time in RFC 3339: 2006-01-02T15:04:05Z"
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
}
