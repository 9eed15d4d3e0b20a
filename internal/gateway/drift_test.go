package gateway_test

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
)

// tamper is what somebody does to an object of each kind.
func tamper(object client.Object) {
	switch o := object.(type) {
	case *appsv1.Deployment:
		o.Spec.Template.Spec.Containers[0].Image = imageOf(9)
	case *corev1.Service:
		o.Spec.Ports[0].TargetPort = intstr.FromInt32(1)
	case *corev1.ServiceAccount:
		o.AutomountServiceAccountToken = ptr.To(true)
	case *corev1.ConfigMap:
		o.Data["gateway.toml"] = "tampered"
	case *networkingv1.NetworkPolicy:
		o.Spec.Ingress = nil
	case *rbacv1.RoleBinding:
		o.Subjects[0].Name = "somebody"
	case *policyv1.PodDisruptionBudget:
		o.Spec.MaxUnavailable = ptr.To(intstr.FromInt32(2))
	}
}

// content is what counts of an object.
func content(object client.Object) any {
	switch o := object.(type) {
	case *appsv1.Deployment:
		return o.Spec
	case *corev1.Service:
		return o.Spec.Ports
	case *corev1.ServiceAccount:
		return o.AutomountServiceAccountToken
	case *corev1.ConfigMap:
		return o.Data
	case *networkingv1.NetworkPolicy:
		return o.Spec
	case *rbacv1.RoleBinding:
		return o.Subjects
	case *policyv1.PodDisruptionBudget:
		return o.Spec
	}
	return nil
}

func snapshot(w *world, g *v1alpha1.GatewayInstance) map[string]any {
	w.Helper()
	out := map[string]any{}
	for _, object := range ownedObjects(g) {
		if err := w.Get(w.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			w.Fatal(err)
		}
		out[fmt.Sprintf("%T", object)] = content(object)
	}
	return out
}

func (w *world) repaired(g *v1alpha1.GatewayInstance, want map[string]any) {
	w.Helper()
	for _, object := range ownedObjects(g) {
		eventually.Succeeds(w, patience, func() error {
			if err := w.Get(w.Context(), client.ObjectKeyFromObject(object), object); err != nil {
				return err
			}
			if got := content(object); !equality.Semantic.DeepEqual(got, want[fmt.Sprintf("%T", object)]) {
				return fmt.Errorf("%T is %+v", object, got)
			}
			if !metav1.IsControlledBy(object, g) {
				return fmt.Errorf("%T is not the gateway's", object)
			}
			return nil
		})
	}
}

func TestWhatSomebodyEditsIsSetBack(t *testing.T) {
	w := given(t)
	g := w.running(two)
	want := snapshot(w, g)
	for _, object := range ownedObjects(g) {
		edit(w, object, tamper)
	}
	w.repaired(g, want)
	w.runs(g, imageOf(1))
	w.announced(g, v1alpha1.ReasonDriftRepaired)
}

func TestWhatSomebodyEditsWhileGatehouseIsDownIsSetBack(t *testing.T) {
	w := given(t)
	g := w.running(two)
	want := snapshot(w, g)
	w.stop()
	for _, object := range ownedObjects(g) {
		edit(w, object, tamper)
	}
	w.start()
	w.repaired(g, want)
	w.runs(g, imageOf(1))
}

func TestWhatSomebodyDeletesIsMadeAgain(t *testing.T) {
	w := given(t)
	g := w.running(two)
	want := snapshot(w, g)
	for _, object := range ownedObjects(g) {
		w.delete(object)
	}
	w.repaired(g, want)
	w.becomes(g, v1alpha1.ReasonReplicasAvailable)
}

func TestWhatSomebodyDeletesWhileGatehouseIsDownIsMadeAgain(t *testing.T) {
	w := given(t)
	g := w.running(two)
	want := snapshot(w, g)
	w.stop()
	for _, object := range ownedObjects(g) {
		w.delete(object)
	}
	w.start()
	w.repaired(g, want)
	w.becomes(g, v1alpha1.ReasonReplicasAvailable)
}

