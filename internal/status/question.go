package status

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// Question is what is asked.
type Question struct {
	// Namespace asks for its NamespacedExecutors; AllNamespaces for those of all namespaces and for the cluster's
	// Executors; neither for the cluster's Executors.
	Namespace     string
	AllNamespaces bool
	// Names asks for those alone; empty for all.
	Names []string
	// Home is the namespace that Gatehouse is installed in.
	Home string
	// Full asks for errors in full, which takes reading the reports of replicas that failed.
	Full bool
}

// reading is a question that is being answered.
type reading struct {
	Question
	client  client.WithWatch
	timeout time.Duration
	asked   []*collection // Executors, NamespacedExecutors, or both
	pods    *collection
}

func (q Question) ask(c client.WithWatch, timeout time.Duration) *reading {
	r := &reading{Question: q, client: c, timeout: timeout}
	if q.Namespace == "" {
		r.asked = append(r.asked, r.collection("executors.gatehouse.dev", func() client.ObjectList { return &v1alpha1.ExecutorList{} }, r.named()...))
	}
	if q.Namespace != "" || q.AllNamespaces {
		options := r.named()
		if q.Namespace != "" {
			options = append(options, client.InNamespace(q.Namespace))
		}
		r.asked = append(r.asked, r.collection("namespacedexecutors.gatehouse.dev", func() client.ObjectList { return &v1alpha1.NamespacedExecutorList{} }, options...))
	}
	for _, c := range r.asked {
		c.keep = func(o client.Object) bool { return len(q.Names) == 0 || slices.Contains(q.Names, o.GetName()) }
	}
	r.pods = r.collection("pods", func() client.ObjectList { return &corev1.PodList{} }, client.InNamespace(q.Home),
		client.MatchingLabels{v1alpha1.LabelApplication: v1alpha1.Application, v1alpha1.LabelComponent: v1alpha1.ComponentManager})
	return r
}

func (r *reading) collection(resource string, fresh func() client.ObjectList, options ...client.ListOption) *collection {
	return &collection{
		resource: resource, fresh: fresh, options: options, timeout: r.timeout,
		keep: func(client.Object) bool { return true }, objects: map[client.ObjectKey]client.Object{},
	}
}

// named lets whoever may read one by its name read it: a list of one name is allowed to them.
func (r *reading) named() []client.ListOption {
	if len(r.Names) != 1 {
		return nil
	}
	return []client.ListOption{client.MatchingFields{"metadata.name": r.Names[0]}}
}

// read reads everything once. The versions are where a watch of each collection goes on.
func (r *reading) read(ctx context.Context) map[*collection]string {
	versions := map[*collection]string{}
	for _, c := range append(slices.Clone(r.asked), r.pods) {
		if version, err := c.read(ctx, r.client); err == nil {
			versions[c] = version
		}
	}
	return versions
}

// facts are what was read until now, and the reports that it takes to tell them.
func (r *reading) facts(ctx context.Context) Facts {
	var f Facts
	found := map[string]bool{}
	for _, c := range r.asked {
		objects, err := c.all()
		if err != nil {
			f.Errors = append(f.Errors, explain(c.resource, err))
		}
		for _, o := range objects {
			found[o.GetName()] = true
			switch o := o.(type) {
			case *v1alpha1.Executor:
				f.Executors = append(f.Executors, *o)
			case *v1alpha1.NamespacedExecutor:
				f.Namespaced = append(f.Namespaced, *o)
			}
		}
	}
	if len(f.Errors) == 0 {
		for _, name := range r.Names {
			if !found[name] {
				f.Errors = append(f.Errors, fmt.Sprintf("%s %q not found%s", r.what(), name, r.where()))
			}
		}
	}
	if len(f.Errors)+len(found) == 0 {
		f.Notes = append(f.Notes, fmt.Sprintf("there is no %s%s", r.what(), r.where()))
	}
	var refused []string
	pods, err := r.pods.all()
	f.PodsRead = err == nil
	for _, o := range pods {
		if pod, ok := o.(*corev1.Pod); ok && f.PodsRead {
			f.Pods = append(f.Pods, *pod)
		}
	}
	refused = note(&f, refused, r.pods.resource, err)
	if f.PodsRead && f.tellsOfPods() && !slices.ContainsFunc(f.Pods, func(p corev1.Pod) bool { return stateOf(&p).serves }) {
		f.Notes = append(f.Notes, fmt.Sprintf("no pod of Gatehouse in namespace %s serves: told is what it has written last; see why none does, or name the namespace that it is installed in with --gatehouse-namespace", r.Home))
	}
	f.Reports, err = r.reports(ctx, &f)
	refused = note(&f, refused, "executorpodstatuses.gatehouse.dev", err)
	if len(refused) > 0 {
		f.Notes = append(f.Notes, fmt.Sprintf("%s of namespace %s may not be read by you: told is what the status of each Executor says", strings.Join(refused, " and "), r.Home))
	}
	return f
}

