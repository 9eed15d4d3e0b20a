package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the API group and version of every kind in this package.
	GroupVersion = schema.GroupVersion{Group: "gatehouse.dev", Version: "v1alpha1"}

	schemeBuilder = runtime.NewSchemeBuilder(func(s *runtime.Scheme) error {
		s.AddKnownTypes(GroupVersion,
			&GatewayRelease{}, &GatewayReleaseList{},
			&GatewayInstance{}, &GatewayInstanceList{},
			&GatewayProfile{}, &GatewayProfileList{},
			&Executor{}, &ExecutorList{},
			&NamespacedExecutor{}, &NamespacedExecutorList{},
			&ExecutorPodStatus{}, &ExecutorPodStatusList{},
		)
		metav1.AddToGroupVersion(s, GroupVersion)
		return nil
	})

	// AddToScheme registers the kinds of this package.
	AddToScheme = schemeBuilder.AddToScheme
)
