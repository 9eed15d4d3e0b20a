package gateway_test

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
)

// stalls waits until the gateway says Stalled for a reason, and returns the message.
func (w *world) stalls(g *v1alpha1.GatewayInstance, reason string) string {
	w.Helper()
	var message string
	eventually.Succeeds(w, patience, func() error {
		now := w.see(g)
		stalled := meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionStalled)
		if stalled == nil || stalled.Reason != reason || now.Status.ObservedGeneration != now.Generation {
			return fmt.Errorf("conditions %+v", now.Status.Conditions)
		}
		message = stalled.Message
		return nil
	})
	return message
}

func TestWhatBelongsToSomebodyElseIsUntouchedUntilAPersonHandsItOver(t *testing.T) {
	w := given(t)
	w.stable(w.accept(imageOf(1)), 1)
	theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "edge", Namespace: w.tenant}, Data: map[string]string{"theirs": "x"}}
	w.make(theirs)
	g := w.gateway("edge")
	message := w.stalls(g, v1alpha1.ReasonForeignObject)
	for _, part := range []string{"ConfigMap edge", v1alpha1.AnnotationAdopt + "=true"} {
		if !strings.Contains(message, part) {
			t.Errorf("%q does not name %s", message, part)
		}
	}
	now := &corev1.ConfigMap{}
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(theirs), now); err != nil || now.ResourceVersion != theirs.ResourceVersion {
		t.Fatalf("it was touched: %+v %v", now, err)
	}

	since := w.mark()
	edit(w, theirs, func(o *corev1.ConfigMap) { o.Annotations = map[string]string{v1alpha1.AnnotationAdopt: "true"} })
	w.becomes(g, v1alpha1.ReasonReplicasAvailable)
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(theirs), now); err != nil || !metav1.IsControlledBy(now, g) || now.Data["gateway.toml"] != "a" {
		t.Errorf("it is not the gateway's: %+v %v", now, err)
	}
	if sent := w.writes(since); len(sent) > 20 {
		t.Errorf("%d requests", len(sent))
	}
}

func TestAForeignObjectStallsWithoutWriting(t *testing.T) {
	w := given(t)
	w.stable(w.accept(imageOf(1)), 1)
	w.make(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "edge", Namespace: w.tenant}})
	g := w.gateway("edge")
	w.stalls(g, v1alpha1.ReasonForeignObject)
	since := w.mark()
	edit(w, g, func(g *v1alpha1.GatewayInstance) {
		g.Annotations = map[string]string{v1alpha1.AnnotationReconcileRequestedAt: "now"}
	})
	eventually.Holds(t, aWhile, func() error {
		if sent := w.writes(since); len(sent) > 0 {
			return fmt.Errorf("sent %v", sent)
		}
		return nil
	})
}

func TestADeploymentWithAnotherSelectorCannotBeAdopted(t *testing.T) {
	w := given(t)
	w.stable(w.accept(imageOf(1)), 1)
	app := map[string]string{"app": "edge"}
	theirs := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "edge", Namespace: w.tenant, Annotations: map[string]string{v1alpha1.AnnotationAdopt: "true"}},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: app},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: app},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "gateway", Image: imageOf(1)}}},
			},
		},
	}
	w.make(theirs)
	g := w.gateway("edge")
	if message := w.stalls(g, v1alpha1.ReasonForeignObject); !strings.Contains(message, "spec.selector is immutable") {
		t.Error(message)
	}
}

func TestAnObjectThatAnotherControlsIsRefusedWhateverItsAnnotations(t *testing.T) {
	w := given(t)
	w.stable(w.accept(imageOf(1)), 1)
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner", Namespace: w.tenant}}
	w.make(owner)
	yes := true
	w.make(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: "edge", Namespace: w.tenant, Annotations: map[string]string{v1alpha1.AnnotationAdopt: "true"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, Controller: &yes}},
		},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}},
	})
	g := w.gateway("edge")
	if message := w.stalls(g, v1alpha1.ReasonForeignObject); !strings.Contains(message, "Service edge is controlled by ConfigMap owner") {
		t.Error(message)
	}
}

// The gateway is deleted and leaves its objects behind (kubectl delete --cascade=orphan), and is made again.
func TestAGatewayThatIsMadeAgainAdoptsWhatRunsWithoutRollingPods(t *testing.T) {
	w := given(t)
	g := w.running(two)
	uid, template := w.deployment(g).UID, w.deployment(g).Spec.Template
	w.stop()
	if err := w.Delete(t.Context(), g, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		t.Fatal(err)
	}
	eventually.Succeeds(t, collected, func() error {
		if metav1.GetControllerOf(w.deployment(g)) != nil {
			return fmt.Errorf("the Deployment has not been let go yet")
		}
		return client.IgnoreNotFound(w.Get(t.Context(), client.ObjectKeyFromObject(g), &v1alpha1.GatewayInstance{}))
	})
	// Meanwhile the release has moved on: what runs is kept until the window says otherwise.
	w.stable(w.accept(imageOf(2)), 2)
	w.start()
	eventually.Succeeds(t, patience, func() error {
		again := &v1alpha1.GatewayInstance{ObjectMeta: metav1.ObjectMeta{Name: g.Name, Namespace: g.Namespace}, Spec: g.Spec}
		if err := w.Create(t.Context(), again); err != nil {
			return err
		}
		g = again
		return nil
	})
	now := w.becomes(g, v1alpha1.ReasonReplicasAvailable)
	if r := now.Status.Revision; r.Attempt != 1 || r.Image != imageOf(1) {
		t.Errorf("recorded %+v", r)
	}
	d := w.deployment(g)
	if d.UID != uid || !equality.Semantic.DeepEqual(d.Spec.Template, template) || d.Annotations["deployment.kubernetes.io/revision"] != "1" {
		t.Errorf("pods were rolled: %+v", d.ObjectMeta)
	}
	if !metav1.IsControlledBy(d, g) {
		t.Error("the Deployment would outlive the gateway")
	}
}

