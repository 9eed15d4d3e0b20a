package release

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// The indexes by which a change finds the releases that it concerns, and a release its gateways. They are named after
// this controller, because a cache has one index of a name for all controllers.
const (
	// indexFollows finds the gateways that follow a release.
	indexFollows = "release:spec.releaseRef.name"
	// indexRecorded finds the gateways that have recorded a revision of a release, whichever they follow now.
	indexRecorded = "release:status.revision.release"
	// indexRevisions finds the stored revisions of a release.
	indexRevisions = "release:revisions"
	// indexProfile finds the releases that use a profile.
	indexProfile = "release:spec.profileRef.name"
	// indexSecret finds the releases whose credentials are in a Secret of Gatehouse's namespace.
	indexSecret = "release:spec.registry.credentials.secretRef.name"
	// indexVerification finds the releases by what they require of signatures.
	indexVerification = "release:spec.verification"
	// indexConfigMap finds the releases whose authorities are in a ConfigMap of Gatehouse's namespace.
	indexConfigMap = "release:spec.registry.caBundle.configMapRef.name"
)

func addIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	gateway := func(value func(*v1alpha1.GatewayInstance) string) client.IndexerFunc {
		return func(object client.Object) []string { return nonEmpty(value(object.(*v1alpha1.GatewayInstance))) }
	}
	release := func(value func(*v1alpha1.GatewayRelease) string) client.IndexerFunc {
		return func(object client.Object) []string { return nonEmpty(value(object.(*v1alpha1.GatewayRelease))) }
	}
	for _, index := range []struct {
		kind   client.Object
		name   string
		values client.IndexerFunc
	}{
		{&v1alpha1.GatewayInstance{}, indexFollows, gateway(func(g *v1alpha1.GatewayInstance) string { return g.Spec.ReleaseRef.Name })},
		{&v1alpha1.GatewayInstance{}, indexRecorded, gateway(recordedRelease)},
		{&appsv1.ControllerRevision{}, indexRevisions, func(object client.Object) []string {
			return nonEmpty(object.GetLabels()[v1alpha1.LabelRelease])
		}},
		{&v1alpha1.GatewayRelease{}, indexProfile, release(func(r *v1alpha1.GatewayRelease) string { return r.Spec.ProfileRef.Name })},
		{&v1alpha1.GatewayRelease{}, indexSecret, release(credentialsSecret)},
		{&v1alpha1.GatewayRelease{}, indexVerification, release(func(r *v1alpha1.GatewayRelease) string { return string(required(r)) })},
		{&v1alpha1.GatewayRelease{}, indexConfigMap, release(caConfigMap)},
	} {
		if err := indexer.IndexField(ctx, index.kind, index.name, index.values); err != nil {
			return fmt.Errorf("index %s: %w", index.name, err)
		}
	}
	return nil
}

func recordedRelease(gateway *v1alpha1.GatewayInstance) string {
	if gateway.Status.Revision == nil {
		return ""
	}
	return gateway.Status.Revision.Release
}

func credentialsSecret(release *v1alpha1.GatewayRelease) string {
	if release.Spec.Registry == nil || release.Spec.Registry.Credentials == nil {
		return ""
	}
	return release.Spec.Registry.Credentials.SecretRef.Name
}

func caConfigMap(release *v1alpha1.GatewayRelease) string {
	if release.Spec.Registry == nil || release.Spec.Registry.CABundle == nil {
		return ""
	}
	return release.Spec.Registry.CABundle.ConfigMapRef.Name
}

func nonEmpty(value string) []string {
	if value == "" {
		return nil
	}
	return []string{value}
}
