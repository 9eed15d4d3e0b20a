package status

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// connect makes a client as kubectl would: by the named kubeconfig, by KUBECONFIG, by ~/.kube/config, or in a pod by its
// service account.
func connect(kubeconfig, context string) (client.WithWatch, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: context}).ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, errors.New("no cluster to ask: no kubeconfig names one; name one that does with --kubeconfig or KUBECONFIG")
	case err != nil:
		return nil, fmt.Errorf("no cluster to ask; name its kubeconfig with --kubeconfig or KUBECONFIG: %w", err)
	}
	return clientOf(config)
}

func clientOf(config *rest.Config) (client.WithWatch, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 50, 100
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return client.NewWithWatch(config, client.Options{Scheme: scheme, Mapper: kinds()})
}

// kinds are those that are read. They are known, so nobody has to be asked for all that a cluster serves.
func kinds() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	add := func(group schema.GroupVersion, kind, plural, singular string, scope meta.RESTScope) {
		mapper.AddSpecific(group.WithKind(kind), group.WithResource(plural), group.WithResource(singular), scope)
	}
	add(v1alpha1.GroupVersion, "Executor", "executors", "executor", meta.RESTScopeRoot)
	add(v1alpha1.GroupVersion, "NamespacedExecutor", "namespacedexecutors", "namespacedexecutor", meta.RESTScopeNamespace)
	add(v1alpha1.GroupVersion, "ExecutorPodStatus", "executorpodstatuses", "executorpodstatus", meta.RESTScopeNamespace)
	add(corev1.SchemeGroupVersion, "Pod", "pods", "pod", meta.RESTScopeNamespace)
	return mapper
}
