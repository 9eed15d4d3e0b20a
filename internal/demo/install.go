package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/config"
)

const (
	// systemNamespace is Gatehouse's own, as its manifests name it.
	systemNamespace = "gatehouse-system"
	servedWithin    = time.Minute
	// The longest that a demo that is kept can go on.
	tokenLifetime = 24 * time.Hour
)

// manifests are the objects of an installation, in the order in which they are created: the definitions first, so that
// a cluster that has them is refused before anything is created. The manager, a process here, is not among them.
func manifests() ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, folder := range []string{"crd", "manager", "rbac", "policy"} {
		files, err := fs.ReadDir(config.Manifests, folder)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if file.Name() == "kustomization.yaml" {
				continue
			}
			read, err := readManifest(path.Join(folder, file.Name()))
			if err != nil {
				return nil, err
			}
			objects = append(objects, read...)
		}
	}
	return objects, nil
}

func readManifest(name string) ([]*unstructured.Unstructured, error) {
	f, err := config.Manifests.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	decoder := yaml.NewYAMLOrJSONDecoder(f, 4096)
	var objects []*unstructured.Unstructured
	for {
		var u unstructured.Unstructured
		switch err := decoder.Decode(&u); {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, fmt.Errorf("config/%s: %w", name, err)
		case len(u.Object) > 0:
			objects = append(objects, &u)
		}
	}
}

// install creates what an installation consists of and returns its ServiceAccount.
func install(ctx context.Context, p *property) (*corev1.ServiceAccount, error) {
	objects, err := manifests()
	if err != nil {
		return nil, err
	}
	var account *corev1.ServiceAccount
	for _, u := range objects {
		if err := p.create(ctx, u); err != nil {
			return nil, fmt.Errorf("install Gatehouse: %w", err)
		}
		if u.GetKind() == "ServiceAccount" {
			account = &corev1.ServiceAccount{}
			account.Name, account.Namespace = u.GetName(), u.GetNamespace()
		}
	}
	if account == nil {
		return nil, errors.New("install Gatehouse: config/rbac has no ServiceAccount")
	}
	for _, u := range objects {
		if u.GetKind() == "CustomResourceDefinition" {
			if err := awaitServed(ctx, p.client, u.GetName()); err != nil {
				return nil, err
			}
		}
	}
	return account, nil
}

func awaitServed(ctx context.Context, c client.Client, name string) error {
	err := wait.PollUntilContextTimeout(ctx, probeEvery, servedWithin, true, func(ctx context.Context) (bool, error) {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := c.Get(ctx, client.ObjectKey{Name: name}, &crd); err != nil {
			return false, err
		}
		for _, condition := range crd.Status.Conditions {
			if condition.Type == apiextensionsv1.Established {
				return condition.Status == apiextensionsv1.ConditionTrue, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("awaited that CustomResourceDefinition %s is served: %w", name, err)
	}
	return nil
}

// writeKubeconfig writes a kubeconfig by which a process has the rights of a ServiceAccount and no others.
func writeKubeconfig(ctx context.Context, c client.Client, admin *rest.Config, account *corev1.ServiceAccount, file string) error {
	seconds := int64(tokenLifetime / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	if err := c.SubResource("token").Create(ctx, account, request); err != nil {
		return fmt.Errorf("token of ServiceAccount %s/%s: %w", account.Namespace, account.Name, err)
	}
	anonymous := rest.AnonymousClientConfig(admin)
	const name = "gatehouse"
	return clientcmd.WriteToFile(clientcmdapi.Config{
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
