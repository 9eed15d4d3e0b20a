package e2e

import (
	"errors"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
	"github.com/gatehouse-dev/gatehouse/test/manager"
)

// Fails when `kubectl delete -k config/default` takes a workload along, or when coming back rolls one: with the
// installation go its namespace, its roles, its policies and all revisions; the kinds stay until a person says that
// deleting them is meant. On a cluster of its own.
func TestTheInstallationMayGoAndComeBackAndNothingRolls(t *testing.T) {
	c := cluster.New(t, cluster.Options{})
	installed, err := fleet.Install(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	m := manager.Start(t, installed.Manager("gatehouse-0"))
	f := fleet.New(t, installed, fleet.Options{Gateways: 2})
	f.Converged(t, f.V1)
	runs := f.Footprint(t)
	m.Stop(t)

	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(root, "config/default"))
	if err != nil {
		t.Fatal(err)
	}
	kinds, kept := 0, 0
	for _, resource := range rendered.Resources() {
		content, err := resource.Map()
		if err != nil {
			t.Fatal(err)
		}
		object := &unstructured.Unstructured{Object: content}
		if object.GetKind() == "CustomResourceDefinition" {
			kinds++
		}
		err = client.IgnoreNotFound(installed.Client.Delete(t.Context(), object))
		if object.GetKind() == "CustomResourceDefinition" && apierrors.IsForbidden(err) {
			kept++
			continue
		}
		if err != nil {
			t.Fatalf("delete %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
	if kinds == 0 || kept != kinds {
		t.Errorf("%d of %d kinds were protected", kept, kinds)
	}
	eventually.Succeeds(t, fleet.Patience, func() error {
		err := installed.Client.Get(t.Context(), client.ObjectKey{Name: fleet.Namespace}, &corev1.Namespace{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("the namespace is still there"), err)
	})
	same := func(when string) {
		t.Helper()
		if now := f.Footprint(t); asJSON(t, now) != asJSON(t, runs) {
			t.Errorf("%s, what runs was\n%s\nand is\n%s", when, asJSON(t, runs), asJSON(t, now))
		}
	}
	same("without an installation")

	again, err := fleet.Install(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	m = manager.Start(t, again.Manager("gatehouse-0"))
	f.Converged(t, f.V1)
	m.Rest(t, fleet.Patience)
	same("with another installation")
	v2 := f.Push(t, "v2")
	f.SetImage(t, f.Image("v2"))
	f.Converged(t, v2)
	m.Stop(t)
}
