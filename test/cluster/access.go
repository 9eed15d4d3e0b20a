package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// User is what a person has whom RBAC knows by this name and these groups
// (system:authenticated is added by the server).
func (c *Cluster) User(name string, groups ...string) *rest.Config {
	config := rest.CopyConfig(c.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: groups}
	return config
}

// tokenSeconds is longer than any test: nothing renews the token.
const tokenSeconds = 24 * 60 * 60

// TokenFor returns the path of a kubeconfig with a token of the service
// account, which must exist, and with nothing else: whoever uses it has exactly
// the service account's rights.
func (c *Cluster) TokenFor(ctx context.Context, namespace, serviceAccount string) (string, error) {
	return c.token(ctx, namespace, serviceAccount, nil)
}

// TokenOf is TokenFor the service account of a pod, which must exist: the token
// is bound to the pod, as the one that a kubelet gives it.
func (c *Cluster) TokenOf(ctx context.Context, pod *corev1.Pod) (string, error) {
	bound := &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	return c.token(ctx, pod.Namespace, pod.Spec.ServiceAccountName, bound)
}

func (c *Cluster) token(ctx context.Context, namespace, serviceAccount string, bound *authenticationv1.BoundObjectReference) (string, error) {
	clientset, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return "", err
	}
	seconds := int64(tokenSeconds)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds, BoundObjectRef: bound}}
	answer, err := clientset.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, serviceAccount, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("token of service account %s/%s: %w", namespace, serviceAccount, err)
	}

	admin, err := clientcmd.LoadFromFile(c.Kubeconfig)
	if err != nil {
		return "", err
	}
	context, ok := admin.Contexts[admin.CurrentContext]
	if !ok {
		return "", fmt.Errorf("kubeconfig %s has no current context", c.Kubeconfig)
	}
	server, ok := admin.Clusters[context.Cluster]
	if !ok {
		return "", fmt.Errorf("kubeconfig %s has no cluster %q", c.Kubeconfig, context.Cluster)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["cluster"] = server
	config.AuthInfos["serviceaccount"] = &clientcmdapi.AuthInfo{Token: answer.Status.Token}
	config.Contexts["serviceaccount"] = &clientcmdapi.Context{Cluster: "cluster", AuthInfo: "serviceaccount", Namespace: namespace}
	config.CurrentContext = "serviceaccount"

	users := filepath.Join(c.Dir, "users")
	if err := os.MkdirAll(users, 0o700); err != nil {
		return "", err
	}
	name := namespace + "." + serviceAccount
	if bound != nil {
		name += "." + string(bound.UID)
	}
	path := filepath.Join(users, name+".kubeconfig")
	return path, clientcmd.WriteToFile(*config, path)
}
