package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// GatewayRelease says what a fleet of gateways runs: an image, and the profile that says how this version is run.
// Every GatewayInstance that references it is moved onto the image's digest under the budget of spec.rollout.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=gwr,categories=gatehouse
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.summary`
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.status.image`
// +kubebuilder:printcolumn:name="Updated",type=integer,JSONPath=`.status.rollout.fleet.updated`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.rollout.fleet.ready`
// +kubebuilder:printcolumn:name="Total",type=integer,JSONPath=`.status.rollout.fleet.total`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name: a release's name becomes a label; use at most 63 characters"
type GatewayRelease struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What the fleet should run and how it gets there.
	// +required
	Spec GatewayReleaseSpec `json:"spec"`
	// What was made of it. Written by Gatehouse alone.
	// +optional
	Status GatewayReleaseStatus `json:"status,omitempty"`
}

// GatewayReleaseList is a list of releases.
//
// +kubebuilder:object:root=true
type GatewayReleaseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GatewayRelease `json:"items"`
}

// Verification says what a release requires of the signatures of its images.
//
// +kubebuilder:validation:Enum=Required;IfConfigured;Disabled
type Verification string

const (
	// VerificationRequired gives no gateway an image that no Executor has in scope, or that does not pass one that has.
	VerificationRequired Verification = "Required"
	// VerificationIfConfigured gives no gateway an image that does not pass an Executor that has it in scope.
	VerificationIfConfigured Verification = "IfConfigured"
	// VerificationDisabled asks for no signature.
	VerificationDisabled Verification = "Disabled"
)

// GatewayReleaseSpec is what a person asks of a release.
type GatewayReleaseSpec struct {
	// The image, with an explicit tag or digest: registry.example.com/gateways/openshell:1.4.2. Short names are
	// completed as Docker does. A malformed image moves nothing: status.summary says "Invalid: …".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image"`

	// The GatewayProfile that says how this image is run. A change of the profile's content moves through the fleet
	// like a change of the image.
	// +required
	ProfileRef ProfileReference `json:"profileRef"`

	// What is required of the signatures of every image: the release's, and those of the profile's template. Required: an
	// Executor has it in scope, and it passes. IfConfigured: it passes, if an Executor has it in scope. Disabled: nothing.
	// What does not verify any more, because an Executor, its keys or its scopes have changed, is given to no further
	// gateway; what runs keeps running. Default Required.
	// +optional
	// +kubebuilder:default=Required
	Verification Verification `json:"verification,omitempty"`

	// How the registry is reached to resolve the image.
	// +optional
	Registry *RegistryAccess `json:"registry,omitempty"`

	// How often a tag is resolved again; a tag that has moved becomes a new revision. 0s resolves once per generation.
	// +optional
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=24
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|([0-9]+([.][0-9]+)?(ms|s|m|h))+)$') && (duration(self) == duration('0s') || (duration(self) >= duration('1s') && duration(self) <= duration('168h')))",message="write a duration from 1s to 168h in h, m and s, as 10m or 24h, or 0s to resolve once per generation"
	ResolveInterval *metav1.Duration `json:"resolveInterval,omitempty"`

	// How the fleet moves from one revision to the next.
	// +optional
	// +kubebuilder:default={}
	Rollout RolloutSpec `json:"rollout,omitempty"`

	// How many revisions that nothing uses any more are kept for going back. Default 10.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
}

