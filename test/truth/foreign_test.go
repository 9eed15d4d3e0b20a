package truth

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/podstatus"
	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
)

// foreign has the token of one replica's pod write what another reports.
func (w *world) foreign(t *testing.T) {
	pods := w.replicas.Ready(t, int(w.size.replicas))
	pod := &corev1.Pod{}
	if err := product.Client.Get(t.Context(), client.ObjectKey{Namespace: fleet.Namespace, Name: pods[0]}, pod); err != nil {
		t.Fatal(err)
	}
	replica := w.as(t, pod)
	theirs := &v1alpha1.ExecutorPodStatus{}
	name := client.ObjectKey{Namespace: fleet.Namespace, Name: podstatus.PackName(pods[1], w.subjects[0].identity)}
	if err := product.Client.Get(t.Context(), name, theirs); err != nil {
		t.Fatal(err)
	}
	another := theirs.DeepCopy()
	another.ObjectMeta.Name, another.ResourceVersion, another.UID = "another", "", ""
	lied, edited := theirs.DeepCopy(), theirs.DeepCopy()
	lied.Status.Inputs, edited.Labels = "others", nil
	for what, err := range map[string]error{
		"create":          replica.Create(t.Context(), another),
		"update":          replica.Update(t.Context(), edited),
		"update status":   replica.Status().Update(t.Context(), lied),
		"patch status":    replica.Status().Patch(t.Context(), theirs.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":{"succeeded":false}}`))),
		"take over":       replica.Patch(t.Context(), theirs.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"pod":{"name":"`+pod.Name+`"}}}`))),
		"patch the names": replica.Patch(t.Context(), theirs.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"ownerReferences":[]}}`))),
	} {
		if !apierrors.IsForbidden(err) && !(what == "take over" && apierrors.IsInvalid(err)) { // nobody can
			t.Errorf("%s with the token of %s what %s reports: %v, want it to be refused", what, pods[0], pods[1], err)
		}
	}
	if err := w.wrong(); err != nil {
		t.Error(err)
	}
}

// as is a client with the token that a pod has.
func (w *world) as(t *testing.T, pod *corev1.Pod) client.Client {
	t.Helper()
	path, err := product.TokenOf(t.Context(), pod)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	config.UserAgent, config.QPS = cluster.UserAgent, -1
	c, err := fleet.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
