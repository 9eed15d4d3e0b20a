package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/config"
)

const (
	// systemNamespace is Gatehouse's own, as its manifests name it.
	systemNamespace = "gatehouse-system"
	servedWithin    = time.Minute
)

// manifests are the objects of an installation, in the order in which they are created: the definitions first, so that
// a cluster that has them is refused before anything is created. The manager's Deployment is not among them: its pods
// are to be processes here.
func manifests() ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, files := range []string{"crd/*.yaml", "manager/namespace.yaml", "rbac/*.yaml", "policy/*.yaml", "manager/disruption.yaml"} {
		found, err := fs.Glob(config.Manifests, files)
		if err != nil {
			return nil, err
		}
		for _, file := range found {
			if path.Base(file) == "kustomization.yaml" {
				continue
			}
			read, err := readManifest(file)
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