// An object that has lost its labels is in no cache, and one that has lost its owner would outlive the gateway.
func TestLostLabelsAndOwnersComeBack(t *testing.T) {
	w := given(t)
	g := w.running(two)
	for _, object := range ownedObjects(g) {
		edit(w, object, func(o client.Object) { o.SetLabels(nil) })
	}
	labelled := func() error {
		for _, object := range ownedObjects(g) {
			if err := w.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
				return err
			}
			if object.GetLabels()[v1alpha1.LabelGateway] != g.Name || !metav1.IsControlledBy(object, g) {
				return fmt.Errorf("%T has labels %v and owners %v", object, object.GetLabels(), object.GetOwnerReferences())
			}
		}
		return nil
	}
	eventually.Succeeds(t, patience, labelled)
	for _, object := range ownedObjects(g) {
		edit(w, object, func(o client.Object) { o.SetOwnerReferences(nil) })
	}
	eventually.Succeeds(t, patience, labelled)
}

// A container or a variable that somebody adds to the pods would run unverified.
func TestWhatSomebodyAddsIsTakenAway(t *testing.T) {
	w := given(t)
	g := w.running()
	config, service := ownedObjects(g)[3].(*corev1.ConfigMap), ownedObjects(g)[1].(*corev1.Service)
	edit(w, config, func(c *corev1.ConfigMap) { c.Data["more.toml"] = "x" })
	edit(w, service, func(s *corev1.Service) {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "more", Port: 99})
	})
	edit(w, w.deployment(g), func(d *appsv1.Deployment) {
		pod := &d.Spec.Template.Spec
		pod.Containers = append(pod.Containers, corev1.Container{Name: "sidecar", Image: "example.com/sidecar:latest"})
		pod.Containers[0].Env = []corev1.EnvVar{{Name: "LD_PRELOAD", Value: "/tmp/x.so"}}
		pod.HostNetwork = true
	})
	eventually.Succeeds(t, patience, func() error {
		pod := w.deployment(g).Spec.Template.Spec
		if len(pod.Containers) != 1 || len(pod.Containers[0].Env) != 0 || pod.HostNetwork {
			return fmt.Errorf("the pods are %+v", pod)
		}
		for _, object := range []client.Object{config, service} {
			if err := w.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
				return err
			}
		}
		if len(config.Data) != 1 || len(service.Spec.Ports) != 1 {
			return fmt.Errorf("files %v, ports %v", config.Data, service.Spec.Ports)
		}
		return nil
	})
	w.runs(g, imageOf(1))
}

