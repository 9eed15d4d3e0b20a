package release

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/outcome"
	"github.com/gatehouse-dev/gatehouse/internal/registry"
)

// access reads how the release reaches its registry. What is missing or malformed is terminal: the Secret and the
// ConfigMap wake the release when they change. No error holds anything of a Secret.
func (r *reconciler) access(ctx context.Context, from client.Reader, release *v1alpha1.GatewayRelease) (registry.Access, error) {
	spec := release.Spec.Registry
	if spec == nil {
		return registry.Access{}, nil
	}
	access := registry.Access{PlainHTTP: spec.PlainHTTP}
	var err error
	if spec.Credentials != nil {
		if access.Credentials, err = r.credentials(ctx, from, spec.Credentials.SecretRef.Name); err != nil {
			return registry.Access{}, err
		}
	}
	if spec.CABundle != nil {
		if access.CABundle, err = r.caBundle(ctx, from, spec.CABundle.ConfigMapRef); err != nil {
			return registry.Access{}, err
		}
	}
	return access, nil
}

func (r *reconciler) credentials(ctx context.Context, from client.Reader, name string) (*registry.DockerConfig, error) {
	refuse := func(format string, args ...any) (*registry.DockerConfig, error) {
		return nil, outcome.Terminal(v1alpha1.ReasonInvalidAccess,
			fmt.Errorf("spec.registry.credentials: Secret %s/%s %w", r.namespace, name, fmt.Errorf(format, args...)))
	}
	secret := &corev1.Secret{}
	switch err := from.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: name}, secret); {
	case apierrors.IsNotFound(err):
		return refuse("not found; create it with the type %s", corev1.SecretTypeDockerConfigJson)
	case err != nil:
		return nil, fmt.Errorf("read Secret %s/%s: %w", r.namespace, name, err)
	}
	if secret.Type != corev1.SecretTypeDockerConfigJson {
		return refuse("has the type %q; create it anew with the type %s", secret.Type, corev1.SecretTypeDockerConfigJson)
	}
	config, err := registry.ParseDockerConfig(secret.Data[corev1.DockerConfigJsonKey])
	if err != nil {
		return refuse("is no use: %w", err)
	}
	return config, nil
}

func (r *reconciler) caBundle(ctx context.Context, from client.Reader, ref v1alpha1.KeyReference) ([]byte, error) {
	refuse := func(format string, args ...any) ([]byte, error) {
		return nil, outcome.Terminal(v1alpha1.ReasonInvalidAccess,
			fmt.Errorf("spec.registry.caBundle: ConfigMap %s/%s %w", r.namespace, ref.Name, fmt.Errorf(format, args...)))
	}
	bundle := &corev1.ConfigMap{}
	switch err := from.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: ref.Name}, bundle); {
	case apierrors.IsNotFound(err):
		return refuse("not found; create it with the certificates under the key %q", ref.Key)
	case err != nil:
		return nil, fmt.Errorf("read ConfigMap %s/%s: %w", r.namespace, ref.Name, err)
	}
	if text, ok := bundle.Data[ref.Key]; ok && text != "" {
		return []byte(text), nil
	}
	if binary := bundle.BinaryData[ref.Key]; len(binary) > 0 {
		return binary, nil
	}
	return refuse("has nothing under the key %q; put the PEM certificates there", ref.Key)
}
