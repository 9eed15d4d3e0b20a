package contract

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/faultproxy"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
	"github.com/gatehouse-dev/gatehouse/test/manager"
)

// Fails when a verdict is published under a generation that it was not computed from: a person edits faster than the
// controller passes, and every version of the release that was ever stored is looked at.
func TestC05AVerdictBelongsToTheSpecThatItWasComputedFrom(t *testing.T) {
	running(t)
	f := fleet.New(t, product, fleet.Options{Gateways: 2})
	f.Converged(t, f.V1)
	v2 := f.Push(t, "v2")

	watcher, err := fleet.NewClient(product.Config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), fleet.Patience)
	defer cancel()
	versions, err := watcher.Watch(ctx, &v1alpha1.GatewayReleaseList{}, &client.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", f.Name)})
	if err != nil {
		t.Fatal(err)
	}
	defer versions.Stop()

	const edits = 12
	for n := range edits {
		if n%2 == 0 {
			f.SetImage(t, fmt.Sprintf("no image %d", n))
		} else {
			f.SetImage(t, f.Image("v2"))
		}
	}
	last := f.Release(t).Generation

	images := map[int64]string{}
	seen := 0
	for event := range versions.ResultChan() {
		if event.Type == watch.Error {
			t.Fatalf("watch: %v", event.Object)
		}
		release := event.Object.(*v1alpha1.GatewayRelease)
		images[release.Generation] = release.Spec.Image
		observed := release.Status.ObservedGeneration
		spec, known := images[observed]
		if known {
			seen++
			invalid := strings.HasPrefix(release.Status.Summary, "Invalid: ")
			if malformed := strings.HasPrefix(spec, "no image"); malformed != invalid {
				t.Errorf("generation %d is %q, and of it is said %q", observed, spec, release.Status.Summary)
			}
		}
		for _, condition := range release.Status.Conditions {
			if condition.ObservedGeneration > release.Generation || condition.ObservedGeneration == 0 {
				t.Errorf("generation %d: condition %s is of generation %d", release.Generation, condition.Type, condition.ObservedGeneration)
			}
		}
		if observed == last && release.Status.Rollout.State == v1alpha1.RolloutComplete && release.Status.Image == f.Pinned(v2) {
			break
		}
	}
	if seen == 0 || ctx.Err() != nil {
		t.Fatalf("the last edit was not seen to be carried out (%d verdicts seen): %v", seen, ctx.Err())
	}
	f.Converged(t, v2)
	for _, object := range []struct {
		generation int64
		conditions []metav1.Condition
	}{
		{f.Release(t).Generation, f.Release(t).Status.Conditions},
		{f.Gateway(t, 0).Generation, f.Gateway(t, 0).Status.Conditions},
	} {
		for _, condition := range object.conditions {
			if condition.ObservedGeneration != object.generation {
				t.Errorf("at rest, condition %s is of generation %d and the spec of %d", condition.Type, condition.ObservedGeneration, object.generation)
			}
		}
	}
}

// A pause is written that the manager is not told of, while a slot of the window becomes free. Fails when somebody is
// admitted by a view from before the pause.
func TestC05APauseHoldsFromTheMomentThatItIsWritten(t *testing.T) {
	shared.Kill()
	proxy := faultproxy.Start(t, faultproxy.Options{Kubeconfig: product.Kubeconfig})
	options := product.Manager("gatehouse-0")
	options.Kubeconfig = proxy.Kubeconfig
	manager.Start(t, options)
	f := fleet.New(t, product, fleet.Options{Gateways: 3, Release: func(r *v1alpha1.GatewayRelease) {
		r.Spec.Rollout.MaxUnavailable = ptr.To(intstr.FromInt32(1))
		r.Spec.Rollout.MinReadySeconds = ptr.To[int32](3) // the slot becomes free after the pause
	}})
	f.Converged(t, f.V1)
	v2 := f.Push(t, "v2")
	f.SetImage(t, f.Image("v2"))
	inFlight(t, f, v2)
	release := proxy.Hold(faultproxy.Every(faultproxy.Verb("watch"), faultproxy.Of("gatehouse.dev", "gatewayreleases")))
	t.Cleanup(release)
	paused := f.EditRelease(t, func(r *v1alpha1.GatewayRelease) { r.Spec.Rollout.Paused = true })
	given := map[types.UID]bool{}
	for _, entry := range paused.Status.Rollout.InFlight {
		given[entry.UID] = true
	}

	refused := faultproxy.Count{Verb: "patch", Group: "gatehouse.dev", Resource: "gatewayreleases", Subresource: "status", Outcome: "409"}
	nobodyElse := func() error {
		for _, entry := range f.Release(t).Status.Rollout.InFlight {
			if !given[entry.UID] {
				return fmt.Errorf("%s was admitted after the pause", entry.Name)
			}
		}
		return nil
	}
	eventually.Succeeds(t, fleet.Patience, func() error {
		if err := nobodyElse(); err != nil {
			t.Fatal(err)
		}
		if proxy.Counts()[refused] == 0 {
			return errors.New("nothing was decided by the view from before the pause")
		}
		return nil
	})
	release()
	f.ReleaseSays(t, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonRolloutPaused)
	eventually.Holds(t, time.Second, nobodyElse)
	f.EditRelease(t, func(r *v1alpha1.GatewayRelease) { r.Spec.Rollout.Paused = false })
	f.Converged(t, v2)
}

