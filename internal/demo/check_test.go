package demo

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// deployment is a Deployment of one replica; change makes it differ from one that is settled.
func deployment(change func(*appsv1.Deployment)) *appsv1.Deployment {
	d := &appsv1.Deployment{}
	d.Generation = 1
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "gateway", Image: "registry.example.com/edge@sha256:a"}}
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1}
	change(d)
	return d
}

func TestWhenAWorkloadIsSettled(t *testing.T) {
	for _, c := range []struct {
		name             string
		change           func(*appsv1.Deployment)
		settled, serving bool
	}{
		{"all pods are new and available", func(*appsv1.Deployment) {}, true, true},
		{"the spec has not been observed", func(d *appsv1.Deployment) { d.Generation = 2 }, false, true},
		{"the new pod is not there yet", func(d *appsv1.Deployment) { d.Status.UpdatedReplicas = 0 }, false, true},
		{"the old pod is still there", func(d *appsv1.Deployment) { d.Status.Replicas = 2 }, false, true},
		{"no pod is available", func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 0 }, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := workloadOf(deployment(c.change))
			if w.settled != c.settled || w.serving != c.serving || w.digest != "sha256:a" {
				t.Errorf("got %+v, want settled %v, serving %v, digest sha256:a", w, c.settled, c.serving)
			}
		})
	}
}

// The demo's own check of a paced rollout fails for each way in which one can go wrong.
func TestPacedNoticesWhatGoesWrong(t *testing.T) {
	const budget = 2
	everyone := func(do func(i int, w *workload)) func(*fleet) {
		return func(f *fleet) {
			for i := range fleetSize {
				name := types.NamespacedName{Namespace: "tenant-a", Name: string(rune('a' + i))}
				f.update(func() {
					w := f.workloads[name]
					do(i, &w)
					f.workloads[name] = w
				})
			}
		}
	}
	settle := everyone(func(_ int, w *workload) {
		*w = workload{generation: 1, digest: "sha256:a", settled: true, serving: true}
	})
	move := everyone(func(_ int, w *workload) { w.generation, w.digest = 2, "sha256:b" })
	for _, c := range []struct {
		name  string
		moves func(*fleet)
		want  string // part of the error; empty if none
	}{
		{"each moves once", move, ""},
		{"one stays", everyone(func(i int, w *workload) {
			if i > 0 {
				w.generation = 2
			}
		}), "40 gateways were to move, but 39 did"},
		{"one moves twice", func(f *fleet) {
			move(f)
			everyone(func(i int, w *workload) {
				if i == 0 {
					w.generation = 3
				}
			})(f)
		}, "these moved more often: tenant-a/a"},
		{"three are under way for a moment", func(f *fleet) {
			everyone(func(i int, w *workload) { w.settled = i >= 3 })(f)
			everyone(func(_ int, w *workload) { w.settled = true })(f)
			move(f)
		}, "at most 2 gateways were to be under way at once, but 3 were"},
		{"one does not serve for a moment", func(f *fleet) {
			everyone(func(i int, w *workload) { w.serving = i != 0 })(f)
			everyone(func(_ int, w *workload) { w.serving = true })(f)
			move(f)
		}, "only 39 did"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &scene{fleet: newFleet(), pace: pace{budget: budget}, manager: &manager{}}
			settle(s.fleet)
			before := s.fleet.begin()
			c.moves(s.fleet)
			var r record
			err := s.paced(before, fleetSize, budget, &r)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("unexpected: %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

// A step that says that the Executor was never in doubt has looked at every moment.
func TestTheFleetRemembersThatAnExecutorWasInDoubt(t *testing.T) {
	says := func(ready metav1.ConditionStatus, succeeded bool) func() *v1alpha1.Executor {
		return func() *v1alpha1.Executor {
			e := &v1alpha1.Executor{}
			e.Status.Succeeded = succeeded
			e.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: ready}}
			return e
		}
	}
	well := says(metav1.ConditionTrue, true)
	for _, c := range []struct {
		name    string
		moment  func() *v1alpha1.Executor
		doubted bool
	}{
		{"it was well throughout", well, false},
		{"it was not Ready for a moment", says(metav1.ConditionFalse, true), true},
		{"it had not succeeded for a moment", says(metav1.ConditionTrue, false), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFleet()
			f.update(func() { f.executor = says(metav1.ConditionFalse, false)() }) // before anybody looks
			f.update(func() { f.executor = well() })
			f.begin()
			f.update(func() { f.executor = c.moment() })
			f.update(func() { f.executor = well() })
			if got := f.extremes.doubted; (got != "") != c.doubted {
				t.Errorf("what is remembered is %q", got)
			}
		})
	}
}
