package soak

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// dump keeps what there is to see after a failure: the stored objects, what the manager has logged, and what it is doing.
// `go test -artifacts` leaves it behind.
func (w *world) dump(t *testing.T, c *controlPlane) {
	if !t.Failed() {
		return
	}
	dir := t.ArtifactDir()
	keep := func(name string, content []byte) error {
		return os.WriteFile(filepath.Join(dir, name), content, 0o644)
	}
	err := keep("manager.log", []byte(c.manager.Log()))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for name, list := range map[string]client.ObjectList{
		"gateways.json": &v1alpha1.GatewayInstanceList{}, "releases.json": &v1alpha1.GatewayReleaseList{},
		"profiles.json": &v1alpha1.GatewayProfileList{}, "deployments.json": &appsv1.DeploymentList{}, "revisions.json": &appsv1.ControllerRevisionList{},
	} {
		err = errors.Join(err, w.product.Client.List(ctx, list))
		content, failed := json.MarshalIndent(list, "", " ")
		err = errors.Join(err, failed, keep(name, content))
	}
	if c.manager.Running() {
		err = errors.Join(err, keep("goroutines", []byte(takeProfile(t, c.profile, "goroutine?debug=2"))))
	}
	if err != nil {
		t.Errorf("keep what there is to see: %v", err)
	}
	t.Logf("what there is to see is in %s", dir)
}
