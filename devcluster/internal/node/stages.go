package node

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	kwokcrd "sigs.k8s.io/kwok/kustomize/crd"
	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	heartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	"sigs.k8s.io/yaml"
)

var (
	crds   = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	stages = schema.GroupVersionResource{Group: "kwok.x-k8s.io", Version: "v1alpha1", Resource: "stages"}
)

// createStages serves the Stage kind, so that stages can be added while the
// cluster runs, and creates kwok's own. As kwok then reads stages from the API
// alone, its defaults must be there too.
func createStages(ctx context.Context, client dynamic.Interface) error {
	if err := create(ctx, client, crds, kwokcrd.Stage); err != nil {
		return err
	}
	for _, text := range []string{
		nodefast.DefaultNodeInit,
		heartbeat.DefaultNodeHeartbeat,
		podfast.DefaultPodReady,
		podfast.DefaultPodComplete,
		podfast.DefaultPodDelete,
	} {
		if err := create(ctx, client, stages, []byte(text)); err != nil {
			return err
		}
	}
	return nil
}

// create retries while the kind is not served yet.
func create(ctx context.Context, client dynamic.Interface, gvr schema.GroupVersionResource, text []byte) error {
	var o unstructured.Unstructured
	if err := yaml.Unmarshal(text, &o.Object); err != nil {
		return fmt.Errorf("%s of kwok: %w", gvr.Resource, err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var last error
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, last = client.Resource(gvr).Create(ctx, &o, metav1.CreateOptions{})
		switch {
		case last == nil, apierrors.IsAlreadyExists(last):
			return true, nil
		case apierrors.IsNotFound(last):
			return false, nil
		default:
			return false, last
		}
	})
	if err != nil {
		return fmt.Errorf("%s %s: %w (last error: %v)", gvr.Resource, o.GetName(), err, last)
	}
	return nil
}