func TestALostStatusIsAdoptedFromWhatRuns(t *testing.T) {
	w := given(t)
	g := w.running(two)
	w.stop()
	now := w.see(g)
	now.Status = v1alpha1.GatewayInstanceStatus{}
	if err := w.Status().Update(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	w.stable(w.accept(imageOf(2)), 2)
	generation := w.deployment(g).Generation
	since := w.mark()
	w.start()
	after := w.becomes(g, v1alpha1.ReasonReplicasAvailable)
	if r := after.Status.Revision; r.Attempt != 1 || r.Image != imageOf(1) {
		t.Errorf("recorded %+v", r)
	}
	if w.deployment(g).Generation != generation {
		t.Error("what runs was changed")
	}
	for _, e := range w.writes(since) {
		if e.Resource != "gatewayinstances" {
			t.Errorf("sent %s", e)
		}
	}
}

// Fails when a status that is lost while everything runs is made good by the resync alone.
func TestALostStatusIsToldAnewAtOnce(t *testing.T) {
	w := given(t)
	g := w.running(two)
	now := w.see(g)
	recorded := now.Status.Revision
	now.Status = v1alpha1.GatewayInstanceStatus{}
	if err := w.Status().Update(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	after := w.becomes(g, v1alpha1.ReasonReplicasAvailable)
	if r := after.Status.Revision; r.Name != recorded.Name || r.Image != recorded.Image {
		t.Errorf("recorded %+v, was %+v", r, recorded)
	}
}

// Fails when a gateway that is admitted and has lost its status reports nothing: its slot would be held for ever, and the
// rollout would not end. That what it runs has no revision any more must not keep it from being said.
func TestAGatewayThatIsAdmittedAndLosesItsStatusTakesWhatItWasGiven(t *testing.T) {
	for name, also := range map[string]func(*world, *v1alpha1.GatewayInstance){
		"status alone": func(*world, *v1alpha1.GatewayInstance) {},
		"and the revision that it runs": func(w *world, _ *v1alpha1.GatewayInstance) {
			w.delete(w.accept(imageOf(1)).ControllerRevision(w.gatehouse, w.release, 0))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := given(t)
			g := w.running()
			w.stop()
			now := w.see(g)
			now.Status = v1alpha1.GatewayInstanceStatus{}
			if err := w.Status().Update(t.Context(), now); err != nil {
				t.Fatal(err)
			}
			also(w, g)
			w.admit(g, w.accept(imageOf(2)), 2)
			w.start()
			after := w.runs(g, imageOf(2))
			if r := after.Status.Revision; r.Attempt != 2 || !r.WasReady {
				t.Errorf("recorded %+v", r)
			}
		})
	}
}

// A Deployment that a person has made by hand, with pods as they should be, is handed over.
func TestHandingOverADeploymentRollsNoPodsThatMatch(t *testing.T) {
	w := given(t)
	g := w.running(two)
	made := w.deployment(g)
	w.delete(g)
	eventually.Succeeds(t, collected, func() error {
		for _, object := range ownedObjects(g) {
			if err := w.Get(t.Context(), client.ObjectKeyFromObject(object), object); client.IgnoreNotFound(err) != nil || err == nil {
				return fmt.Errorf("the first %T is still there: %v", object, err)
			}
		}
		return nil
	})
	handed := metav1.ObjectMeta{Name: made.Name, Namespace: made.Namespace, Annotations: map[string]string{v1alpha1.AnnotationAdopt: "true"}}
	w.make(&corev1.ServiceAccount{ObjectMeta: *handed.DeepCopy()})
	byHand := &appsv1.Deployment{ObjectMeta: handed, Spec: made.Spec}
	byHand.Spec.ProgressDeadlineSeconds = nil
	w.make(byHand)
	eventually.Succeeds(t, patience, func() error {
		if ready := w.deployment(g).Status.AvailableReplicas; ready != 2 {
			return fmt.Errorf("%d available", ready)
		}
		return nil
	})
	again := w.gateway(g.Name, two)
	w.becomes(again, v1alpha1.ReasonReplicasAvailable)
	d := w.deployment(again)
	if d.UID != byHand.UID || d.Annotations["deployment.kubernetes.io/revision"] != "1" || !equality.Semantic.DeepEqual(d.Spec.Template, made.Spec.Template) {
		t.Errorf("pods were rolled: %+v", d)
	}
	if !metav1.IsControlledBy(d, again) || *d.Spec.ProgressDeadlineSeconds == 600 {
		t.Errorf("it was not taken over: %+v", d)
	}
	w.announced(again, v1alpha1.ReasonAdopted)
}

// A label makes nothing the gateway's: what is not controlled by it is not deleted for not being asked for.
func TestABystanderWithTheGatewaysLabelIsLeftAlone(t *testing.T) {
	w := given(t)
	g := w.running(two)
	bystander := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "bystander", Namespace: w.tenant, Labels: map[string]string{
		v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelGateway: g.Name,
	}}}
	w.make(bystander)
	scale(w, g, 1) // a pass, which deletes the disruption budget
	eventually.Succeeds(t, patience, func() error {
		budget := ownedObjects(g)[6]
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(budget), budget); client.IgnoreNotFound(err) != nil || err == nil {
			return fmt.Errorf("the disruption budget is still there: %v", err)
		}
		return nil
	})
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(bystander), bystander); err != nil {
		t.Error(err)
	}
}
