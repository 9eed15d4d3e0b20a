package crash

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
)

// scenario is what people do to a fleet.
type scenario struct {
	name     string
	gateways int
	budget   int
	// deadline is the release's progressDeadline, for a story in which no gateway may fail; 0 is longer than any run.
	deadline time.Duration
	// others are further releases, without gateways at first.
	others int
	// fresh says that the rollout of the first image is part of the story, and not what it begins with.
	fresh bool
	// loose says that it is chance which gateways an edit finds where on their way.
	loose bool
	// unseen says that it is chance whether the first rollout sees a gateway, or is over and it gets what is stable.
	unseen bool
	// story is what happens. It waits for what it builds on, and not for the end.
	story func(*testing.T, *run)
	// end says what is missing to the end of it.
	end func(*testing.T, *run) error
}

var scenarios = []scenario{
	{
		name: "first rollout", gateways: 8, budget: 2, fresh: true,
		story: func(*testing.T, *run) {},
		end:   all("v1"),
	},
	{
		name: "edit", gateways: 4, budget: 2,
		story: func(t *testing.T, r *run) { r.fleet().SetImage(t, r.image(t, "v2")) },
		end:   all("v2"),
	},
	{
		name: "superseding edit", gateways: 4, budget: 1, loose: true,
		story: func(t *testing.T, r *run) {
			r.fleet().SetImage(t, r.image(t, "v2"))
			r.somebodyRuns(t, "v2")
			r.fleet().SetImage(t, r.image(t, "v3"))
		},
		end: all("v3"),
	},
	{
		name: "pause and resume", gateways: 4, budget: 1,
		story: func(t *testing.T, r *run) {
			r.fleet().SetImage(t, r.image(t, "v2"))
			r.somebodyRuns(t, "v2")
			paused := r.fleet().EditRelease(t, func(release *v1alpha1.GatewayRelease) { release.Spec.Rollout.Paused = true })
			eventually.Succeeds(t, r.lane.patience, func() error {
				if seen := r.fleet().Release(t).Status.ObservedGeneration; seen < paused.Generation {
					return fmt.Errorf("the pause is generation %d, seen is %d", paused.Generation, seen)
				}
				return nil
			})
			r.fleet().EditRelease(t, func(release *v1alpha1.GatewayRelease) { release.Spec.Rollout.Paused = false })
		},
		end: all("v2"),
	},
	{
		name: "bad image", gateways: 4, budget: 1, deadline: 2 * time.Second, loose: true,
		story: func(t *testing.T, r *run) {
			bad := r.image(t, "bad")
			r.lane.watcher.never(r.digest("bad"))
			r.fleet().SetImage(t, bad)
			eventually.Succeeds(t, r.lane.patience, func() error {
				release := r.fleet().Release(t)
				if stalled := meta.FindStatusCondition(release.Status.Conditions, v1alpha1.ConditionStalled); stalled == nil || stalled.Reason != v1alpha1.ReasonRolloutFailed || release.Status.Image != r.fleet().Registry.Host+"/"+fleet.Repository+"/"+r.fleet().Name+"@"+r.digest("bad") {
					return fmt.Errorf("the rollout of a bad image has not failed: %+v", release.Status.Conditions)
				}
				return nil
			})
			r.fleet().SetImage(t, r.image(t, "v3"))
		},
		end: all("v3"),
	},
	{
		name: "gateways deleted, created and moved", gateways: 4, budget: 1, others: 1, loose: true,
		story: func(t *testing.T, r *run) {
			f, other := r.fleet(), r.fleets[1]
			f.SetImage(t, r.image(t, "v2"))
			r.somebodyRuns(t, "v2")
			r.lane.watcher.unbudgeted(f.Gateways[0])
			r.lane.watcher.unbudgeted(f.Gateways[1])
			if err := f.Client.Delete(t.Context(), f.Gateway(t, 0)); err != nil {
				t.Fatal(err)
			}
			r.add(t, "gw-new")
			f.EditGateway(t, 1, func(g *v1alpha1.GatewayInstance) { g.Spec.ReleaseRef.Name = other.Name })
			r.follows[f.Gateways[1]] = 1
			delete(r.follows, f.Gateways[0])
		},
		end: all("v2"),
	},
	{
		name: "profile edit", gateways: 4, budget: 2,
		story: func(t *testing.T, r *run) {
			r.fleet().EditProfile(t, func(p *v1alpha1.GatewayProfile) {
				p.Spec.Template.Raw = []byte(`{"spec":{"terminationGracePeriodSeconds":7,"containers":[{"name":"gateway","ports":[{"name":"http","containerPort":8080}]}]}}`)
			})
		},
		end: func(t *testing.T, r *run) error {
			var deployments []client.ObjectKey
			for key := range r.follows {
				deployments = append(deployments, key)
			}
			for _, key := range deployments {
				if seconds := ptr.Deref(r.deployment(t, key).Spec.Template.Spec.TerminationGracePeriodSeconds, 0); seconds != 7 {
					return fmt.Errorf("%s has terminationGracePeriodSeconds %d", key, seconds)
				}
			}
			return all("v1")(t, r)
		},
	},
	{
		name: "edit by a tenant during a rollout", gateways: 4, budget: 1, loose: true,
		story: func(t *testing.T, r *run) {
			f := r.fleet()
			f.SetImage(t, r.image(t, "v2"))
			r.somebodyRuns(t, "v2")
			for n := range 2 {
				r.lane.watcher.unbudgeted(f.Gateways[n])
				f.EditGateway(t, n, func(g *v1alpha1.GatewayInstance) {
					g.Spec.Config["gateway.toml"] = "listen = 9090\n"
					g.Spec.Replicas = ptr.To[int32](2)
				})
			}
		},
		end: all("v2"),
	},
}

