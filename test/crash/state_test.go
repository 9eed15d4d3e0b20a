package crash

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
)

// state is everything that is stored of a run's fleet, as JSON by kind and name, in terms that two runs have in common.
type state map[string]string

// stored reads it. What only Kubernetes would clean up, the objects of a gateway that is gone, is left out.
func (r *run) stored(t *testing.T) state {
	t.Helper()
	var all []client.Object
	list := func(into client.ObjectList, options ...client.ListOption) {
		t.Helper()
		if err := r.lane.product.Client.List(t.Context(), into, options...); err != nil {
			t.Fatal(err)
		}
		_ = meta.EachListItem(into, func(item runtime.Object) error {
			all = append(all, item.(client.Object))
			return nil
		})
	}
	for _, namespace := range r.namespaces() {
		for _, kind := range []client.ObjectList{
			&v1alpha1.GatewayInstanceList{}, &appsv1.DeploymentList{}, &corev1.ServiceList{}, &corev1.ServiceAccountList{},
			&corev1.ConfigMapList{}, &networkingv1.NetworkPolicyList{}, &rbacv1.RoleBindingList{}, &policyv1.PodDisruptionBudgetList{},
		} {
			list(kind, client.InNamespace(namespace))
		}
	}
	for _, f := range r.fleets {
		all = append(all, f.Release(t))
		list(&appsv1.ControllerRevisionList{}, client.InNamespace(fleet.Namespace), client.MatchingLabels{v1alpha1.LabelRelease: f.Name})
	}
	common := r.common(all)
	live := map[types.UID]bool{}
	for _, object := range all {
		live[object.GetUID()] = true
	}
	out := state{}
	for _, object := range all {
		if owner := metav1.GetControllerOf(object); owner != nil && !live[owner.UID] {
			continue
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			t.Fatal(err)
		}
		r.forget(content)
		text, err := json.MarshalIndent(content, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		kind := strings.TrimPrefix(fmt.Sprintf("%T", object), "*")
		out[common(kind+" "+object.GetNamespace()+"/"+object.GetName())] = common(string(text))
	}
	return out
}

var (
	instant = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
	marked  = regexp.MustCompile(`^[0-9a-f-]{36}/([0-9]+|-)/[0-9a-f]{16}$`)
)

// common returns what writes a text in terms that all runs of a scenario have in common: instead of the names that this
// one has been given, those of their parts in it, and no times. objects are what is stored of the run.
func (r *run) common(objects []client.Object) func(string) string {
	words := []string{r.lane.registry.Host, "REGISTRY"}
	for digest, tag := range r.digests {
		words = append(words, digest, "DIGEST-"+tag, digest[len("sha256:"):][:12], "DIGEST-"+tag)
	}
	for i, namespace := range r.namespaces() {
		words = append(words, namespace, fmt.Sprintf("NAMESPACE-%d", i))
	}
	// Revisions are named after their content, in which names of this run occur.
	for _, object := range objects {
		if revision, ok := object.(*appsv1.ControllerRevision); ok {
			words = append(words, revision.Name, fmt.Sprintf("REVISION-%d-OF-%s", revision.Revision, revision.Labels[v1alpha1.LabelRelease]))
		}
	}
	replace := strings.NewReplacer(words...)
	var names []*regexp.Regexp
	for _, f := range r.fleets {
		names = append(names, regexp.MustCompile(`\b`+f.Name+`\b`))
	}
	return func(text string) string {
		text = replace.Replace(text)
		for i, name := range names {
			text = name.ReplaceAllString(text, fmt.Sprintf("RELEASE-%d", i))
		}
		return instant.ReplaceAllString(text, "TIME")
	}
}

// forget removes from an object what two runs cannot have in common, and nothing else:
//
//   - who is who and when: UIDs, versions, times, and managedFields, which hold times;
//   - fleetVersion, a version;
//   - the inputs annotation, a hash in which the gateway's UID is, and of an applied object's mark the UID and the hash
//     (the generation stays);
//   - where it is chance whether the first rollout saw a gateway (unseen), whether it was installed by it;
//   - in a scenario in which it is chance what a gateway meets on its way (loose): how many generations its Deployment
//     has had, the numbers of attempts, and how a gateway stood when it was admitted. The order within a fleet goes by UIDs, so which gateways an edit finds moved
//     already differs from run to run, with or without a crash.
func (r *run) forget(content any) {
	switch content := content.(type) {
	case []any:
		for _, item := range content {
			r.forget(item)
		}
	case map[string]any:
		for _, key := range []string{
			"uid", "resourceVersion", "creationTimestamp", "managedFields",
			"lastTransitionTime", "lastUpdateTime", "admittedAt", "fleetVersion",
			"clusterIP", "clusterIPs", v1alpha1.AnnotationInputs,
		} {
			delete(content, key)
		}
		if mark, ok := content["mark"].(string); ok {
			content["mark"] = marked.ReplaceAllString(mark, "$1")
		}
		if r.scenario.unseen {
			delete(content, "install")
		}
		if r.scenario.loose {
			for _, key := range []string{"mark", "attempt", "stableAttempt", "wasReady", "install", v1alpha1.AnnotationAttempt} {
				delete(content, key)
			}
			metadata, _ := content["metadata"].(map[string]any)
			status, _ := content["status"].(map[string]any)
			if _, isDeployment := status["availableReplicas"]; isDeployment && metadata != nil {
				delete(metadata, "generation")
				delete(status, "observedGeneration")
			}
		}
		for _, value := range content {
			r.forget(value)
		}
	}
}

// differ says how a state differs from the one that was expected, nil if it does not.
func differ(got, want state) error {
	var lines []string
	for _, key := range slices.Sorted(keysOf(got, want)) {
		if got[key] == want[key] {
			continue
		}
		lines = append(lines, key+":")
		have, expected := strings.Split(got[key], "\n"), strings.Split(want[key], "\n")
		shown := 0
		for _, line := range have {
			if !slices.Contains(expected, line) && shown < 12 {
				lines, shown = append(lines, "  + "+line), shown+1
			}
		}
		for _, line := range expected {
			if !slices.Contains(have, line) && shown < 24 {
				lines, shown = append(lines, "  - "+line), shown+1
			}
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return fmt.Errorf("not the state of an uninterrupted run (+ is what there is, - is what is missing):\n%s", strings.Join(lines, "\n"))
}

func keysOf(states ...state) func(func(string) bool) {
	return func(yield func(string) bool) {
		seen := map[string]bool{}
		for _, s := range states {
			for key := range s {
				if !seen[key] {
					seen[key] = true
					if !yield(key) {
						return
					}
				}
			}
		}
	}
}