// ProfileReference names a GatewayProfile.
type ProfileReference struct {
	// The profile's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// RegistryAccess says how a registry is reached. Secrets and ConfigMaps of cluster kinds are in Gatehouse's own
// namespace, those of namespaced kinds in theirs.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.plainHTTP) && self.plainHTTP && has(self.credentials))",message="credentials are never sent over plain HTTP: remove credentials, or set plainHTTP to false"
// +kubebuilder:validation:XValidation:rule="!(has(self.plainHTTP) && self.plainHTTP && has(self.caBundle))",message="plain HTTP has no certificate to check: remove caBundle, or set plainHTTP to false"
type RegistryAccess struct {
	// Credentials for the registry. Omitted means anonymous.
	// +optional
	Credentials *RegistryCredentials `json:"credentials,omitempty"`
	// Certificate authorities to trust in addition to the system's.
	// +optional
	CABundle *CABundle `json:"caBundle,omitempty"`
	// Reach the registry without TLS. Refused together with credentials.
	// +optional
	PlainHTTP bool `json:"plainHTTP,omitempty"`
}

// RegistryCredentials says where credentials are found.
type RegistryCredentials struct {
	// A Secret of type kubernetes.io/dockerconfigjson in Gatehouse's namespace, or of a NamespacedExecutor in its own.
	// +required
	SecretRef LocalObjectReference `json:"secretRef"`
}

// CABundle says where certificate authorities are found.
type CABundle struct {
	// A key of a ConfigMap in Gatehouse's namespace, or of a NamespacedExecutor in its own, that holds PEM certificates.
	// +required
	ConfigMapRef KeyReference `json:"configMapRef"`
}

// LocalObjectReference names an object in a namespace that is given by where the reference stands.
type LocalObjectReference struct {
	// The object's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// KeyReference names a key of an object.
type KeyReference struct {
	// The object's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// The key in its data.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$') && self != '.' && !self.startsWith('..')",message="write a key of a-z, A-Z, 0-9, '-', '_' and '.', that does not begin with '..'"
	Key string `json:"key"`
}

// RolloutSpec is how a fleet moves: never more than maxUnavailable gateways are under way at once, and the rollout
// stops when more than maxFailures of them did not come back.
//
// +kubebuilder:validation:XValidation:rule="!has(self.progressDeadline) || !has(self.minReadySeconds) || !self.progressDeadline.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') || duration(self.progressDeadline).getSeconds() > self.minReadySeconds",message="progressDeadline must be longer than minReadySeconds, or no gateway could ever converge in time"
type RolloutSpec struct {
	// How many gateways of the fleet may be under way at once: a count of at least 1, or a percentage of the fleet
	// from 1% to 100%, rounded down but at least one. Never more than 500. Default 10%.
	// +optional
	// +kubebuilder:default="10%"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 && self <= 1000000 : self.matches('^([1-9][0-9]?|100)%$')",message="write a count from 1 to 1000000, or a percentage from 1% to 100%; to stop a rollout set paused"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// How long, in seconds, a gateway must have been Ready on its new revision before it counts as converged. Default 30.
	// +optional
	// +kubebuilder:default=30
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`
	// How long after its admission a gateway may take to converge before it counts as failed. Default 10m.
	// +optional
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=24
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="write a duration from 1s to 24h in h, m and s, as 90s or 10m"
	ProgressDeadline *metav1.Duration `json:"progressDeadline,omitempty"`
	// How many gateways may fail before nothing more is admitted: a count, or a percentage of the fleet, rounded down.
	// Default 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 1000000 : self.matches('^([0-9]|[1-9][0-9]|100)%$')",message="write a count from 0 to 1000000, or a percentage from 0% to 100%"
	MaxFailures *intstr.IntOrString `json:"maxFailures,omitempty"`
	// Admit no further gateway. Those under way go on.
	// +optional
	Paused bool `json:"paused,omitempty"`
}

// GatewayReleaseStatus is what was made of a release.
type GatewayReleaseStatus struct {
	// The generation of the spec that this status was computed from.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// In one line: "Available", or "Invalid: <reason>", or "Unverified: <reason>"; "Resolving" or "Verifying" only before
	// the first verdict of a generation, followed by ": <reason>" while that cannot be reached.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Summary string `json:"summary,omitempty"`
	// What spec.image names in the generation that the condition Resolved is about, as repository@digest, whether it is
	// accepted or not. It is empty until that is known.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	ResolvedImage string `json:"resolvedImage,omitempty"`
	// The image of the accepted revision, as repository@digest. It is kept when a later spec is invalid.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image,omitempty"`
	// The name of the accepted revision.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Revision string `json:"revision,omitempty"`
	// Where the fleet is on its way.
	// +optional
	Rollout *RolloutStatus `json:"rollout,omitempty"`
	// Accepted, Resolved, Verified unless verification is Disabled, Ready, and Reconciling and Stalled while they are true.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(c, c.lastTransitionTime > timestamp('0001-01-01T00:00:00Z'))",message="write lastTransitionTime as a time in RFC 3339: 2006-01-02T15:04:05Z"
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// RolloutState is where a rollout stands.
//
// +kubebuilder:validation:Enum=Progressing;Paused;Failed;Complete
type RolloutState string

// The states of a rollout.
const (
	RolloutProgressing RolloutState = "Progressing"
	RolloutPaused      RolloutState = "Paused"
	RolloutFailed      RolloutState = "Failed"
	RolloutComplete    RolloutState = "Complete"
)

// RolloutStatus is the window of a rollout over its fleet. Gateways read it to learn what they may take.
type RolloutStatus struct {
	// The number of the present run. It never repeats in the life of a release.
	// +optional
	Attempt int64 `json:"attempt,omitempty"`
	// The revision that the fleet is moving to.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Target string `json:"target,omitempty"`
	// The last completed revision: what a new gateway gets, and what one goes back to.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Stable string `json:"stable,omitempty"`
	// The attempt that completed stable.
	// +optional
	StableAttempt int64 `json:"stableAttempt,omitempty"`
	// When stable completed. A gateway that has been unready since before is a failure of its attempt; one that became
	// unready later is not.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self > timestamp('0001-01-01T00:00:00Z')",message="write a time in RFC 3339: 2006-01-02T15:04:05Z"
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`
	// Progressing, Paused, Failed or Complete.
	// +optional
	State RolloutState `json:"state,omitempty"`
	// What is awaited, or who failed and why, in one sentence.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// The fleet in numbers.
	// +optional
	Fleet FleetStatus `json:"fleet,omitempty"`
	// The resource version up to which the fleet had been seen when this was written. A planner whose cache is behind it
	// decides nothing.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	FleetVersion string `json:"fleetVersion,omitempty"`
	// Those of target and stable that do not verify, or of which that cannot be decided: no further gateway is given
	// them, not even one in the window that has not recorded its attempt yet. What runs them already runs on.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:MaxLength=253
	Withheld []string `json:"withheld,omitempty"`
	// The window: the gateways that are admitted and under way.
	// +optional
	// +listType=map
	// +listMapKey=uid
	// +kubebuilder:validation:MaxItems=500
	InFlight []InFlightGateway `json:"inFlight,omitempty"`
}

// FleetStatus counts the gateways of a release.
type FleetStatus struct {
	// All gateways that reference the release.
	// +optional
	Total int32 `json:"total"`
	// Those that have been given the target, less those to which it could not be applied.
	// +optional
	Updated int32 `json:"updated"`
	// Those that are Ready, on whatever revision.
	// +optional
	Ready int32 `json:"ready"`
	// Those that failed in the present attempt.
	// +optional
	Failed int32 `json:"failed"`
	// Those whose replicas were not available on the last completed revision already: no failure of the new one.
	// +optional
	AlreadyUnready int32 `json:"alreadyUnready"`
}

// InFlightGateway is a gateway in the window.
type InFlightGateway struct {
	// The gateway's UID.
	// +required
	UID types.UID `json:"uid"`
	// The gateway's namespace.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// The gateway's name.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// The attempt that it is to take and report.
	// +required
	Attempt int64 `json:"attempt"`
	// The gateway's generation as it was seen. One that has been edited since, and so may have left the release and come
	// back, takes nothing until it has been admitted again.
	// +optional
	Generation int64 `json:"generation,omitempty"`
	// When it was admitted to this attempt.
	// +required
	// +kubebuilder:validation:XValidation:rule="self > timestamp('0001-01-01T00:00:00Z')",message="write a time in RFC 3339: 2006-01-02T15:04:05Z"
	AdmittedAt metav1.Time `json:"admittedAt"`
	// Whether it was Ready, or served, on the last completed revision before it was admitted: it uses the budget, and not coming
	// back is a failure.
	// +optional
	WasReady bool `json:"wasReady"`
	// Whether it ran nothing before: it uses no budget, and not coming up is a failure.
	// +optional
	Install bool `json:"install,omitempty"`
}
