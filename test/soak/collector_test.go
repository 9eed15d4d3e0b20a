package soak

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// collecting is how often the garbage collector looks.
const collecting = 3 * time.Second

// ownedKinds are those of what a gateway or a release may own.
var ownedKinds = []schema.GroupVersionKind{
	{Group: "apps", Version: "v1", Kind: "Deployment"},
	{Group: "apps", Version: "v1", Kind: "ControllerRevision"},
	{Version: "v1", Kind: "Service"},
	{Version: "v1", Kind: "ServiceAccount"},
	{Version: "v1", Kind: "ConfigMap"},
	{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
	{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
}

// collect plays the garbage collector until ctx ends: what is owned by a gateway or a release that is gone goes too.
func collect(ctx context.Context, c client.Client) error {
	ticker := time.NewTicker(collecting)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := sweep(ctx, c); err != nil && ctx.Err() == nil {
			return fmt.Errorf("play the garbage collector: %w", err)
		}
	}
}

func sweep(ctx context.Context, c client.Client) error {
	var owned []metav1.PartialObjectMetadata
	for _, kind := range ownedKinds {
		found, err := metadata(ctx, c, kind)
		if err != nil {
			return err
		}
		owned = append(owned, found...)
	}
	// Owners are listed last: what is owned by one of them was made after it.
	owners := map[types.UID]bool{}
	for _, kind := range []string{"GatewayInstance", "GatewayRelease"} {
		found, err := metadata(ctx, c, v1alpha1.GroupVersion.WithKind(kind))
		if err != nil {
			return err
		}
		for _, object := range found {
			owners[object.UID] = true
		}
	}
	for i := range owned {
		object := &owned[i]
		owner := metav1.GetControllerOf(object)
		if owner == nil || owner.APIVersion != v1alpha1.GroupVersion.String() || owners[owner.UID] {
			continue
		}
		if err := c.Delete(ctx, object, client.Preconditions{UID: &object.UID}); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

func metadata(ctx context.Context, c client.Client, kind schema.GroupVersionKind) ([]metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := c.List(ctx, list); err != nil {
		return nil, err
	}
	for i := range list.Items {
		list.Items[i].SetGroupVersionKind(kind)
	}
	return list.Items, nil
}
