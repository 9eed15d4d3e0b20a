package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GatewayInstance is one gateway of one tenant. It follows a GatewayRelease, which says what image it runs and when it
// moves to another; everything else in its spec is the tenant's own and is applied at once.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas.desired,selectorpath=.status.selector
// +kubebuilder:resource:shortName=gwi,categories=gatehouse
// +kubebuilder:selectablefield:JSONPath=`.spec.releaseRef.name`
// +kubebuilder:printcolumn:name="Release",type=string,JSONPath=`.spec.releaseRef.name`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.replicas.summary`
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.status.shortImage`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$')",message="metadata.name: a gateway's name becomes that of its Service; use at most 63 of a-z, 0-9 and '-', starting with a letter"
type GatewayInstance struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What the tenant asks for.
	// +required
	Spec GatewayInstanceSpec `json:"spec"`
	// What runs. Written by Gatehouse alone.
	// +optional
	Status GatewayInstanceStatus `json:"status,omitempty"`
}

// GatewayInstanceList is a list of gateways.
//
// +kubebuilder:object:root=true
type GatewayInstanceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GatewayInstance `json:"items"`
}

// GatewayInstanceSpec is what a tenant asks of a gateway.
//
// +kubebuilder:validation:XValidation:rule="!has(self.volumes) || !has(self.config) || self.volumes.all(v, v.name != 'gatehouse-config')",message="volumes: the name gatehouse-config is taken by the gateway's own configuration; choose another"
type GatewayInstanceSpec struct {
	// The release that the gateway follows. Whoever sets it needs the verb "use" on that gatewayreleases name.
	// +required
	ReleaseRef ReleaseReference `json:"releaseRef"`

	// How many pods. Default 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Replicas *int32 `json:"replicas,omitempty"`

	// Files of the gateway's configuration, by file name, mounted where its profile says. A change rolls the pods.
	// No secrets here: reference them by env, envFrom or volumes.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(name, name.size() <= 253 && name.matches('^[-._a-zA-Z0-9]+$') && name != '.' && !name.startsWith('..'))",message="a file name is at most 253 of a-z, A-Z, 0-9, '-', '_' and '.', and does not begin with '..'"
	Config map[string]ConfigFile `json:"config,omitempty"`

	// Environment variables of the container "gateway".
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Env []EnvVar `json:"env,omitempty"`

	// Secrets and ConfigMaps of the tenant's namespace whose keys become environment variables.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	EnvFrom []EnvFrom `json:"envFrom,omitempty"`

	// Secrets and ConfigMaps of the tenant's namespace that are mounted into the container "gateway", read-only.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Volumes []Volume `json:"volumes,omitempty"`

	// Compute resources of the container "gateway"; omitted means those of the profile.
	// +optional
	Resources *Resources `json:"resources,omitempty"`
}

// ConfigFile is the content of one configuration file.
//
// +kubebuilder:validation:MaxLength=262144
type ConfigFile string

// ReleaseReference names a GatewayRelease.
type ReleaseReference struct {
	// The release's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-.a-z0-9]*[a-z0-9])?)?$')",message="write the name of a GatewayRelease: a-z, 0-9, '-' and '.', with a letter or a digit at both ends"
	Name string `json:"name"`
}

// EnvVar is an environment variable: exactly one of value, secretKeyRef and configMapKeyRef.
//
// +kubebuilder:validation:XValidation:rule="[has(self.value), has(self.secretKeyRef), has(self.configMapKeyRef)].filter(x, x).size() == 1",message="set exactly one of value, secretKeyRef and configMapKeyRef"
type EnvVar struct {
	// The variable's name.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z][-._a-zA-Z0-9]*$`
	Name string `json:"name"`
	// Its value, in plain sight. It is not expanded.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Value *string `json:"value,omitempty"`
	// A key of a Secret in the tenant's namespace.
	// +optional
	SecretKeyRef *KeyReference `json:"secretKeyRef,omitempty"`
	// A key of a ConfigMap in the tenant's namespace.
	// +optional
	ConfigMapKeyRef *KeyReference `json:"configMapKeyRef,omitempty"`
}

// EnvFrom is a source of environment variables: exactly one of secretRef and configMapRef.
//
// +kubebuilder:validation:XValidation:rule="has(self.secretRef) != has(self.configMapRef)",message="set exactly one of secretRef and configMapRef"
type EnvFrom struct {
	// A Secret in the tenant's namespace.
	// +optional
	SecretRef *LocalObjectReference `json:"secretRef,omitempty"`
	// A ConfigMap in the tenant's namespace.
	// +optional
	ConfigMapRef *LocalObjectReference `json:"configMapRef,omitempty"`
	// Put before each key.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z][-._a-zA-Z0-9]*$`
	Prefix string `json:"prefix,omitempty"`
}

// Volume is a mounted Secret or ConfigMap: exactly one of secretRef and configMapRef.
//
// +kubebuilder:validation:XValidation:rule="has(self.secretRef) != has(self.configMapRef)",message="set exactly one of secretRef and configMapRef"
type Volume struct {
	// The volume's name, unique in the pod.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// Where it is mounted: an absolute path.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/[^:]+$`
	MountPath string `json:"mountPath"`
	// A Secret in the tenant's namespace.
	// +optional
	SecretRef *LocalObjectReference `json:"secretRef,omitempty"`
	// A ConfigMap in the tenant's namespace.
	// +optional
	ConfigMapRef *LocalObjectReference `json:"configMapRef,omitempty"`
}

