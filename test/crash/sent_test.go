package crash

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/faultproxy"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
)

// owned are the kinds of which gateways consist.
func owned() []client.Object {
	return []client.Object{
		&appsv1.Deployment{}, &corev1.Service{}, &corev1.ServiceAccount{}, &corev1.ConfigMap{},
		&networkingv1.NetworkPolicy{}, &rbacv1.RoleBinding{}, &policyv1.PodDisruptionBudget{},
	}
}

// sent is how often something was written.
type sent struct {
	times   int // sent, whatever came of it
	made    int // done by the API server
	changed int // to another version, or generation of what has one
}

// sent counts writes by what was done to what, in terms that all runs have in common. What was done to a gateway that
// is gone in the end is left out: how far it had come is chance.
func (r *run) sent(t *testing.T, writes []faultproxy.Written) map[string]sent {
	t.Helper()
	var revisions []client.Object
	for _, f := range r.fleets {
		var list appsv1.ControllerRevisionList
		if err := r.lane.product.Client.List(t.Context(), &list, client.InNamespace(fleet.Namespace), client.MatchingLabels{v1alpha1.LabelRelease: f.Name}); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			revisions = append(revisions, &list.Items[i])
		}
	}
	common := r.common(revisions)
	namespaces := r.namespaces()
	versions := map[string]map[string]bool{}
	out := map[string]sent{}
	for _, w := range writes {
		if slices.Contains(namespaces, w.Namespace) && !r.ofLive(w.Namespace, w.Name) {
			continue
		}
		if !r.concerns(w.Request) {
			continue // a story that is over, as one sees it who looks back
		}
		if w.Verb == "create" {
			w.Name = "" // one that was not answered, or not meant, has none
		}
		key := common(w.Request.String())
		count := out[key]
		count.times++
		if w.Committed && !w.DryRun {
			count.made++
		}
		if w.Version != "" && !w.DryRun {
			if versions[key] == nil {
				versions[key] = map[string]bool{}
			}
			version := w.Version
			if w.Generation > 0 { // a Deployment's version moves with its status too
				version = fmt.Sprint("generation ", w.Generation)
			}
			versions[key][version] = true
			count.changed = len(versions[key])
		}
		out[key] = count
	}
	return out
}

// concerns says whether a request is about this run.
func (r *run) concerns(request faultproxy.Request) bool {
	if request.Namespace == fleet.Namespace {
		return request.Name == "" || request.Resource != "controllerrevisions" || slices.ContainsFunc(r.fleets, func(f *fleet.Fleet) bool { return strings.HasPrefix(request.Name, f.Name+"-") })
	}
	return slices.Contains(r.namespaces(), request.Namespace) ||
		slices.ContainsFunc(r.fleets, func(f *fleet.Fleet) bool { return f.Name == request.Name })
}

// ofLive says whether an object's name is that of a gateway that is there in the end, or begins with one.
func (r *run) ofLive(namespace, name string) bool {
	for key := range r.follows {
		if namespace == key.Namespace && (name == key.Name || strings.HasPrefix(name, key.Name+"-") || strings.HasPrefix(name, key.Name+".")) {
			return true
		}
	}
	return false
}

// needless says which writes an undisturbed run would not have needed: those for which excess says why.
func needless(got, want map[string]sent, excess func(key string, got, want sent) string) error {
	var found []string
	for key, count := range got {
		if why := excess(key, count, want[key]); why != "" {
			found = append(found, key+": "+why)
		}
	}
	if len(found) == 0 {
		return nil
	}
	slices.Sort(found)
	return fmt.Errorf("writes that an undisturbed run does not need:\n%s", strings.Join(found, "\n"))
}
