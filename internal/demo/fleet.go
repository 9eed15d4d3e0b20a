package demo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// workload is what a gateway's Deployment says.
type workload struct {
	generation int64
	digest     string // that the container "gateway" is to run
	logLevel   string // that the profile sets
	settled    bool   // every pod runs the newest template and is available, and no other is left
	serving    bool   // as many pods are available as there should be
}

func workloadOf(d *appsv1.Deployment) workload {
	desired := int32(1)
	if d.Spec.Replicas != nil {
		desired = *d.Spec.Replicas
	}
	w := workload{generation: d.Generation, serving: d.Status.AvailableReplicas >= desired}
	w.settled = d.Status.ObservedGeneration >= d.Generation && w.serving &&
		d.Status.UpdatedReplicas == desired && d.Status.Replicas == desired
	for _, c := range d.Spec.Template.Spec.Containers {
		if c.Name != v1alpha1.GatewayContainer {
			continue
		}
		_, w.digest, _ = strings.Cut(c.Image, "@")
		for _, env := range c.Env {
			if env.Name == logLevelVariable {
				w.logLevel = env.Value
			}
		}
	}
	return w
}

// fleet is what the watches have seen of the release, its gateways and their workloads. It is complete from the
// beginning: a watch delivers every change of its kind in the order in which they were committed, so extremes are true
// at every moment and not only when somebody looked.
type fleet struct {
	mu        sync.Mutex
	release   *v1alpha1.GatewayRelease
	executor  *v1alpha1.Executor
	gateways  map[types.NamespacedName]*v1alpha1.GatewayInstance
	workloads map[types.NamespacedName]workload
	extremes  extremes
	broken    error
	changed   chan struct{} // closed and replaced at every change
}

// extremes are the furthest that the fleet has been since they were reset.
type extremes struct {
	underWay int    // workloads that were not settled at once, at most
	inFlight int    // gateways in the release's window at once, at most
	serving  int    // workloads that had all their pods available, at least
	doubted  string // what the Executor said when it first was not Ready
}

func newFleet() *fleet {
	return &fleet{
		gateways:  map[types.NamespacedName]*v1alpha1.GatewayInstance{},
		workloads: map[types.NamespacedName]workload{},
		changed:   make(chan struct{}),
	}
}

// update changes what is known, and measures.
func (f *fleet) update(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	f.measure()
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fleet) measure() {
	e := &f.extremes
	e.underWay = max(e.underWay, len(f.underWay()))
	e.inFlight = max(e.inFlight, len(f.inFlight()))
	e.serving = min(e.serving, f.count(func(w workload) bool { return w.serving }))
	if f.executor != nil && e.doubted == "" && !executorReady(f.executor) {
		e.doubted = saysOf(f.executor)
	}
}

func (f *fleet) underWay() []types.NamespacedName {
	var names []types.NamespacedName
	for name, w := range f.workloads {
		if !w.settled {
			names = append(names, name)
		}
	}
	return names
}

func (f *fleet) inFlight() []v1alpha1.InFlightGateway {
	if f.release == nil || f.release.Status.Rollout == nil {
		return nil
	}
	return f.release.Status.Rollout.InFlight
}

// admitted says whether a gateway is in the release's window.
func (f *fleet) admitted(name types.NamespacedName) bool {
	return slices.ContainsFunc(f.inFlight(), func(g v1alpha1.InFlightGateway) bool {
		return g.Namespace == name.Namespace && g.Name == name.Name
	})
}

func (f *fleet) count(is func(workload) bool) int {
	n := 0
	for _, w := range f.workloads {
		if is(w) {
			n++
		}
	}
	return n
}

// readyGateways counts the gateways that say Ready for their present generation.
func (f *fleet) readyGateways() int {
	n := 0
	for _, g := range f.gateways {
		if gatewayReady(g) {
			n++
		}
	}
	return n
}

func gatewayReady(g *v1alpha1.GatewayInstance) bool {
	for _, c := range g.Status.Conditions {
		if c.Type == v1alpha1.ConditionReady {
			return c.Status == "True" && g.Status.ObservedGeneration == g.Generation
		}
	}
	return false
}

func executorReady(e *v1alpha1.Executor) bool {
	for _, c := range e.Status.Conditions {
		if c.Type == v1alpha1.ConditionReady {
			return c.Status == "True" && e.Status.Succeeded
		}
	}
	return false
}

// begin forgets the extremes so far and returns the workloads as they are now.
func (f *fleet) begin() map[types.NamespacedName]workload {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.extremes = extremes{serving: len(f.workloads)}
	f.measure()
	return maps.Clone(f.workloads)
}

// now returns the workloads as they are now.
func (f *fleet) now() map[types.NamespacedName]workload {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.workloads)
}

// await waits until holds says that it holds, for at most the time given. holds is called whenever something has
// changed, with the fleet locked, and says what it misses.
func (f *fleet) await(ctx context.Context, within time.Duration, what string, holds func() (missing string)) error {
	timer := time.NewTimer(within)
	defer timer.Stop()
	for {
		f.mu.Lock()
		missing, broken, changed := holds(), f.broken, f.changed
		f.mu.Unlock()
		if missing == "" {
			return nil
		}
		if broken != nil {
			return fmt.Errorf("awaited that %s, but the watch broke: %w", what, broken)
		}
		select {
		case <-changed:
		case <-timer.C:
			return fmt.Errorf("awaited that %s, for %s; %s", what, within, missing)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// look reads something of the fleet.
func (f *fleet) look(read func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	read()
}

// movement is what has happened to the workloads since an earlier moment.
type movement struct {
	moved   []types.NamespacedName // whose spec was changed
	twice   []types.NamespacedName // whose spec was changed more than once
	digests int                    // that name another image than before
}

// since compares with what begin returned. Only a change of its spec gives a workload a new generation.
func (f *fleet) since(before map[types.NamespacedName]workload) movement {
	f.mu.Lock()
	defer f.mu.Unlock()
	var m movement
	for name, now := range f.workloads {
		was := before[name]
		if now.generation != was.generation {
			m.moved = append(m.moved, name)
		}
		if now.generation > was.generation+1 {
			m.twice = append(m.twice, name)
		}
		if now.digest != was.digest {
			m.digests++
		}
	}
	byName := func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) }
	slices.SortFunc(m.moved, byName)
	slices.SortFunc(m.twice, byName)
	return m
}

// errUnobserved ends a watch for which the server cannot say any more what has happened.
var errUnobserved = errors.New("the server could not say what had changed")