// all waits for every gateway to run a tag of the first release, or what its own release says, and for every rollout to
// be complete.
func all(tag string) func(*testing.T, *run) error {
	return func(t *testing.T, r *run) error {
		for i, f := range r.fleets {
			release := f.Release(t)
			rollout := release.Status.Rollout
			if release.Status.ObservedGeneration != release.Generation || rollout == nil || rollout.State != v1alpha1.RolloutComplete ||
				i == 0 && release.Status.Image != f.Registry.Host+"/"+fleet.Repository+"/"+f.Name+"@"+r.digest(tag) {
				return fmt.Errorf("release %s of generation %d: %+v", f.Name, release.Generation, release.Status)
			}
			if want := r.following(i); int(rollout.Fleet.Total) != want || int(rollout.Fleet.Updated) != want || int(rollout.Fleet.Ready) != want {
				return fmt.Errorf("release %s: %+v, want %d", f.Name, rollout.Fleet, want)
			}
		}
		for key, i := range r.follows {
			gateway := &v1alpha1.GatewayInstance{}
			if err := r.lane.product.Client.Get(t.Context(), key, gateway); err != nil {
				return err
			}
			ready := meta.FindStatusCondition(gateway.Status.Conditions, v1alpha1.ConditionReady)
			if ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != gateway.Generation ||
				gateway.Status.Image != r.fleets[i].Release(t).Status.Image {
				return fmt.Errorf("gateway %s: %+v", key, gateway.Status)
			}
		}
		return nil
	}
}

// somebodyRuns waits until a gateway was given a tag.
func (r *run) somebodyRuns(t *testing.T, tag string) {
	t.Helper()
	eventually.Succeeds(t, r.lane.patience, func() error {
		for key := range r.follows {
			if deployment := r.deployment(t, key); deployment.Spec.Template.Spec.Containers[0].Image == r.fleet().Pinned(r.pushed[tag]) {
				return nil
			}
		}
		return errors.New("no gateway runs " + tag)
	})
}

// add creates a gateway of the first release.
func (r *run) add(t *testing.T, name string) {
	t.Helper()
	f := r.fleet()
	key := client.ObjectKey{Namespace: f.Namespaces[0], Name: name}
	r.lane.watcher.unbudgeted(key)
	f.Make(t, &v1alpha1.GatewayInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Spec:       v1alpha1.GatewayInstanceSpec{ReleaseRef: v1alpha1.ReleaseReference{Name: f.Name}},
	})
	r.follows[key] = 0
}

func (s scenario) options(r *run) fleet.Options {
	return fleet.Options{
		Gateways: s.gateways,
		Registry: r.lane.registry,
		Release: func(release *v1alpha1.GatewayRelease) {
			release.Spec.Rollout.MaxUnavailable = ptr.To(intstr.FromInt(s.budget))
			// Nothing fails, and a mistake in the window is not to hide behind a rollout that stops because of it.
			release.Spec.Rollout.MaxFailures = ptr.To(intstr.FromString("100%"))
			if s.deadline > 0 {
				release.Spec.Rollout.MaxFailures = ptr.To(intstr.FromInt(0))
				release.Spec.Rollout.ProgressDeadline = &metav1.Duration{Duration: s.deadline}
			}
		},
	}
}
