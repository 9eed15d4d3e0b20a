package gateway_test

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
)

func TestAGatewayWaitsForItsRelease(t *testing.T) {
	w := given(t)
	g := w.gateway("edge")
	if now := w.becomes(g, v1alpha1.ReasonWaitingForRelease); now.Status.Phase != v1alpha1.GatewayPending {
		t.Errorf("phase %s", now.Status.Phase)
	}
	given := w.accept(imageOf(1))
	w.window(func(r *v1alpha1.RolloutStatus) { r.Attempt, r.Target = 1, given.Name() })
	w.becomes(g, v1alpha1.ReasonWaitingForWindow)
	w.admit(g, given, 1)
	w.runs(g, imageOf(1))
}

func TestWithoutItsReleaseAGatewayRunsOnAndSaysSo(t *testing.T) {
	w := given(t)
	g := w.running()
	w.delete(w.release)
	if message := w.stalls(g, v1alpha1.ReasonReleaseNotFound); !strings.Contains(message, w.release.Name) {
		t.Error(message)
	}
	if now := w.see(g); now.Status.Phase != v1alpha1.GatewayRunning || now.Status.Replicas.Summary != "1/1" {
		t.Errorf("status %+v", now.Status)
	}
	w.deployment(g)
}

func TestWithoutAReleaseNothingIsMade(t *testing.T) {
	w := given(t)
	g := w.gateway("edge", func(g *v1alpha1.GatewayInstance) { g.Spec.ReleaseRef.Name = "no-such-release" })
	w.stalls(g, v1alpha1.ReasonReleaseNotFound)
	err := w.Get(t.Context(), client.ObjectKeyFromObject(g), &appsv1.Deployment{})
	if client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("a Deployment: %v", err)
	}
}

func TestWithoutItsRevisionNothingIsTouched(t *testing.T) {
	w := given(t)
	g := w.running()
	stored := &appsv1.ControllerRevision{}
	if err := w.Get(t.Context(), client.ObjectKey{Namespace: w.gatehouse, Name: w.see(g).Status.Revision.Name}, stored); err != nil {
		t.Fatal(err)
	}
	w.delete(stored)
	edit(w, g, func(g *v1alpha1.GatewayInstance) { g.Spec.Config["gateway.toml"] = "b" })
	if message := w.stalls(g, v1alpha1.ReasonRevisionNotFound); !strings.Contains(message, stored.Name) {
		t.Error(message)
	}
	if now := w.see(g); now.Status.Phase != v1alpha1.GatewayRunning || now.Status.Image != imageOf(1) {
		t.Errorf("status %+v", now.Status)
	}
	// It appears again, which wakes the gateway, and the edit is made up for.
	w.accept(imageOf(1))
	w.becomes(g, v1alpha1.ReasonReplicasAvailable)
}

// A gateway that was barred and is let in may take what was stable long ago in the moment in which that is deleted. It runs
// on, and the window gives it the next.
func TestAGatewayWhoseRevisionIsGoneTakesWhatTheWindowGives(t *testing.T) {
	w := given(t)
	g := w.running()
	w.delete(&appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: w.gatehouse, Name: w.see(g).Status.Revision.Name}})
	edit(w, g, func(g *v1alpha1.GatewayInstance) { g.Spec.Config["gateway.toml"] = "b" })
	w.stalls(g, v1alpha1.ReasonRevisionNotFound)
	w.admit(g, w.accept(imageOf(2)), 2)
	w.runs(g, imageOf(2))
	w.becomes(g, v1alpha1.ReasonReplicasAvailable)
}

// loses takes the gateway's Service away, and waits until it is there again and status knows it: a manager that is stopped
// before that does not know whose it is, and applies it once more.
func (w *world) loses(g *v1alpha1.GatewayInstance) {
	w.Helper()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: g.Name}}
	w.delete(service)
	eventually.Succeeds(w, patience, func() error {
		now := &corev1.Service{}
		if err := w.Get(w.Context(), client.ObjectKeyFromObject(service), now); err != nil {
			return err
		}
		for _, applied := range w.see(g).Status.Applied {
			if applied.Kind == "Service" && strings.HasPrefix(applied.Mark, string(now.UID)+"/") {
				return nil
			}
		}
		return fmt.Errorf("service %s is not in the gateway's status", now.UID)
	})
}

