package demo

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/auditlog"
)

const passedWithin = time.Minute

// restart replaces every replica over the converged fleet, waits until the new leader has looked at every gateway, and
// counts what they have sent.
func restart(ctx context.Context, s *scene, r *record) error {
	before, err := s.versionsOfObjects(ctx)
	if err != nil {
		return err
	}
	var mark auditlog.Mark
	if s.audit != nil {
		if _, mark, err = s.audit.Read(ctx, 0); err != nil {
			return err
		}
	}
	if err := s.manager.restart(ctx); err != nil {
		return err
	}
	passes, err := s.everyGatewayPassed(ctx)
	if err != nil {
		return err
	}
	if err := s.steady(ctx, s.fleet.now()); err != nil {
		return err
	}
	after, err := s.versionsOfObjects(ctx)
	if err != nil {
		return err
	}
	if !maps.Equal(before, after) {
		return fmt.Errorf("no object was to change, but %s", difference(before, after))
	}
	r.note("passes", passes)
	r.note("objects", len(after))
	r.note("objectsChanged", 0)
	if s.audit == nil {
		r.seen = fmt.Sprintf("%d passes, and none of %d objects changed (this cluster's audit log cannot be read)", passes, len(after))
		return nil
	}
	sent, own, err := s.sent(ctx, mark)
	if err != nil {
		return err
	}
	r.note("mutatingRequests", len(sent))
	r.note("ownRequests", own)
	if own == 0 {
		return fmt.Errorf("the audit log was to show at least that %s takes its lease, but shows no request of it", s.managerIs)
	}
	if len(sent) > 0 {
		return fmt.Errorf("no mutating request was to be sent, but %d were, the first: %s", len(sent), sent[0])
	}
	r.seen = fmt.Sprintf("%d passes over the fleet, 0 mutating requests in the API server's audit log (%d about the replicas themselves: the lease, and what each serves)", passes, own)
	return nil
}

// sent are the replicas' mutating requests since a mark, less those about themselves: who leads, and what the new ones
// serve of each Executor.
func (s *scene) sent(ctx context.Context, since auditlog.Mark) (sent []auditlog.Event, own int, err error) {
	all, _, err := s.audit.Read(ctx, since)
	if err != nil {
		return nil, 0, err
	}
	for _, e := range all {
		switch {
		case e.User != s.managerIs:
		case e.Resource == "leases", e.Resource == "events" && e.Namespace == systemNamespace,
			e.Resource == "executorpodstatuses", e.Resource == "executors" && e.Subresource == "status":
			own++
		default:
			sent = append(sent, e)
		}
	}
	return sent, own, nil
}

// everyGatewayPassed waits until one of the new processes has made as many passes as there are objects to pass over.
func (s *scene) everyGatewayPassed(ctx context.Context) (int, error) {
	total := 0
	var seen map[string]int
	err := wait.PollUntilContextTimeout(ctx, probeEvery, passedWithin, true, func(ctx context.Context) (bool, error) {
		passes, err := s.manager.passes(ctx)
		if err != nil {
			return false, s.manager.check() // one may not serve metrics yet
		}
		total, seen = 0, passes
		most := 0
		for _, n := range passes {
			total += n
			most = max(most, n)
		}
		// One controller has passed over the whole fleet, another over the release.
		return most >= fleetSize && total > fleetSize, nil
	})
	if err != nil {
		return 0, fmt.Errorf("awaited that a new replica passes over all %d gateways, for %s; passes so far: %v: %w", fleetSize, passedWithin, seen, err)
	}
	return total, nil
}

// versionsOfObjects are the resource versions of the release, the gateways and what was created for them. What is said of
// Executors names the replicas, which are others by then.
func (s *scene) versionsOfObjects(ctx context.Context) (map[string]string, error) {
	managed := client.MatchingLabels{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}
	lists := []struct {
		list    client.ObjectList
		options []client.ListOption
	}{
		{&v1alpha1.GatewayReleaseList{}, nil},
		{&v1alpha1.GatewayInstanceList{}, nil},
		{&appsv1.DeploymentList{}, []client.ListOption{managed}},
		{&appsv1.ControllerRevisionList{}, []client.ListOption{client.InNamespace(systemNamespace)}},
		{&corev1.ServiceList{}, []client.ListOption{managed}},
		{&corev1.ServiceAccountList{}, []client.ListOption{managed}},
	}
	versions := map[string]string{}
	for _, l := range lists {
		if err := s.client.List(ctx, l.list, l.options...); err != nil {
			return nil, fmt.Errorf("list what is there: %w", err)
		}
		err := meta.EachListItem(l.list, func(item runtime.Object) error {
			o := item.(client.Object)
			kind := strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", l.list), "*"), "List")
			versions[kind+" "+client.ObjectKeyFromObject(o).String()] = string(o.GetUID()) + "/" + o.GetResourceVersion()
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return versions, nil
}

func difference(before, after map[string]string) string {
	for name, version := range after {
		if was, ok := before[name]; !ok {
			return name + " appeared"
		} else if was != version {
			return name + " changed"
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			return name + " disappeared"
		}
	}
	return "nothing differs"
}