// A leader that was paused for longer than its lease goes on for a while beside the one that took over. Fails when a
// write of its relies on leadership alone: it would take back what the other has done.
func TestC05AnOldLeaderCannotUndoWhatTheNewOneDid(t *testing.T) {
	old := instead(t)
	f := fleet.New(t, product, fleet.Options{Gateways: 3})
	f.Converged(t, f.V1)
	old.Rest(t, soon)
	v2 := f.Push(t, "v2")

	if err := old.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	f.SetImage(t, f.Image("v2"))
	heir := manager.Start(t, product.Manager("gatehouse-1"))
	heir.Ready(t)
	f.Converged(t, v2)
	runs := f.Footprint(t)

	if err := old.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	eventually.Succeeds(t, fleet.Patience, func() error {
		if !old.Running() {
			t.Fatal("the old leader has ended: it should go on as a candidate")
		}
		if !strings.Contains(old.Log(), "leadership lost") {
			return errors.New("the old leader does not know yet that it leads no more")
		}
		return nil
	})
	f.Converged(t, v2)
	heir.Rest(t, soon)
	if now := f.Footprint(t); asJSON(t, now) != asJSON(t, runs) {
		t.Errorf("what runs was\n%s\nand is\n%s", asJSON(t, runs), asJSON(t, now))
	}
	heir.Stop(t)
}

