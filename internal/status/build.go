package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/podstatus"
)

// Facts are what was read.
type Facts struct {
	Executors  []v1alpha1.Executor
	Namespaced []v1alpha1.NamespacedExecutor
	// Pods are those of the installation; PodsRead says that they could be read.
	Pods     []corev1.Pod
	PodsRead bool
	// Reports are those of single replicas that were asked for.
	Reports []v1alpha1.ExecutorPodStatus
	// Notes and Errors are as in a List.
	Notes, Errors []string
}

// Build makes a List of what was read. The same facts make the same list, in whatever order they come.
func Build(f Facts) *List {
	list := &List{APIVersion: APIVersion, Kind: ListKind, Ready: len(f.Errors) == 0, Items: []Executor{}}
	reports := map[v1alpha1.ExecutorIdentity]map[v1alpha1.PodIdentity]*v1alpha1.ExecutorPodStatus{}
	for i := range f.Reports {
		// Of a replica and an Executor there is one report, under the name that the two of them give it.
		if r := &f.Reports[i]; r.Name == podstatus.PackName(r.Spec.Pod.Name, r.Spec.Executor) {
			if reports[r.Spec.Executor] == nil {
				reports[r.Spec.Executor] = map[v1alpha1.PodIdentity]*v1alpha1.ExecutorPodStatus{}
			}
			reports[r.Spec.Executor][r.Spec.Pod] = r
		}
	}
	for i := range f.Executors {
		e := &f.Executors[i]
		list.Items = append(list.Items, build(v1alpha1.KindExecutor, &e.ObjectMeta, e.Spec.Mode, &e.Status, f, reports))
	}
	for i := range f.Namespaced {
		e := &f.Namespaced[i]
		list.Items = append(list.Items, build(v1alpha1.KindNamespacedExecutor, &e.ObjectMeta, e.Spec.Mode, &e.Status, f, reports))
	}
	slices.SortFunc(list.Items, func(a, b Executor) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, item := range list.Items {
		list.Ready = list.Ready && item.Ready
	}
	for _, note := range f.Notes {
		list.Notes = append(list.Notes, cleanLine(note))
	}
	for _, err := range f.Errors {
		list.Errors = append(list.Errors, cleanLine(err))
	}
	return list
}

func build(kind v1alpha1.ExecutorKind, object *metav1.ObjectMeta, mode v1alpha1.Mode, status *v1alpha1.ExecutorStatus, f Facts, reports map[v1alpha1.ExecutorIdentity]map[v1alpha1.PodIdentity]*v1alpha1.ExecutorPodStatus) Executor {
	e := Executor{
		Kind: kind, Namespace: object.Namespace, Name: object.Name, UID: object.UID, Mode: mode,
		Generation: object.Generation, ObservedGeneration: status.ObservedGeneration,
		BriefError: cleanLine(status.BriefError), Error: cleanLines(status.Error), Counts: status.Replicas, listed: len(status.ByPod),
	}
	e.Counts.Summary = cleanName(e.Counts.Summary)
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	if ready != nil {
		since := ready.LastTransitionTime
		e.Since = &since
		e.Ready = ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == object.Generation && status.ObservedGeneration == object.Generation
	}
	switch {
	case object.DeletionTimestamp != nil:
		e.BriefError = cleanLine("it is being deleted; it is kept by finalizers: " + strings.Join(object.Finalizers, ", "))
	case e.Ready || e.BriefError != "":
	case ready == nil:
		e.BriefError = "nothing is said of it yet; does a manager of Gatehouse run?"
	case status.ObservedGeneration != object.Generation:
		e.BriefError = fmt.Sprintf("generation %d is not attempted yet", object.Generation)
	default:
		e.BriefError = cleanLine(ready.Message)
	}
	e.Replicas = replicas(object, status, f, reports[v1alpha1.ExecutorIdentity{Kind: kind, Namespace: object.Namespace, Name: object.Name, UID: object.UID}])
	return e
}

// replicas joins the entries of a status with the pods and the reports, by name and UID.
func replicas(object *metav1.ObjectMeta, status *v1alpha1.ExecutorStatus, f Facts, reports map[v1alpha1.PodIdentity]*v1alpha1.ExecutorPodStatus) []Replica {
	joined := []Replica{}
	there := map[v1alpha1.PodIdentity]*corev1.Pod{}
	for i := range f.Pods {
		there[v1alpha1.PodIdentity{Name: f.Pods[i].Name, UID: f.Pods[i].UID}] = &f.Pods[i]
	}
	listed := map[v1alpha1.PodIdentity]bool{}
	trusted := "" // what the leader trusts, as far as the status tells
	for _, entry := range status.ByPod {
		id := v1alpha1.PodIdentity{Name: entry.ID, UID: entry.PodUID}
		listed[id] = true
		if entry.Succeeded {
			trusted = entry.Inputs
		}
		// Until the status is written anew, it knows the pods as they were; and nobody writes it while none runs.
		switch pod := there[id]; {
		case f.PodsRead && pod == nil:
			joined = append(joined, Replica{Pod: cleanName(entry.ID), PodUID: types.UID(cleanName(string(entry.PodUID))), BriefError: "not serving: there is no such pod"})
		case f.PodsRead && !stateOf(pod).serves:
			joined = append(joined, notServing(pod, stateOf(pod), reports[id]))
		default:
			joined = append(joined, fromEntry(entry, reports[id], object.Generation))
		}
	}
	// Past its hundredth a status lists no replica; the reports tell of the others. Out of a cluster it lists none at all.
	short := len(status.ByPod) > 0 && int(status.Replicas.Expected) > len(status.ByPod)
	for id, pod := range there {
		switch state := stateOf(pod); {
		case listed[id]:
		case !state.serves:
			joined = append(joined, notServing(pod, state, reports[id]))
		case !short:
		case reports[id] == nil:
			joined = append(joined, Replica{Pod: cleanName(pod.Name), PodUID: pod.UID, Serving: true, BriefError: "has not reported"})
		default:
			joined = append(joined, fromReport(reports[id], object.Generation, trusted))
		}
	}
	if short && !f.PodsRead {
		for id, report := range reports {
			if !listed[id] {
				joined = append(joined, fromReport(report, object.Generation, trusted))
			}
		}
	}
	slices.SortFunc(joined, func(a, b Replica) int {
		return cmp.Or(rank(a)-rank(b), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.PodUID, b.PodUID))
	})
	return joined
}