func TestOnlyAllowedNamespacesTakeSomethingNew(t *testing.T) {
	w := given(t)
	g := w.running()
	edit(w, w.profile, func(p *v1alpha1.GatewayProfile) {
		p.Spec.AllowedNamespaces = &v1alpha1.AllowedNamespaces{
			Names:    []string{"elsewhere"},
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"gateways": "yes"}},
		}
	})
	if message := w.stalls(g, v1alpha1.ReasonNamespaceNotAllowed); !strings.Contains(message, w.tenant) {
		t.Error(message)
	}
	// What runs goes on as it should be.
	w.loses(g)
	w.admit(g, w.accept(imageOf(2)), 2)
	eventually.Succeeds(t, patience, func() error {
		if now := w.see(g); now.Status.Revision.Attempt != 2 {
			return fmt.Errorf("what the window gave is not recorded: %+v", now.Status.Revision)
		}
		return nil
	})
	if now := w.see(g); now.Status.Revision.Image != imageOf(1) {
		t.Errorf("it says that it was given %s", now.Status.Revision.Image)
	}
	w.loses(g) // and what runs is still kept as it should be
	if d := w.deployment(g); d.Spec.Template.Spec.Containers[0].Image != imageOf(1) {
		t.Error("it was applied")
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.tenant}}
	edit(w, namespace, func(n *corev1.Namespace) { n.Labels["gateways"] = "yes" })
	// What the window gave then is not taken now: by now it may have given the slot to another.
	w.becomes(g, v1alpha1.ReasonReplicasAvailable)
	if d := w.deployment(g); d.Spec.Template.Spec.Containers[0].Image != imageOf(1) {
		t.Error("it was applied on an old permission")
	}
	w.admit(g, w.accept(imageOf(2)), 3)
	w.runs(g, imageOf(2))
}

// Fails when a gateway that may not take what the window gave does not say so because what it runs is not stored any more,
// as when its release was deleted and made again: its slot would be held for ever.
func TestWhatIsNotTakenIsReportedAlsoWithoutARevision(t *testing.T) {
	w := given(t)
	g := w.running()
	edit(w, w.profile, func(p *v1alpha1.GatewayProfile) {
		p.Spec.AllowedNamespaces = &v1alpha1.AllowedNamespaces{Names: []string{"elsewhere"}}
	})
	w.stalls(g, v1alpha1.ReasonNamespaceNotAllowed)
	w.delete(w.accept(imageOf(1)).ControllerRevision(w.gatehouse, w.release, 0))
	w.admit(g, w.accept(imageOf(2)), 2)
	eventually.Succeeds(t, patience, func() error {
		if now := w.see(g); now.Status.Revision.Attempt != 2 || now.Status.Revision.Image != imageOf(1) {
			return fmt.Errorf("what the window gave is not recorded: %+v", now.Status.Revision)
		}
		return nil
	})
	w.stalls(g, v1alpha1.ReasonNamespaceNotAllowed)
}

// Who may write a Deployment may write the marks on it. They make nobody run what another release gives.
func TestForgedMarksOpenNoOtherRelease(t *testing.T) {
	w := given(t)
	other := w.accept(imageOf(7))
	follows := &v1alpha1.GatewayRelease{
		ObjectMeta: metav1.ObjectMeta{Name: w.release.Name + "-own"},
		Spec:       w.release.Spec,
	}
	w.make(follows)
	replicas := int32(1)
	pod := map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelGateway: "evil", "app.kubernetes.io/instance": "evil"}
	w.make(&appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "evil", Namespace: w.tenant, Labels: pod, Annotations: map[string]string{
			v1alpha1.AnnotationInputs: "x", v1alpha1.AnnotationRevision: other.Name(), v1alpha1.AnnotationRevisionRelease: w.release.Name,
			v1alpha1.AnnotationAttempt: "1", v1alpha1.AnnotationImage: imageOf(7),
		}},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: pod},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: pod},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "gateway", Image: imageOf(7)}}},
			},
		},
	})
	g := w.gateway("evil", func(g *v1alpha1.GatewayInstance) { g.Spec.ReleaseRef.Name = follows.Name })
	now := w.becomes(g, v1alpha1.ReasonNotAdopted)
	if now.Status.Revision != nil {
		t.Errorf("it has recorded %+v", now.Status.Revision)
	}
	bindings := &rbacv1.RoleBindingList{}
	if err := w.List(t.Context(), bindings, client.InNamespace(w.tenant)); err != nil {
		t.Fatal(err)
	}
	if len(bindings.Items) > 0 {
		t.Errorf("roles were bound: %v", bindings.Items)
	}
}

