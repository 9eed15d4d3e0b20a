package truth

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/kubelet"
	"github.com/gatehouse-dev/gatehouse/internal/podstatus"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
)

const (
	// mayLie is how long a status may say that all is well when it is not.
	mayLie = 5 * time.Second
	// look is how often that is compared; a look that comes late by more than late is the machine's standing still.
	look, late = 50 * time.Millisecond, 150 * time.Millisecond
)

// watcher knows what is stored, and has seen every version of it.
type watcher struct {
	mu        sync.Mutex
	executors map[types.NamespacedName]said
	reports   map[string]*v1alpha1.ExecutorPodStatus
	pods      map[string]*corev1.Pod
	gone      map[string]bool // the names of pods of which one is gone

	doubts  []string // moments at which an Executor ceased to be Ready without an edit
	lies    []string
	lying   map[types.NamespacedName]time.Time // since when
	stalled time.Duration
	more    time.Duration // for which a lie may stand, besides mayLie
	ended   []string      // watches that ended, after which something may have been missed
}

// said is an Executor, of either kind.
type said struct {
	identity   v1alpha1.ExecutorIdentity
	generation int64
	status     v1alpha1.ExecutorStatus
}

func executorOf(object client.Object) (said, bool) {
	s := said{generation: object.GetGeneration()}
	s.identity = v1alpha1.ExecutorIdentity{Kind: v1alpha1.KindExecutor, Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID()}
	switch e := object.(type) {
	case *v1alpha1.Executor:
		s.status = e.Status
	case *v1alpha1.NamespacedExecutor:
		s.identity.Kind, s.status = v1alpha1.KindNamespacedExecutor, e.Status
	default:
		return said{}, false
	}
	return s, true
}

// ready says whether the status says so, in its conditions and in its own field.
func (s said) ready() bool {
	return s.status.Succeeded && meta.IsStatusConditionTrue(s.status.Conditions, v1alpha1.ConditionReady)
}

// serving says whether requests reach a pod.
func serving(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil
		}
	}
	return false
}

