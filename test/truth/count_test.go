package truth

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/podstatus"
	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
)

// sent is what the product has sent about one subject.
type sent struct {
	reports     []cluster.AuditEvent // writes of reports, refused ones included; deletions are not among them
	deletions   int
	statuses    int // writes of the status
	conflicting int // of these, such as were refused and are not counted
}

// span is how long reports kept arriving.
func (s sent) span() time.Duration {
	if len(s.reports) == 0 {
		return 0
	}
	compare := func(a, b cluster.AuditEvent) int { return a.Time.Compare(b.Time) }
	return slices.MaxFunc(s.reports, compare).Time.Sub(slices.MinFunc(s.reports, compare).Time)
}

// each is what was sent since a mark about each subject, by the API server's own record.
func (w *world) each(t *testing.T, since cluster.Mark) map[*subject]sent {
	t.Helper()
	events, err := product.Sent(t.Context(), since)
	if err != nil {
		t.Fatal(err)
	}
	about := map[string]*subject{}
	for _, s := range w.subjects {
		for _, pod := range w.watcher.podNames() {
			about[podstatus.PackName(pod, s.identity)] = s
		}
	}
	found := map[*subject]sent{}
	for _, e := range events {
		if e.APIGroup != v1alpha1.GroupVersion.Group {
			continue
		}
		switch e.Resource {
		case "executorpodstatuses":
			s := about[e.Name]
			if s == nil {
				t.Errorf("a report on none of the Executors: %s", e)
				continue
			}
			now := found[s]
			if e.Verb == "delete" {
				now.deletions++
			} else {
				now.reports = append(now.reports, e)
			}
			found[s] = now
		case "executors", "namespacedexecutors":
			i := slices.IndexFunc(w.subjects, func(s *subject) bool {
				return s.NamespacedName == (types.NamespacedName{Namespace: e.Namespace, Name: e.Name})
			})
			if i < 0 || e.Subresource != "status" {
				t.Errorf("a write that nobody expects: %s", e)
				continue
			}
			now := found[w.subjects[i]]
			if e.Code == 409 {
				now.conflicting++
			} else {
				now.statuses++
			}
			found[w.subjects[i]] = now
		}
	}
	return found
}

// podNames are those of all replicas there are and were.
func (w *watcher) podNames() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var names []string
	for name := range w.pods {
		names = append(names, name)
	}
	for name := range w.gone {
		if w.pods[name] == nil {
			names = append(names, name)
		}
	}
	return names
}

// quiet is how long nothing must be sent before the product is taken to be at rest: longer than a status is held up.
const quiet = 2 * time.Second

// still waits until the product sends nothing more.
func (w *world) still(t *testing.T) {
	t.Helper()
	mark, err := product.Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	since := time.Now()
	eventually.Succeeds(t, patience, func() error {
		events, err := product.Sent(t.Context(), mark)
		if err != nil {
			return err
		}
		if len(events) > 0 {
			if mark, err = product.Mark(t.Context()); err != nil {
				return err
			}
			since = time.Now()
			return fmt.Errorf("%s", events[len(events)-1])
		}
		if rested := time.Since(since); rested < quiet {
			return fmt.Errorf("nothing has been sent for %s only", rested)
		}
		return nil
	})
}

// ownReportsAlone looks at all that was ever sent: each report was written with the token of the pod that it is of, and
// deleted with that, or after a pod of the name was gone.
func (w *world) ownReportsAlone(t *testing.T, began cluster.Mark) {
	t.Helper()
	events, err := product.Writes(t.Context(), began, cluster.ByServiceAccount(fleet.Namespace, fleet.ServiceAccount), cluster.OfResource(v1alpha1.GroupVersion.Group, "executorpodstatuses"))
	if err != nil {
		t.Fatal(err)
	}
	written := 0
	for _, e := range events {
		pod, _, _, _, ok := podstatus.UnpackName(e.Name)
		if !ok {
			pod = w.podOfHashed(e.Name)
		}
		switch {
		case e.Code >= 400 && strings.Contains(e.UserAgent, cluster.UserAgent): // a try of this test's own, refused
		case e.Verb == "delete" && pod != e.Pod && !w.watcher.isGone(pod):
			t.Errorf("pod %q lives, and what it reports was deleted by %q: %s", pod, e.Pod, e)
		case e.Verb != "delete" && pod != e.Pod:
			t.Errorf("with the token of pod %q a report of pod %q: %s", e.Pod, pod, e)
		default:
			written++
		}
	}
	if written == 0 {
		t.Error("the audit log knows of no report")
	}
	t.Logf("%d writes and deletions of reports", written)
}

// podOfHashed is whose a report is whose name says nothing.
func (w *world) podOfHashed(name string) string {
	for _, pod := range w.watcher.podNames() {
		for _, s := range w.subjects {
			if podstatus.PackName(pod, s.identity) == name {
				return pod
			}
		}
	}
	return ""
}

func (w *watcher) isGone(pod string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gone[pod]
}