func TestAProfileThatIsGoneStopsNothingThatRuns(t *testing.T) {
	w := given(t)
	g := w.running()
	w.delete(w.profile)
	w.loses(g)
	w.becomes(g, v1alpha1.ReasonReplicasAvailable)
}

func TestATenantsMistakeNamesTheField(t *testing.T) {
	w := given(t)
	g := w.running()
	edit(w, g, func(g *v1alpha1.GatewayInstance) {
		g.Spec.Volumes = []v1alpha1.Volume{{Name: "tmp", MountPath: "/x", SecretRef: &v1alpha1.LocalObjectReference{Name: "s"}}}
	})
	if message := w.stalls(g, v1alpha1.ReasonInvalidSpec); !strings.HasPrefix(message, "spec.volumes[tmp].name: ") {
		t.Error(message)
	}
	edit(w, g, func(g *v1alpha1.GatewayInstance) { g.Spec.Volumes[0].Name = "secrets" })
	w.becomes(g, v1alpha1.ReasonReplicasAvailable)
}

func TestWhatTheAPIServerRefusesNamesTheField(t *testing.T) {
	w := given(t)
	g := w.running()
	edit(w, g, func(g *v1alpha1.GatewayInstance) {
		g.Spec.Resources = &v1alpha1.Resources{
			Requests: corev1.ResourceList{"cpu": resource.MustParse("2")},
			Limits:   corev1.ResourceList{"cpu": resource.MustParse("1")},
		}
	})
	if message := w.stalls(g, v1alpha1.ReasonApplyFailed); !strings.Contains(message, "spec.template.spec.containers[0].resources.requests") {
		t.Error(message)
	}
	// Another pass tries once more and has nothing new to say.
	since := w.mark()
	edit(w, g, func(g *v1alpha1.GatewayInstance) {
		g.Annotations = map[string]string{v1alpha1.AnnotationReconcileRequestedAt: "now"}
	})
	tried := func() []string {
		var out []string
		for _, e := range w.writes(since) {
			out = append(out, fmt.Sprintf("%s %d", e.Resource, e.Code))
		}
		return out
	}
	eventually.Succeeds(t, patience, func() error {
		if len(tried()) == 0 {
			return fmt.Errorf("nothing was sent")
		}
		return nil
	})
	eventually.Holds(t, aWhile, func() error {
		if sent := tried(); fmt.Sprint(sent) != "[deployments 422]" {
			return fmt.Errorf("sent %v", sent)
		}
		return nil
	})
}

func TestPodsThatDoNotComeUpAreNamedByTheirReason(t *testing.T) {
	w := given(t)
	g := w.running()
	if err := kubernetes.BadPods(t.Context(), digest(13), cluster.CrashLoop); err != nil {
		t.Fatal(err)
	}
	w.admit(g, w.accept(imageOf(13)), 2)
	now := w.becomes(g, v1alpha1.ReasonNotProgressing)
	ready := meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionReady)
	if ready.Message != "Deployment edge does not progress: CrashLoopBackOff" {
		t.Error(ready.Message)
	}
	if now.Status.Image != imageOf(1) || now.Status.Replicas.Ready != 1 {
		t.Errorf("the old pod was not kept: %+v", now.Status)
	}
}

