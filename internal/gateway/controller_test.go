package gateway_test

import (
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
)

func two(g *v1alpha1.GatewayInstance) { g.Spec.Replicas = ptr.To[int32](2) }

func TestANewGatewayGetsTheStableRevision(t *testing.T) {
	w := given(t)
	g := w.see(w.running(two))
	status := g.Status
	if status.Phase != v1alpha1.GatewayRunning || status.Image != imageOf(1) || status.ShortImage != "openshell@111111111111" {
		t.Errorf("status says %s %s %s", status.Phase, status.Image, status.ShortImage)
	}
	if r := status.Replicas; r.Desired != 2 || r.Updated != 2 || r.Ready != 2 || r.Summary != "2/2" {
		t.Errorf("replicas %+v", r)
	}
	if r := status.Revision; r.Release != w.release.Name || r.Attempt != 1 || r.Image != imageOf(1) {
		t.Errorf("recorded %+v", r)
	}
	for _, condition := range []string{v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled} {
		if meta.FindStatusCondition(status.Conditions, condition) != nil {
			t.Errorf("%s is there although nothing is under way", condition)
		}
	}
	for _, object := range ownedObjects(g) {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			t.Error(err)
		}
	}
	if got, want := status.Selector, "app.kubernetes.io/instance=edge,gatehouse.dev/gateway=edge"; got != want {
		t.Errorf("selector %q, want %q", got, want)
	}
}

func TestAnImageEditIsThreeRequests(t *testing.T) {
	w := given(t)
	g := w.running()
	since := w.mark()
	w.admit(g, w.accept(imageOf(2)), 2)
	w.runs(g, imageOf(2))
	var got []string
	for _, e := range w.writes(since) {
		got = append(got, fmt.Sprintf("%s %s/%s %d", e.Verb, e.Resource, e.Subresource, e.Code))
	}
	want := []string{"patch gatewayinstances/status 200", "patch deployments/ 200", "patch gatewayinstances/status 200"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("sent %q, want %q", got, want)
	}
}

func TestOnlyTheAttemptMoves(t *testing.T) {
	w := given(t)
	g := w.running()
	before, deployment := w.see(g), w.deployment(g)
	since := w.mark()
	w.admit(g, w.accept(imageOf(1)), 5)
	eventually.Succeeds(t, patience, func() error {
		if now := w.see(g); now.Status.Revision.Attempt != 5 {
			return fmt.Errorf("attempt %d", now.Status.Revision.Attempt)
		}
		return nil
	})
	if sent := w.writes(since); len(sent) != 1 {
		t.Errorf("sent %v, want the record alone", sent)
	}
	ready := func(g *v1alpha1.GatewayInstance) any {
		return *meta.FindStatusCondition(g.Status.Conditions, v1alpha1.ConditionReady)
	}
	if was, is := ready(before), ready(w.see(g)); was != is {
		t.Errorf("Ready was %v and is %v", was, is)
	}
	if w.deployment(g).ResourceVersion != deployment.ResourceVersion {
		t.Error("the Deployment was written")
	}
}

func TestConvergedMeansNoWrites(t *testing.T) {
	w := given(t)
	g := w.running(two)
	since := w.mark()
	w.stop()
	w.start()
	// A pass that does write shows that those before it are over.
	probe := w.gateway("probe")
	w.becomes(probe, v1alpha1.ReasonReplicasAvailable)
	edit(w, g, func(g *v1alpha1.GatewayInstance) {
		g.Annotations = map[string]string{v1alpha1.AnnotationReconcileRequestedAt: "now"}
	})
	w.delete(probe)
	eventually.Holds(t, aWhile, func() error {
		for _, e := range w.writes(since) {
			if e.Name == g.Name || e.Name == g.Name+".view" {
				return fmt.Errorf("sent %s", e)
			}
		}
		return nil
	})
}

func TestATenantsEditIsAppliedAtOnceOnTheRecordedRevision(t *testing.T) {
	w := given(t)
	g := w.running()
	w.window(func(r *v1alpha1.RolloutStatus) { // a rollout that has not admitted the gateway
		r.Attempt, r.Target, r.State = 2, w.accept(imageOf(2)).Name(), v1alpha1.RolloutPaused
	})
	template := w.deployment(g).Spec.Template.Annotations
	edit(w, g, func(g *v1alpha1.GatewayInstance) { g.Spec.Config["gateway.toml"] = "b" })
	now := w.becomes(g, v1alpha1.ReasonReplicasAvailable)
	if now.Status.Image != imageOf(1) {
		t.Errorf("it runs %s", now.Status.Image)
	}
	if after := w.deployment(g).Spec.Template.Annotations; after[v1alpha1.AnnotationConfigHash] == template[v1alpha1.AnnotationConfigHash] {
		t.Error("the pods were not rolled: the hash of the configuration is the same")
	}
}

func TestScaling(t *testing.T) {
	w := given(t)
	g := w.running()
	scale(w, g, 3)
	now := w.becomes(g, v1alpha1.ReasonReplicasAvailable)
	if now.Status.Replicas.Summary != "3/3" {
		t.Errorf("replicas %+v", now.Status.Replicas)
	}
	budget := ownedObjects(g)[6]
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(budget), budget); err != nil {
		t.Errorf("three replicas have no disruption budget: %v", err)
	}
	scale(w, g, 1)
	eventually.Succeeds(t, patience, func() error {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(budget), budget); !apierrors.IsNotFound(err) {
			return fmt.Errorf("one replica has a disruption budget (%v), which would block every drain", err)
		}
		return nil
	})
	if now := w.becomes(g, v1alpha1.ReasonReplicasAvailable); now.Status.Replicas.Summary != "1/1" {
		t.Errorf("replicas %+v", now.Status.Replicas)
	}
}

func TestDeletingAGatewayRemovesWhatItOwnedAndNothingElse(t *testing.T) {
	w := given(t)
	g := w.running(two)
	other := w.gateway("other", two)
	w.becomes(other, v1alpha1.ReasonReplicasAvailable)
	w.delete(g)
	eventually.Succeeds(t, collected, func() error {
		for _, object := range ownedObjects(g) {
			if err := w.Get(t.Context(), client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
				return fmt.Errorf("%T %s is still there: %v", object, object.GetName(), err)
			}
		}
		return nil
	})
	for _, object := range ownedObjects(other) {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			t.Errorf("another gateway's object went: %v", err)
		}
	}
}