// rank puts those with trouble first, and last those that do not serve.
func rank(r Replica) int {
	switch {
	case !r.Serving:
		return 2
	case r.Succeeded:
		return 1
	default:
		return 0
	}
}

func fromEntry(entry v1alpha1.ReplicaStatus, report *v1alpha1.ExecutorPodStatus, generation int64) Replica {
	r := Replica{
		Pod: cleanName(entry.ID), PodUID: types.UID(cleanName(string(entry.PodUID))), Serving: true,
		ObservedGeneration: entry.ObservedGeneration, ServingGeneration: entry.ServingGeneration, Inputs: cleanName(entry.Inputs),
		Succeeded: entry.Succeeded && entry.ServingGeneration == generation, BriefError: cleanLine(entry.BriefError), Since: entry.LastTransitionTime,
	}
	if entry.Succeeded && !r.Succeeded {
		r.BriefError = fmt.Sprintf("of generation %d nothing is said yet", generation)
	}
	// A report that is newer than the entry is of something else.
	if report != nil && report.Status.ObservedGeneration == entry.ObservedGeneration && report.Status.Inputs == entry.Inputs {
		r.Reason, r.Error = cleanName(report.Status.Reason), cleanLines(report.Status.Error)
	}
	return explained(r, generation)
}

func fromReport(report *v1alpha1.ExecutorPodStatus, generation int64, trusted string) Replica {
	said := report.Status
	r := Replica{
		Pod: cleanName(report.Spec.Pod.Name), PodUID: report.Spec.Pod.UID, Serving: true,
		ObservedGeneration: said.ObservedGeneration, ServingGeneration: said.ServingGeneration, Inputs: cleanName(said.Inputs),
		Succeeded: said.Succeeded && said.ObservedGeneration == generation && said.ServingGeneration == generation &&
			(trusted == "" || said.Inputs == trusted),
		Reason: cleanName(said.Reason), BriefError: cleanLine(said.BriefError), Error: cleanLines(said.Error), Since: said.LastTransitionTime,
	}
	return explained(r, generation)
}

// explained says in words what the figures of a replica mean, where nothing was said.
func explained(r Replica, generation int64) Replica {
	switch {
	case r.Succeeded || r.BriefError != "":
	case r.ObservedGeneration == 0:
		r.BriefError = "has not reported"
	case r.ObservedGeneration != generation:
		r.BriefError = fmt.Sprintf("has not attempted generation %d", generation)
	case r.ServingGeneration != generation:
		r.BriefError = fmt.Sprintf("does not serve generation %d", generation)
	default:
		r.BriefError = "trusts other keys or certificates than the leader: its inputs differ"
	}
	return r
}

func notServing(pod *corev1.Pod, state podState, report *v1alpha1.ExecutorPodStatus) Replica {
	r := Replica{Pod: cleanName(pod.Name), PodUID: pod.UID, BriefError: "not serving: " + cleanLine(state.why), Since: state.since}
	if report != nil {
		r.ObservedGeneration, r.ServingGeneration, r.Inputs = report.Status.ObservedGeneration, report.Status.ServingGeneration, cleanName(report.Status.Inputs)
		r.Reason, r.Error = cleanName(report.Status.Reason), cleanLines(report.Status.Error)
	}
	return r
}