// Fails when what somebody has added stays because Gatehouse has another reason to write as well: an edit of the tenant's,
// or nothing known any more of what was applied. After it, all would seem to be as it was left.
func TestWhatSomebodyAddsIsTakenAwayWhateverElseThereIsToDo(t *testing.T) {
	for name, meanwhile := range map[string]func(*world, *v1alpha1.GatewayInstance){
		"an edit": func(w *world, g *v1alpha1.GatewayInstance) {
			edit(w, g.DeepCopy(), func(g *v1alpha1.GatewayInstance) {
				g.Spec.Config["gateway.toml"] = "listen = 2\n"
				g.Spec.Resources = &v1alpha1.Resources{Requests: corev1.ResourceList{"cpu": resource.MustParse("1m")}}
			})
		},
		"a new revision": func(w *world, g *v1alpha1.GatewayInstance) {
			w.admit(g, w.accept(imageOf(2)), 2)
		},
		"a lost status": func(w *world, g *v1alpha1.GatewayInstance) {
			now := w.see(g)
			now.Status = v1alpha1.GatewayInstanceStatus{}
			if err := w.Status().Update(w.Context(), now); err != nil {
				w.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := given(t)
			g := w.running()
			w.stop()
			config, service := ownedObjects(g)[3].(*corev1.ConfigMap), ownedObjects(g)[1].(*corev1.Service)
			edit(w, config, func(c *corev1.ConfigMap) { c.Data["more.toml"] = "x" })
			edit(w, service, func(s *corev1.Service) {
				delete(s.Labels, v1alpha1.LabelManagedBy)
				s.Spec.Selector["app"] = "other"
			})
			edit(w, w.deployment(g), func(d *appsv1.Deployment) {
				pod := &d.Spec.Template.Spec
				pod.Containers = append(pod.Containers, corev1.Container{Name: "sidecar", Image: "example.com/sidecar:latest"})
			})
			meanwhile(w, g)
			w.start()
			eventually.Succeeds(t, patience, func() error {
				if pod := w.deployment(g).Spec.Template.Spec; len(pod.Containers) != 1 {
					return fmt.Errorf("the pods are %+v", pod)
				}
				for _, object := range []client.Object{config, service} {
					if err := w.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
						return err
					}
				}
				if len(config.Data) != 1 || len(service.Spec.Selector) != 2 || service.Labels[v1alpha1.LabelManagedBy] != v1alpha1.ManagedBy {
					return fmt.Errorf("files %v, the Service's labels %v, its selector %v", config.Data, service.Labels, service.Spec.Selector)
				}
				return nil
			})
			w.becomes(g, v1alpha1.ReasonReplicasAvailable)
		})
	}
}

// A person may restart the pods as usual.
func TestKubectlRolloutRestartWorks(t *testing.T) {
	w := given(t)
	g := w.running()
	const restarted = "kubectl.kubernetes.io/restartedAt"
	edit(w, w.deployment(g), func(d *appsv1.Deployment) { d.Spec.Template.Annotations[restarted] = "now" })
	w.becomes(g, v1alpha1.ReasonReplicasAvailable)
	eventually.Holds(t, aWhile, func() error {
		if w.deployment(g).Spec.Template.Annotations[restarted] != "now" {
			return fmt.Errorf("the restart was taken back, which restarts the pods once more")
		}
		return nil
	})
}

// A version of Gatehouse that renders the same inputs differently must roll nothing.
func TestAnotherRendererChangesNothingThatRuns(t *testing.T) {
	w := given(t)
	g := w.running()
	w.stop()
	// As if an older version had rendered and applied it: the inputs are the same, the result is another.
	d := edit(w, w.deployment(g), func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = ptr.To[int32](7) })
	now := w.see(g)
	for i, applied := range now.Status.Applied {
		if applied.Kind == "Deployment" {
			parts := strings.Split(applied.Mark, "/")
			now.Status.Applied[i].Mark = fmt.Sprintf("%s/%d/%s", parts[0], d.Generation, parts[2])
		}
	}
	if err := w.Status().Update(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	since := w.mark()
	w.start()
	probe := w.gateway("probe")
	w.becomes(probe, v1alpha1.ReasonReplicasAvailable)
	eventually.Holds(t, aWhile, func() error {
		for _, e := range w.writes(since) {
			if strings.HasPrefix(e.Name, g.Name) {
				return fmt.Errorf("sent %s", e)
			}
		}
		return nil
	})
}

// Gatehouse stopped between applying and writing status: the next one rolls nothing twice.
func TestStoppedBetweenApplyAndStatus(t *testing.T) {
	w := given(t)
	g := w.running()
	w.stop()
	now := w.see(g)
	now.Status.Applied = nil
	if err := w.Status().Update(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	generation := w.deployment(g).Generation
	w.start()
	eventually.Succeeds(t, patience, func() error {
		if now := w.see(g); len(now.Status.Applied) == 0 {
			return fmt.Errorf("no marks yet")
		}
		return nil
	})
	if after := w.deployment(g).Generation; after != generation {
		t.Errorf("the Deployment went from generation %d to %d", generation, after)
	}
}