// Resources are compute resources of a container.
//
// The pattern that is made for quantities admits some that Kubernetes cannot read, as 1e1.5, and exponents of any
// length. One such gateway would keep all others from being read, so the API server parses them before it takes them.
type Resources struct {
	// What is reserved.
	// +optional
	// +kubebuilder:validation:MaxProperties=8
	// +kubebuilder:validation:XValidation:rule="self.all(name, type(self[name]) == int || isQuantity(self[name]))",message="write quantities as in a container's resources: cpu: 250m, memory: 64Mi"
	// +kubebuilder:validation:XValidation:rule=`self.all(name, type(self[name]) == int || !self[name].matches(r'[eE].?\d{3}'))`,message="write quantities as in a container's resources: cpu: 250m, memory: 64Mi"
	Requests corev1.ResourceList `json:"requests,omitempty"`
	// What is allowed at most.
	// +optional
	// +kubebuilder:validation:MaxProperties=8
	// +kubebuilder:validation:XValidation:rule="self.all(name, type(self[name]) == int || isQuantity(self[name]))",message="write quantities as in a container's resources: cpu: 250m, memory: 64Mi"
	// +kubebuilder:validation:XValidation:rule=`self.all(name, type(self[name]) == int || !self[name].matches(r'[eE].?\d{3}'))`,message="write quantities as in a container's resources: cpu: 250m, memory: 64Mi"
	Limits corev1.ResourceList `json:"limits,omitempty"`
}

// GatewayPhase is a gateway's state in one word, for people only: no controller reads it.
//
// +kubebuilder:validation:Enum=Pending;Provisioning;Running;Degraded;Failed
type GatewayPhase string

// The phases of a gateway.
const (
	// GatewayPending has not been given a revision yet.
	GatewayPending GatewayPhase = "Pending"
	// GatewayProvisioning is moving onto what it was given.
	GatewayProvisioning GatewayPhase = "Provisioning"
	// GatewayRunning runs what it was given.
	GatewayRunning GatewayPhase = "Running"
	// GatewayDegraded runs what it was given, but not all its replicas are available.
	GatewayDegraded GatewayPhase = "Degraded"
	// GatewayFailed cannot get further without a person.
	GatewayFailed GatewayPhase = "Failed"
)

// GatewayInstanceStatus is what was made of a gateway.
type GatewayInstanceStatus struct {
	// The generation of the spec that this status was computed from.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Pending, Provisioning, Running, Degraded or Failed.
	// +optional
	Phase GatewayPhase `json:"phase,omitempty"`
	// What the gateway was given and has recorded before anything moved; kept until the window gives it another.
	// +optional
	Revision *RecordedRevision `json:"revision,omitempty"`
	// The image that runs, as observed: repository@digest.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image,omitempty"`
	// The same for people: the last part of the repository and the first twelve characters of the digest.
	// +optional
	// +kubebuilder:validation:MaxLength=300
	ShortImage string `json:"shortImage,omitempty"`
	// The gateway's pods in numbers.
	// +optional
	Replicas *GatewayReplicas `json:"replicas,omitempty"`
	// The label selector of the gateway's pods, for the scale subresource.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Selector string `json:"selector,omitempty"`
	// The owned objects as they were after the last apply. One that differs has drifted.
	// +optional
	// +listType=map
	// +listMapKey=kind
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Applied []AppliedObject `json:"applied,omitempty"`
	// Ready, and Reconciling and Stalled while they are true.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(c, c.lastTransitionTime > timestamp('0001-01-01T00:00:00Z'))",message="write lastTransitionTime as a time in RFC 3339: 2006-01-02T15:04:05Z"
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// RecordedRevision is the revision that a gateway was given.
type RecordedRevision struct {
	// The release that gave it.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Release string `json:"release"`
	// The attempt in which it was given.
	// +optional
	Attempt int64 `json:"attempt"`
	// The revision's name.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// The revision's image, as repository@digest.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image"`
	// Whether the gateway was Ready, or served, on the last completed revision before the window gave it this one; carried from
	// attempt to attempt until a rollout completes.
	// +optional
	WasReady bool `json:"wasReady,omitempty"`
	// Whether the gateway ran nothing when the window gave it this one.
	// +optional
	Install bool `json:"install,omitempty"`
}

// GatewayReplicas counts a gateway's pods.
type GatewayReplicas struct {
	// How many there should be.
	// +optional
	Desired int32 `json:"desired"`
	// How many run the recorded revision and the present configuration.
	// +optional
	Updated int32 `json:"updated"`
	// How many are available.
	// +optional
	Ready int32 `json:"ready"`
	// Ready of desired, for people: "1/1".
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Summary string `json:"summary,omitempty"`
}

// AppliedObject is the mark of an owned object after the last apply.
type AppliedObject struct {
	// The object's kind.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// The object's name; its namespace is the gateway's.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// The object's UID and generation, or a hash of its content for kinds that have no generation.
	// +required
	// +kubebuilder:validation:MaxLength=128
	Mark string `json:"mark"`
}