// tellsOfPods says whether a status does: what runs out of a cluster has none.
func (f *Facts) tellsOfPods() bool {
	tells := func(s *v1alpha1.ExecutorStatus) bool { return len(s.ByPod) > 0 || s.Replicas.NotServing > 0 }
	return slices.ContainsFunc(f.Executors, func(e v1alpha1.Executor) bool { return tells(&e.Status) }) ||
		slices.ContainsFunc(f.Namespaced, func(e v1alpha1.NamespacedExecutor) bool { return tells(&e.Status) })
}

// note takes in that something that only completes the picture could not be read.
func note(f *Facts, refused []string, resource string, err error) []string {
	switch {
	case err == nil:
	case apierrors.IsForbidden(err):
		return append(refused, resource)
	default:
		f.Notes = append(f.Notes, explain(resource, err)+"; told is what the status of each Executor says")
	}
	return refused
}

func (r *reading) what() string {
	switch {
	case r.AllNamespaces:
		return "Executor or NamespacedExecutor"
	case r.Namespace != "":
		return "NamespacedExecutor"
	default:
		return "Executor"
	}
}

func (r *reading) where() string {
	if r.Namespace != "" {
		return " in namespace " + r.Namespace
	}
	return ""
}

// uidsAtOnce is how many Executors' reports are asked for in one request: the selector is part of its address.
const uidsAtOnce = 40

// reports are those of single replicas, where the status of the Executor does not say it all.
func (r *reading) reports(ctx context.Context, f *Facts) ([]v1alpha1.ExecutorPodStatus, error) {
	var of []string
	for i := range f.Executors {
		if r.incomplete(&f.Executors[i].Status) {
			of = append(of, string(f.Executors[i].UID))
		}
	}
	for i := range f.Namespaced {
		if r.incomplete(&f.Namespaced[i].Status) {
			of = append(of, string(f.Namespaced[i].UID))
		}
	}
	slices.Sort(of)
	var reports []v1alpha1.ExecutorPodStatus
	for uids := range slices.Chunk(of, uidsAtOnce) {
		wanted, err := selects(v1alpha1.LabelExecutorUID, uids)
		if err != nil {
			return nil, err
		}
		c := r.collection("executorpodstatuses.gatehouse.dev", func() client.ObjectList { return &v1alpha1.ExecutorPodStatusList{} },
			client.InNamespace(r.Home), wanted)
		objects, _, err := c.list(ctx, r.client)
		if err != nil {
			return nil, err
		}
		for _, o := range objects {
			// A label is anybody's; whose report it is stands in its spec.
			if report, ok := o.(*v1alpha1.ExecutorPodStatus); ok && slices.Contains(uids, string(report.Spec.Executor.UID)) {
				reports = append(reports, *report)
			}
		}
		if len(reports) > maxObjects {
			return nil, fmt.Errorf("there are more than %d; ask for names", maxObjects)
		}
	}
	slices.SortFunc(reports, func(a, b v1alpha1.ExecutorPodStatus) int { return strings.Compare(a.Name, b.Name) })
	return reports, nil
}

// incomplete says whether a status leaves out what is to be told.
func (r *reading) incomplete(status *v1alpha1.ExecutorStatus) bool {
	if int(status.Replicas.Expected) > len(status.ByPod) && len(status.ByPod) > 0 {
		return true
	}
	failed := slices.ContainsFunc(status.ByPod, func(e v1alpha1.ReplicaStatus) bool { return !e.Succeeded })
	return r.Full && len(status.ByPod) > 0 && (failed || status.Replicas.NotServing > 0)
}

func selects(label string, values []string) (client.ListOption, error) {
	requirement, err := labels.NewRequirement(label, selection.In, values)
	if err != nil {
		return nil, err
	}
	return client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*requirement)}, nil
}
