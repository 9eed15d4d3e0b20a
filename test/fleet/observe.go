package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
)

// Patience is how long what should come true at once may take on a slow machine.
const Patience = 60 * time.Second

// Release reads the release.
func (f *Fleet) Release(tb testing.TB) *v1alpha1.GatewayRelease {
	tb.Helper()
	release := &v1alpha1.GatewayRelease{}
	f.Get(tb, client.ObjectKey{Name: f.Name}, release)
	return release
}

// Gateway reads the n-th gateway.
func (f *Fleet) Gateway(tb testing.TB, n int) *v1alpha1.GatewayInstance {
	tb.Helper()
	gateway := &v1alpha1.GatewayInstance{}
	f.Get(tb, f.Gateways[n], gateway)
	return gateway
}

// Deployment reads that of the n-th gateway.
func (f *Fleet) Deployment(tb testing.TB, n int) *appsv1.Deployment {
	tb.Helper()
	deployment := &appsv1.Deployment{}
	f.Get(tb, f.Gateways[n], deployment)
	return deployment
}

// Get reads an object.
func (f *Fleet) Get(tb testing.TB, key client.ObjectKey, object client.Object) {
	tb.Helper()
	if err := f.Client.Get(tb.Context(), key, object); err != nil {
		tb.Fatalf("read %T %s: %v", object, key, err)
	}
}

// All reads every gateway of the fleet, in the order in which they were made.
func (f *Fleet) All(tb testing.TB) []v1alpha1.GatewayInstance {
	tb.Helper()
	found := map[client.ObjectKey]v1alpha1.GatewayInstance{}
	for _, namespace := range f.Namespaces {
		var list v1alpha1.GatewayInstanceList
		if err := f.Client.List(tb.Context(), &list, client.InNamespace(namespace)); err != nil {
			tb.Fatal(err)
		}
		for _, gateway := range list.Items {
			found[client.ObjectKeyFromObject(&gateway)] = gateway
		}
	}
	all := make([]v1alpha1.GatewayInstance, 0, len(f.Gateways))
	for _, key := range f.Gateways {
		if gateway, ok := found[key]; ok {
			all = append(all, gateway)
		}
	}
	return all
}

// Converged waits until the rollout of a digest is complete and every gateway runs it and says so.
func (f *Fleet) Converged(tb testing.TB, digest image.Digest) {
	tb.Helper()
	f.ConvergedWithin(tb, digest, Patience)
}

// ConvergedWithin is Converged with a deadline of its own.
func (f *Fleet) ConvergedWithin(tb testing.TB, digest image.Digest, timeout time.Duration) {
	tb.Helper()
	want := f.Pinned(digest)
	eventually.Succeeds(tb, timeout, func() error {
		release := f.Release(tb)
		if err := complete(release, want); err != nil {
			return err
		}
		gateways := f.All(tb)
		if len(gateways) != len(f.Gateways) {
			return fmt.Errorf("%d gateways of %d are there", len(gateways), len(f.Gateways))
		}
		for i := range gateways {
			if err := runs(&gateways[i], want); err != nil {
				return err
			}
		}
		return nil
	})
}

func complete(release *v1alpha1.GatewayRelease, want string) error {
	status := release.Status
	switch {
	case status.ObservedGeneration != release.Generation:
		return fmt.Errorf("release %s: generation %d, observed %d", release.Name, release.Generation, status.ObservedGeneration)
	case status.Image != want:
		return fmt.Errorf("release %s: accepted %q (%s), want %q", release.Name, status.Image, status.Summary, want)
	case status.Rollout == nil || status.Rollout.Target != status.Revision || status.Rollout.State != v1alpha1.RolloutComplete:
		return fmt.Errorf("release %s: rollout %s", release.Name, brief(status.Rollout))
	}
	return nil
}

func runs(gateway *v1alpha1.GatewayInstance, want string) error {
	ready := meta.FindStatusCondition(gateway.Status.Conditions, v1alpha1.ConditionReady)
	if gateway.Status.ObservedGeneration != gateway.Generation || gateway.Status.Image != want ||
		ready == nil || ready.Status != metav1.ConditionTrue {
		return fmt.Errorf("gateway %s/%s: runs %q, want %q: %s", gateway.Namespace, gateway.Name, gateway.Status.Image, want, brief(gateway.Status))
	}
	return nil
}

func brief(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// ReleaseSays waits until the release's condition is as told, for its present generation. An empty reason is any.
func (f *Fleet) ReleaseSays(tb testing.TB, condition string, status metav1.ConditionStatus, reason string) *v1alpha1.GatewayRelease {
	tb.Helper()
	var release *v1alpha1.GatewayRelease
	eventually.Succeeds(tb, Patience, func() error {
		release = f.Release(tb)
		return says(release.Status.Conditions, release.Generation, condition, status, reason)
	})
	return release
}

// GatewaySays waits until the n-th gateway's condition is as told, for its present generation. An empty reason is any.
func (f *Fleet) GatewaySays(tb testing.TB, n int, condition string, status metav1.ConditionStatus, reason string) *v1alpha1.GatewayInstance {
	tb.Helper()
	var gateway *v1alpha1.GatewayInstance
	eventually.Succeeds(tb, Patience, func() error {
		gateway = f.Gateway(tb, n)
		return says(gateway.Status.Conditions, gateway.Generation, condition, status, reason)
	})
	return gateway
}

func says(conditions []metav1.Condition, generation int64, condition string, status metav1.ConditionStatus, reason string) error {
	found := meta.FindStatusCondition(conditions, condition)
	if found == nil || found.Status != status || found.ObservedGeneration != generation || (reason != "" && found.Reason != reason) {
		return fmt.Errorf("want %s=%s %s of generation %d, got %s", condition, status, reason, generation, brief(conditions))
	}
	return nil
}

// Message is a condition's message; empty without the condition.
func Message(conditions []metav1.Condition, condition string) string {
	if found := meta.FindStatusCondition(conditions, condition); found != nil {
		return found.Message
	}
	return ""
}

// Footprint is what runs of a fleet: which pods, and which version of each Deployment's spec. Two that are equal mean
// that nothing was rolled.
type Footprint map[string]string

// Footprint reads it.
func (f *Fleet) Footprint(tb testing.TB) Footprint {
	tb.Helper()
	print := Footprint{}
	for _, namespace := range f.Namespaces {
		var pods corev1.PodList
		var deployments appsv1.DeploymentList
		err := errors.Join(
			f.Client.List(tb.Context(), &pods, client.InNamespace(namespace)),
			f.Client.List(tb.Context(), &deployments, client.InNamespace(namespace)),
		)
		if err != nil {
			tb.Fatal(err)
		}
		for _, pod := range pods.Items {
			print["Pod "+namespace+"/"+pod.Name] = string(pod.UID)
		}
		for _, deployment := range deployments.Items {
			print["Deployment "+namespace+"/"+deployment.Name] = fmt.Sprintf("%s generation %d", deployment.UID, deployment.Generation)
		}
	}
	return print
}
