package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// GatewayProfile says how a make of gateway is run: its pod template, ports, network policy and roles. It is part of
// the revision of every release that references it, so an edit moves through their fleets like a new image.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=gwp,categories=gatehouse
// +kubebuilder:printcolumn:name="Config",type=string,JSONPath=`.spec.config.mountPath`
// +kubebuilder:printcolumn:name="Ports",type=string,JSONPath=`.spec.ports[*].port`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type GatewayProfile struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// How gateways of this make are run.
	// +required
	Spec GatewayProfileSpec `json:"spec"`
}

// GatewayProfileList is a list of profiles.
//
// +kubebuilder:object:root=true
type GatewayProfileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GatewayProfile `json:"items"`
}

// GatewayProfileSpec is how gateways of one make are run.
type GatewayProfileSpec struct {
	// The pod template, as in a Deployment. The container named "gateway" gets the release's image and must not name
	// one; every other image in it is pinned by digest. Decoded strictly: an unknown field makes the releases that use
	// the profile Invalid, and the error names it.
	// +required
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Template runtime.RawExtension `json:"template"`

	// Where the files of a gateway's spec.config are mounted.
	// +optional
	Config *ConfigMount `json:"config,omitempty"`

	// The ports of the gateway's Service. Omitted means no Service.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=24
	Ports []ServicePort `json:"ports,omitempty"`

	// What may reach the gateway's pods and what they may reach. Omitted means no NetworkPolicy.
	// +optional
	NetworkPolicy *NetworkPolicy `json:"networkPolicy,omitempty"`

	// The gateway's ServiceAccount; every gateway has its own.
	// +optional
	ServiceAccount *ServiceAccount `json:"serviceAccount,omitempty"`

	// Existing ClusterRoles to bind to the gateway's ServiceAccount in its own namespace. Gatehouse must hold the verb
	// "bind" on them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	ClusterRoles []string `json:"clusterRoles,omitempty"`

	// The namespaces whose gateways may run by this profile. Omitted means all. It is no part of a revision: a change
	// applies at once, to what gateways may take, and stops nothing that runs.
	// +optional
	AllowedNamespaces *AllowedNamespaces `json:"allowedNamespaces,omitempty"`
}

// ConfigMount says where configuration files are mounted.
type ConfigMount struct {
	// The folder, an absolute path; the files of spec.config appear in it, read-only.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/[^:]+$`
	MountPath string `json:"mountPath"`
}

// ServicePort is a port of the gateway's Service.
type ServicePort struct {
	// The port's name.
	// +required
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// The port that the Service listens on.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`
	// The pods' port, by number or by name. Default: port.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string || (self >= 1 && self <= 65535)",message="write a port from 1 to 65535, or the name of one of the container's ports"
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?$`
	TargetPort *intstr.IntOrString `json:"targetPort,omitempty"`
	// TCP, UDP or SCTP. Default TCP.
	// +optional
	// +kubebuilder:default=TCP
	// +kubebuilder:validation:Enum=TCP;UDP;SCTP
	Protocol corev1.Protocol `json:"protocol,omitempty"`
	// The application protocol, as in a Service: kubernetes.io/h2c, for example.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	AppProtocol *string `json:"appProtocol,omitempty"`
}

// NetworkPolicy is what may reach the gateway's pods and what they may reach, as in a NetworkPolicy; the pod selector
// is the gateway's own.
type NetworkPolicy struct {
	// What may reach the pods. Omitted leaves ingress as it is without a policy; an empty list refuses all.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Ingress *[]IngressRule `json:"ingress,omitempty"`
	// What the pods may reach. Omitted leaves egress as it is without a policy; an empty list refuses all.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Egress *[]EgressRule `json:"egress,omitempty"`
}

// IngressRule is traffic that may reach the pods: on any of the ports, from any of the peers.
type IngressRule struct {
	// On which ports. Omitted means on all.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Ports []PolicyPort `json:"ports,omitempty"`
	// From whom. Omitted means from everybody.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	From []networkingv1.NetworkPolicyPeer `json:"from,omitempty"`
}

// EgressRule is what the pods may reach: any of the ports, of any of the peers.
type EgressRule struct {
	// On which ports. Omitted means on all.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Ports []PolicyPort `json:"ports,omitempty"`
	// Whom. Omitted means everybody.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	To []networkingv1.NetworkPolicyPeer `json:"to,omitempty"`
}

// PolicyPort is a port, or a range of them, in a network policy. It is a NetworkPolicyPort with bounds: a number that
// the schema admitted and Go cannot hold would keep every profile from being read. Its fields are written in the same
// order, because a revision is told from another by the bytes of its profile.
//
// Of the port every text is admitted: what compares with a text is one. Asking for its type would cost more than the API
// server lets a rule inside two lists cost.
type PolicyPort struct {
	// TCP, UDP or SCTP. Default TCP.
	// +optional
	Protocol *corev1.Protocol `json:"protocol,omitempty"`
	// The port, by number or by name. Omitted means all.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="(self >= 1 && self <= 65535) || self >= ''",message="write a port from 1 to 65535, or the name of a port"
	Port *intstr.IntOrString `json:"port,omitempty"`
	// The last port of a range that begins with port.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	EndPort *int32 `json:"endPort,omitempty"`
}

// ServiceAccount shapes the gateway's ServiceAccount.
type ServiceAccount struct {
	// Annotations to set, for workload identity.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	Annotations map[string]string `json:"annotations,omitempty"`
	// Mount a token for the Kubernetes API into the pods. Default false.
	// +optional
	AutomountToken bool `json:"automountToken,omitempty"`
}

// AllowedNamespaces selects namespaces: those that are named, and those whose labels match.
//
// +kubebuilder:validation:XValidation:rule="has(self.names) || has(self.selector)",message="set names, selector or both; to allow every namespace omit allowedNamespaces"
type AllowedNamespaces struct {
	// By name.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Names []string `json:"names,omitempty"`
	// By label.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}