// A write that was decided from what is no longer so is refused by the API server itself, whoever leads. Fails when a
// write does not carry the version of what was read: it is held back while a person edits its object, and must conflict.
func TestC05AWriteIsConditionalOnTheVersionThatWasRead(t *testing.T) {
	shared.Kill()
	proxy := faultproxy.Start(t, faultproxy.Options{Kubeconfig: product.Kubeconfig})
	options := product.Manager("gatehouse-0")
	options.Kubeconfig = proxy.Kubeconfig
	m := manager.Start(t, options)
	f := fleet.New(t, product, fleet.Options{})
	f.Converged(t, f.V1)

	note := func(o client.Object) {
		annotations := o.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations["example.com/note"] = "edited meanwhile"
		o.SetAnnotations(annotations)
	}
	for _, held := range []struct {
		resource, subresource string
		cause, meanwhile      func()
	}{
		{"gatewayreleases", "status",
			func() { f.Push(t, "v2"); f.SetImage(t, f.Image("v2")) },
			func() { f.EditRelease(t, func(r *v1alpha1.GatewayRelease) { note(r) }) }},
		{"gatewayinstances", "status",
			func() { f.Push(t, "v3"); f.SetImage(t, f.Image("v3")) },
			func() { f.EditGateway(t, 0, func(g *v1alpha1.GatewayInstance) { note(g) }) }},
		{"deployments", "",
			func() { f.EditGateway(t, 0, func(g *v1alpha1.GatewayInstance) { g.Spec.Replicas = ptr.To[int32](2) }) },
			func() { fleet.Edit(t, f, f.Gateways[0], &appsv1.Deployment{}, func(d *appsv1.Deployment) { note(d) }) }},
	} {
		t.Run(held.resource, func(t *testing.T) {
			m.Rest(t, soon)
			chosen := func(r faultproxy.Request) bool {
				return r.Verb == "patch" && r.Resource == held.resource && r.Subresource == held.subresource
			}
			done := len(proxy.Writes())
			var came atomic.Bool
			proxy.Script(faultproxy.Rule{Times: 1, Fault: faultproxy.Slow(2 * time.Second), When: func(r faultproxy.Request) bool {
				if chosen(r) {
					came.Store(true)
				}
				return chosen(r)
			}})
			held.cause()
			eventually.Succeeds(t, soon, func() error {
				if !came.Load() {
					return errors.New("nothing is held back yet")
				}
				return nil
			})
			held.meanwhile()
			eventually.Succeeds(t, soon, func() error {
				for _, write := range proxy.Writes()[done:] {
					if !chosen(write.Request) {
						continue
					}
					if write.Outcome != "409" {
						t.Errorf("%s was answered %s", write.Request, write.Outcome)
					}
					return nil
				}
				return errors.New("it has not been answered yet")
			})
			proxy.Script()
			eventually.Succeeds(t, fleet.Patience, func() error {
				gateway := f.Gateway(t, 0)
				release := f.Release(t)
				if release.Status.ObservedGeneration != release.Generation || release.Status.Rollout.State != v1alpha1.RolloutComplete ||
					gateway.Status.ObservedGeneration != gateway.Generation || gateway.Status.Phase != v1alpha1.GatewayRunning {
					return fmt.Errorf("%s, %s", asJSON(t, release.Status), asJSON(t, gateway.Status))
				}
				return nil
			})
		})
	}
}

// Fails when the baseline of changes is kept in memory: an edit that nobody saw would never fan out.
func TestC06AnEditMadeWhileTheManagerIsDownIsPickedUp(t *testing.T) {
	running(t)
	f := fleet.New(t, product, fleet.Options{Gateways: 3})
	f.Converged(t, f.V1)
	shared.Kill()
	v2 := f.Push(t, "v2")
	f.SetImage(t, f.Image("v2"))
	f.EditGateway(t, 0, func(g *v1alpha1.GatewayInstance) { g.Spec.Replicas = ptr.To[int32](2) })
	running(t)
	f.Converged(t, v2)
	if replicas := ptr.Deref(f.Deployment(t, 0).Spec.Replicas, 0); replicas != 2 {
		t.Errorf("the gateway that was scaled meanwhile has %d replicas", replicas)
	}
}

// drift is what somebody does to an object that a gateway owns, and how to tell that it has been repaired.
type drift struct {
	name   string
	object client.Object
	edit   func(client.Object) // nil deletes it
	repair func(client.Object) bool
}

func drifts(f *fleet.Fleet, pinned string) []drift {
	gateway := f.Gateways[0].Name
	there := func(client.Object) bool { return true }
	container := func(o client.Object) *corev1.Container {
		return &o.(*appsv1.Deployment).Spec.Template.Spec.Containers[0]
	}
	return []drift{
		{"the image of the Deployment", &appsv1.Deployment{},
			func(o client.Object) { container(o).Image = "example.com/other@" + f.V1.String() },
			func(o client.Object) bool { return container(o).Image == pinned }},
		{"the replicas of the Deployment", &appsv1.Deployment{},
			func(o client.Object) { o.(*appsv1.Deployment).Spec.Replicas = ptr.To[int32](0) },
			func(o client.Object) bool { return ptr.Deref(o.(*appsv1.Deployment).Spec.Replicas, 0) == 2 }},
		{"the selector of the Service", &corev1.Service{},
			func(o client.Object) {
				o.(*corev1.Service).Spec.Selector[v1alpha1.LabelGateway] = "other"
			},
			func(o client.Object) bool {
				return o.(*corev1.Service).Spec.Selector[v1alpha1.LabelGateway] == gateway
			}},
		{"the label of the ServiceAccount", &corev1.ServiceAccount{},
			func(o client.Object) { o.SetLabels(nil) },
			func(o client.Object) bool { return o.GetLabels()[v1alpha1.LabelGateway] == gateway }},
		{"the rules of the NetworkPolicy", &networkingv1.NetworkPolicy{},
			func(o client.Object) { o.(*networkingv1.NetworkPolicy).Spec.Ingress = nil },
			func(o client.Object) bool { return len(o.(*networkingv1.NetworkPolicy).Spec.Ingress) == 1 }},
		{"the PodDisruptionBudget, deleted", &policyv1.PodDisruptionBudget{}, nil, there},
		{"the Service, deleted", &corev1.Service{}, nil, there},
		{"the Deployment, deleted", &appsv1.Deployment{}, nil, there},
	}
}