// watchAll watches until the test ends, and then fails it for every lie.
func watchAll(t *testing.T) *watcher {
	t.Helper()
	w := &watcher{
		executors: map[types.NamespacedName]said{}, reports: map[string]*v1alpha1.ExecutorPodStatus{},
		pods: map[string]*corev1.Pod{}, gone: map[string]bool{}, lying: map[types.NamespacedName]time.Time{},
	}
	api, err := fleet.NewClient(product.Config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var watching sync.WaitGroup
	for _, list := range []client.ObjectList{&v1alpha1.ExecutorList{}, &v1alpha1.NamespacedExecutorList{}, &v1alpha1.ExecutorPodStatusList{}, &corev1.PodList{}} {
		options := []client.ListOption{client.InNamespace("")}
		if _, pods := list.(*corev1.PodList); pods {
			options = []client.ListOption{client.InNamespace(fleet.Namespace), kubelet.Replicas}
		}
		if err := api.List(ctx, list, options...); err != nil {
			t.Fatal(err)
		}
		since := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}}
		events, err := api.Watch(ctx, list, append(options, since)...)
		if err != nil {
			t.Fatal(err)
		}
		_ = meta.EachListItem(list, func(object runtime.Object) error {
			w.see(watch.Event{Type: watch.Added, Object: object})
			return nil
		})
		watching.Go(func() {
			defer events.Stop()
			for {
				select {
				case event, open := <-events.ResultChan():
					if !open || event.Type == watch.Error {
						w.end(fmt.Sprintf("%T: %v", list, event.Object))
						return
					}
					w.see(event)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	watching.Go(func() { w.look(ctx) })
	t.Cleanup(func() {
		cancel()
		watching.Wait()
		for _, trouble := range slices.Concat(w.lies, w.ended) {
			t.Error(trouble)
		}
	})
	return w
}

func (w *watcher) end(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = append(w.ended, "a watch has ended: "+what)
}

func (w *watcher) see(event watch.Event) {
	object, is := event.Object.(client.Object)
	if !is {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	deleted := event.Type == watch.Deleted
	switch o := object.(type) {
	case *corev1.Pod:
		w.pods[o.Name] = o
		if deleted {
			delete(w.pods, o.Name)
			w.gone[o.Name] = true
		}
	case *v1alpha1.ExecutorPodStatus:
		w.reports[o.Name] = o
		if deleted {
			delete(w.reports, o.Name)
		}
	default:
		now, is := executorOf(object)
		if !is {
			return
		}
		key := client.ObjectKeyFromObject(object)
		before := w.executors[key]
		w.executors[key] = now
		switch {
		case deleted:
			delete(w.executors, key)
		case before.identity == now.identity && before.generation == now.generation && before.ready() && !now.ready():
			w.doubts = append(w.doubts, fmt.Sprintf("%s Executor %s: %s %s", time.Now().Format("15:04:05.000"), short(key), now.status.BriefError, now.status.Error))
		}
	}
}

// look compares again and again what is said with what is reported.
func (w *watcher) look(ctx context.Context) {
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		w.mu.Lock()
		now := time.Now()
		stood := now.Sub(last)
		if stood > late {
			w.stalled += stood
		} else {
			stood = 0
		}
		last = now
		for key, e := range w.executors {
			why := w.lie(e)
			since, lying := w.lying[key]
			switch {
			case why == "":
				delete(w.lying, key)
			case !lying:
				w.lying[key] = now
			case stood > 0: // nobody could do anything meanwhile
				w.lying[key] = since.Add(stood)
			case now.Sub(since) > mayLie+w.more:
				w.lies = append(w.lies, fmt.Sprintf("%s Executor %s says that generation %d succeeded, for more than %s in which %s", now.Format("15:04:05.000"), short(key), e.generation, mayLie+w.more, why))
				w.lying[key] = now.Add(time.Hour) // it is told once
			}
		}
		w.mu.Unlock()
	}
}

// lie says what is wrong with a status that says that all is well; it is empty if nothing is, or it does not say so.
func (w *watcher) lie(e said) string {
	if !e.status.Succeeded || e.status.ObservedGeneration != e.generation {
		return ""
	}
	trusted, by := "", ""
	for _, name := range slices.Sorted(maps.Keys(w.pods)) {
		pod := w.pods[name]
		if !serving(pod) {
			continue
		}
		report := w.reportOf(pod, e.identity)
		switch {
		case report == nil:
			return name + " serves and has reported nothing"
		case report.Status.ServingGeneration != e.generation:
			return fmt.Sprintf("%s serves generation %d", name, report.Status.ServingGeneration)
		case trusted == "":
			trusted, by = report.Status.Inputs, name
		case report.Status.Inputs != trusted:
			return fmt.Sprintf("%s trusts %s and %s trusts %s", name, report.Status.Inputs, by, trusted)
		}
	}
	return ""
}

// reportOf is what a pod itself has reported of an Executor, nil if it has not.
func (w *watcher) reportOf(pod *corev1.Pod, executor v1alpha1.ExecutorIdentity) *v1alpha1.ExecutorPodStatus {
	report := w.reports[podstatus.PackName(pod.Name, executor)]
	if report == nil || report.Spec.Executor != executor || report.Spec.Pod.UID != pod.UID || report.Status.ObservedGeneration == 0 {
		return nil
	}
	return report
}

// allow lets a status be wrong for longer, while nobody leads who could write it.
func (w *watcher) allow(more time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.more = more
}

// stopped is for how long the machine has stood still so far.
func (w *watcher) stopped() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stalled
}

// doubted are the moments so far at which an Executor ceased to be Ready without an edit.
func (w *watcher) doubted() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.doubts)
}

// short is a name that can be read.
func short(key types.NamespacedName) string {
	name := key.String()
	if key.Namespace == "" {
		name = key.Name
	}
	if len(name) > 40 {
		name = name[:40] + "…"
	}
	return name
}
