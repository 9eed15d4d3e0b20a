package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Store is a place where signatures are found.
//
// +kubebuilder:validation:XValidation:rule="has(self.registry) != has(self.ociLayout)",message="give each store exactly one kind: registry or ociLayout"
type Store struct {
	// The store's name, in messages and reports.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// The registry that the image is in.
	// +optional
	Registry *RegistryStore `json:"registry,omitempty"`
	// A folder with an OCI image layout.
	// +optional
	OCILayout *OCILayoutStore `json:"ociLayout,omitempty"`
}

// NamespacedStore is a place where signatures are found, of those that a tenant may name.
type NamespacedStore struct {
	// The store's name, in messages and reports.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// The registry that the image is in.
	// +required
	Registry *RegistryStore `json:"registry"`
}

// RegistryStore says how the image's registry is reached.
type RegistryStore struct {
	RegistryAccess `json:",inline"`
	// How long one request may take. Default 5s.
	// +optional
	// +kubebuilder:default="5s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=24
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('100ms') && duration(self) <= duration('60s')",message="write a duration from 100ms to 60s, as 5s"
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}

// OCILayoutStore is a folder on the replicas.
type OCILayoutStore struct {
	// The folder, under the one that --oci-layout-root names.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+(/[-._a-zA-Z0-9]+)*$') && self.split('/').all(part, part != '.' && part != '..')",message="write a path below --oci-layout-root, as mirror or team/mirror: of letters, digits, '-', '_' and '.', without a leading '/' and without '..'"
	Path string `json:"path"`
}