// listed finds an object of the gateway of the same kind: some have names of their own.
func listed[L client.ObjectList](t *testing.T, f *fleet.Fleet, list L) L {
	t.Helper()
	err := f.Client.List(t.Context(), list, client.InNamespace(f.Gateways[0].Namespace), client.MatchingLabels{v1alpha1.LabelGateway: f.Gateways[0].Name})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Fails when a phase, or anything else than the comparison, suppresses the repair of drift.
func TestC06DriftIsRepairedWhateverThePhaseSays(t *testing.T) {
	running(t)
	for _, managed := range []string{"while the manager runs", "while the manager is down"} {
		t.Run(managed, func(t *testing.T) {
			running(t)
			f := fleet.New(t, product, fleet.Options{Gateway: func(_ int, g *v1alpha1.GatewayInstance) { g.Spec.Replicas = ptr.To[int32](2) }})
			f.Converged(t, f.V1)
			for _, d := range drifts(f, f.Pinned(f.V1)) {
				eventually.Succeeds(t, fleet.Patience, func() error {
					if phase := f.Gateway(t, 0).Status.Phase; phase != v1alpha1.GatewayRunning {
						return fmt.Errorf("%s: the gateway is %s before", d.name, phase)
					}
					return nil
				})
				if managed == "while the manager is down" {
					shared.Kill()
				}
				f.Get(t, f.Gateways[0], d.object)
				uid := d.object.GetUID()
				if d.edit == nil {
					if err := f.Client.Delete(t.Context(), d.object); err != nil {
						t.Fatal(err)
					}
				} else {
					fleet.Edit(t, f, f.Gateways[0], d.object, d.edit)
				}
				running(t)
				eventually.Succeeds(t, fleet.Patience, func() error {
					if err := f.Client.Get(t.Context(), f.Gateways[0], d.object); err != nil {
						return err
					}
					if d.edit == nil && d.object.GetUID() == uid || !d.repair(d.object) {
						return fmt.Errorf("%s is not repaired: %s", d.name, asJSON(t, d.object))
					}
					return nil
				})
				f.Converged(t, f.V1)
			}
		})
	}
}

// The same for objects whose names are not the gateway's.
func TestC06DriftOfConfigurationAndRolesIsRepaired(t *testing.T) {
	running(t)
	f := fleet.New(t, product, fleet.Options{})
	f.Converged(t, f.V1)

	maps := listed(t, f, &corev1.ConfigMapList{})
	if len(maps.Items) != 1 {
		t.Fatalf("%d ConfigMaps", len(maps.Items))
	}
	fleet.Edit(t, f, client.ObjectKeyFromObject(&maps.Items[0]), &corev1.ConfigMap{}, func(m *corev1.ConfigMap) {
		m.Data["gateway.toml"] = "edited by hand"
		m.Data["extra"] = "added by hand"
	})
	bindings := listed(t, f, &rbacv1.RoleBindingList{})
	if len(bindings.Items) != 1 {
		t.Fatalf("%d RoleBindings", len(bindings.Items))
	}
	if err := f.Client.Delete(t.Context(), &bindings.Items[0]); err != nil {
		t.Fatal(err)
	}
	eventually.Succeeds(t, fleet.Patience, func() error {
		now := listed(t, f, &corev1.ConfigMapList{})
		if len(now.Items) != 1 || now.Items[0].Data["gateway.toml"] != "listen = 8080\n" {
			return fmt.Errorf("ConfigMaps %s", asJSON(t, now.Items))
		}
		if n := len(listed(t, f, &rbacv1.RoleBindingList{}).Items); n != 1 {
			return fmt.Errorf("%d RoleBindings", n)
		}
		return nil
	})
}

// Fails when the manager writes anything of its own kinds but status, in any test of this package so far, or could.
func TestC07SpecsBelongToPeople(t *testing.T) {
	running(t)
	f := fleet.New(t, product, fleet.Options{})
	f.Converged(t, f.V1)
	v2 := f.Push(t, "v2")
	f.SetImage(t, f.Image("v2"))
	f.Converged(t, v2)

	silent(t, 0, func(e cluster.AuditEvent) bool { return e.APIGroup == "gatehouse.dev" && e.Subresource != "status" })
	var profile v1alpha1.GatewayProfile
	f.Get(t, client.ObjectKey{Name: f.Name}, &profile)
	for _, object := range []client.Object{f.Release(t), f.Gateway(t, 0), &profile} {
		for _, entry := range object.GetManagedFields() {
			if entry.Subresource == "" && entry.Manager != cluster.UserAgent {
				t.Errorf("fields of %T are %s's", object, entry.Manager)
			}
		}
	}

	config, err := clientcmd.BuildConfigFromFlags("", product.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	asManager, err := fleet.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, resource := range []string{"gatewayreleases", "gatewayinstances", "gatewayprofiles"} {
		for _, verb := range []string{"create", "update", "patch", "delete", "deletecollection"} {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{Group: "gatehouse.dev", Resource: resource, Verb: verb},
			}}
			if err := asManager.Create(t.Context(), review); err != nil {
				t.Fatal(err)
			}
			if review.Status.Allowed {
				t.Errorf("the manager may %s %s", verb, resource)
			}
		}
	}
}