func TestAQuotaThatRefusesPodsIsNamed(t *testing.T) {
	w := given(t)
	g := w.running()
	w.make(&corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "pods", Namespace: w.tenant},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": resource.MustParse("1")}},
	})
	eventually.Succeeds(t, patience, func() error {
		quota := &corev1.ResourceQuota{}
		if err := w.Get(t.Context(), client.ObjectKey{Namespace: w.tenant, Name: "pods"}, quota); err != nil {
			return err
		}
		if used := quota.Status.Used["pods"]; used.Value() != 1 {
			return fmt.Errorf("used %s", used.String())
		}
		return nil
	})
	w.admit(g, w.accept(imageOf(2)), 2)
	now := w.becomes(g, v1alpha1.ReasonNotProgressing)
	if ready := meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionReady); ready.Message != "Deployment edge does not progress: FailedCreate" {
		t.Error(ready.Message)
	}
}

func TestReplicasThatAreLostAreTold(t *testing.T) {
	w := given(t)
	g := w.running(two)
	w.setReady(g, corev1.ConditionFalse)
	now := w.becomes(g, v1alpha1.ReasonReplicasUnavailable)
	if now.Status.Phase != v1alpha1.GatewayDegraded {
		t.Errorf("phase %s", now.Status.Phase)
	}
	w.setReady(g, corev1.ConditionTrue)
	w.becomes(g, v1alpha1.ReasonReplicasAvailable)
}

// setReady writes what a kubelet would about the gateway's pods.
func (w *world) setReady(g *v1alpha1.GatewayInstance, status corev1.ConditionStatus) {
	w.Helper()
	pods := &corev1.PodList{}
	if err := w.List(w.Context(), pods, client.InNamespace(g.Namespace), client.MatchingLabels{v1alpha1.LabelGateway: g.Name}); err != nil {
		w.Fatal(err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		for j := range pod.Status.Conditions {
			if pod.Status.Conditions[j].Type == corev1.PodReady {
				pod.Status.Conditions[j].Status = status
			}
		}
		if err := w.Status().Update(w.Context(), pod); err != nil {
			w.Fatal(err)
		}
	}
}

// announced waits for an event about the gateway.
func (w *world) announced(g *v1alpha1.GatewayInstance, reason string) {
	w.Helper()
	eventually.Succeeds(w, patience, func() error {
		found := &corev1.EventList{}
		if err := w.List(w.Context(), found, client.InNamespace(g.Namespace)); err != nil {
			return err
		}
		var reasons []string
		for _, e := range found.Items {
			if e.InvolvedObject.Name == g.Name && e.InvolvedObject.Kind == "GatewayInstance" {
				if e.Reason == reason {
					return nil
				}
				reasons = append(reasons, e.Reason)
			}
		}
		return fmt.Errorf("no event %s among %v", reason, reasons)
	})
}

// An admission policy of the cluster may refuse now and allow later, so its refusal is tried again.
func TestWhatAnAdmissionPolicyRefusesIsTriedAgain(t *testing.T) {
	w := given(t)
	g := w.running()
	policy := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
		"metadata": map[string]any{"name": w.tenant},
		"spec": map[string]any{
			"matchConstraints": map[string]any{
				"namespaceSelector": map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": w.tenant}},
				"resourceRules": []any{map[string]any{
					"apiGroups": []any{"apps"}, "apiVersions": []any{"v1"}, "operations": []any{"UPDATE"}, "resources": []any{"deployments"},
				}},
			},
			"validations": []any{map[string]any{"expression": "request.userInfo.username == 'nobody' || object.spec.replicas == 1"}},
		},
	}}
	binding := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
		"metadata": map[string]any{"name": w.tenant},
		"spec":     map[string]any{"policyName": w.tenant, "validationActions": []any{"Deny"}},
	}}
	w.make(policy)
	w.make(binding)
	deployment := w.deployment(g)
	eventually.Succeeds(t, patience, func() error { // a policy takes effect within moments
		deployment.Spec.Replicas = ptr.To[int32](2)
		if err := w.Update(t.Context(), deployment, client.DryRunAll); err == nil {
			return fmt.Errorf("the policy refuses nothing yet")
		}
		deployment = w.deployment(g)
		return nil
	})

	scale(w, g, 2)
	now := w.becomes(g, v1alpha1.ReasonApplyFailed)
	if stalled := meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionStalled); stalled != nil {
		t.Errorf("given up: %+v", stalled)
	}
	w.delete(binding)
	w.becomes(g, v1alpha1.ReasonReplicasAvailable)
}
