package kubelet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// tokenLifetime is longer than anything that is run here: nothing renews a token.
const tokenLifetime = 24 * time.Hour

// addresses are where a process serves.
type addresses struct{ metrics, probes string }

// arguments are those of the pod's container, less what belongs to a pod's own network, and what the machine adds.
func arguments(o Options, pod *corev1.Pod, kubeconfig string, at addresses) []string {
	given := pod.Spec.Containers[0].Args
	if len(given) == 0 {
		given = []string{"manager"}
	}
	args := append([]string{}, given...)
	args = append(args,
		"--kubeconfig="+kubeconfig,
		"--metrics-bind-address="+at.metrics,
		"--health-probe-bind-address="+at.probes)
	return append(args, o.Arguments...)
}

func environment(o Options, pod *corev1.Pod) []string {
	return append([]string{
		"HOME=" + os.Getenv("HOME"), "PATH=" + os.Getenv("PATH"),
		"POD_NAME=" + pod.Name, "POD_NAMESPACE=" + pod.Namespace, "POD_UID=" + string(pod.UID),
	}, o.Environment...)
}

// writeKubeconfig writes what a process in the pod would have: a token of the pod's ServiceAccount that is bound to the
// pod, and nothing else.
func writeKubeconfig(ctx context.Context, o Options, pod *corev1.Pod) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestWithin)
	defer cancel()
	seconds := int64(tokenLifetime / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &seconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	account := &corev1.ServiceAccount{}
	account.Namespace, account.Name = pod.Namespace, pod.Spec.ServiceAccountName
	if err := o.Client.SubResource("token").Create(ctx, account, request); err != nil {
		return "", fmt.Errorf("token of ServiceAccount %s/%s for pod %s: %w", account.Namespace, account.Name, pod.Name, err)
	}
	anonymous := rest.AnonymousClientConfig(o.Config)
	const name = "gatehouse"
	file := pathOf(o.Dir, pod, ".kubeconfig")
	return file, clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server:                   anonymous.Host + anonymous.APIPath,
			TLSServerName:            anonymous.ServerName,
			InsecureSkipTLSVerify:    anonymous.Insecure,
			CertificateAuthority:     anonymous.CAFile,
			CertificateAuthorityData: anonymous.CAData,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {Token: request.Status.Token}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}, file)
}

// pathOf is that of a file of a pod. The name of a pod may be longer than there is room for in that of a file.
func pathOf(dir string, pod *corev1.Pod, suffix string) string {
	return filepath.Join(dir, pod.Name[:min(len(pod.Name), 200)]+"."+string(pod.UID)[:8]+suffix)
}

func appendTo(log string) (*os.File, error) {
	return os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
}

const (
	// Ports below those that the system gives to outgoing connections, one of which might take it before it is used.
	firstPort, lastPort = 12_000, 32_000
	portAttempts        = 100
)

func freeAddresses() (at addresses, err error) {
	if at.metrics, err = freeAddress(); err != nil {
		return at, err
	}
	at.probes, err = freeAddress()
	return at, err
}

// freeAddress is a port that nothing listens on.
func freeAddress() (string, error) {
	var err error
	for range portAttempts {
		var listener net.Listener
		if listener, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", firstPort+rand.IntN(lastPort-firstPort))); err == nil {
			return listener.Addr().String(), listener.Close()
		}
	}
	return "", fmt.Errorf("find a free port: %w", err)
}