// A profile's edit is a new revision of each release that uses it, and the same rules hold of it.
func TestC06AProfileThatIsEditedWhileTheManagerIsDownIsPickedUp(t *testing.T) {
	running(t)
	f := fleet.New(t, product, fleet.Options{Gateways: 2})
	f.Converged(t, f.V1)
	before := f.Release(t).Status.Revision
	shared.Kill()
	f.EditProfile(t, func(p *v1alpha1.GatewayProfile) {
		p.Spec.Template.Raw = []byte(strings.Replace(string(p.Spec.Template.Raw), `"name":"gateway"`, `"name":"gateway","args":["--edited"]`, 1))
	})
	running(t)
	eventually.Succeeds(t, fleet.Patience, func() error {
		if f.Release(t).Status.Revision == before {
			return errors.New("no new revision")
		}
		for n := range f.Gateways {
			if args := f.Deployment(t, n).Spec.Template.Spec.Containers[0].Args; len(args) != 1 || args[0] != "--edited" {
				return fmt.Errorf("gateway %d has the arguments %q", n, args)
			}
		}
		return nil
	})
	f.Converged(t, f.V1)
}

// Nothing that is under way for an old generation may be published for a new one.
func TestC05AnEditDuringARolloutSupersedesIt(t *testing.T) {
	running(t)
	f := fleet.New(t, product, fleet.Options{Gateways: 2})
	f.Converged(t, f.V1)
	bad, good := f.Push(t, "bad"), f.Push(t, "good")
	if err := product.BadPods(t.Context(), bad.String(), cluster.NeverReady); err != nil {
		t.Fatal(err)
	}
	f.SetImage(t, f.Image("bad"))
	inFlight(t, f, bad)
	f.SetImage(t, f.Image("good"))
	f.Converged(t, good)
}

// inFlight waits until a gateway is on its way to a digest.
func inFlight(t *testing.T, f *fleet.Fleet, digest image.Digest) time.Time {
	t.Helper()
	var admitted time.Time
	eventually.Succeeds(t, fleet.Patience, func() error {
		release := f.Release(t)
		if release.Status.Image != f.Pinned(digest) || release.Status.Rollout == nil || len(release.Status.Rollout.InFlight) == 0 {
			return errors.New("nobody is admitted")
		}
		for _, entry := range release.Status.Rollout.InFlight {
			for _, g := range f.All(t) {
				if g.UID == entry.UID && g.Status.Revision != nil && g.Status.Revision.Image == f.Pinned(digest) {
					admitted = entry.AdmittedAt.Time
					return nil
				}
			}
		}
		return errors.New("nobody has recorded what it was given")
	})
	return admitted
}
