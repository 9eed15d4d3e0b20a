package release_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
)

// lost is a release on its second image whose status was lost, as were those of its gateways, with what these recorded.
func (b *bench) lost() (r *v1alpha1.GatewayRelease, recorded []v1alpha1.GatewayInstance) {
	b.Helper()
	r = b.release(b.hub.Reference("team/gateway", "1.0"), b.profile().Name)
	for range 2 {
		b.gateway(r)
	}
	c := b.start()
	for _, version := range []string{"1.0", "1.1"} {
		digest := b.hub.PushImage(b.T, "team/gateway", version)
		edit(b, r, func(r *v1alpha1.GatewayRelease) { r.Spec.Image = b.hub.Reference("team/gateway", version) })
		b.reaches(r, complete(r, b.hub.Host+"/team/gateway@"+digest.String()))
	}
	c.stop()
	list := &v1alpha1.GatewayInstanceList{}
	if err := b.client.List(b.Context(), list, client.InNamespace(b.tenant)); err != nil {
		b.Fatal(err)
	}
	for i := range list.Items {
		b.wipe(list.Items[i].DeepCopy())
	}
	b.wipe(r.DeepCopy())
	oldest := &appsv1.ControllerRevision{}
	if err := b.client.Get(b.Context(), client.ObjectKey{Namespace: b.namespace, Name: b.revisions(r)[0]}, oldest); err != nil {
		b.Fatal(err)
	}
	eventually.Succeeds(b.T, within, func() error {
		if !oldest.CreationTimestamp.Time.Before(time.Now().Truncate(time.Second)) {
			return fmt.Errorf("revision %s is of this very second, and times are stored in seconds", oldest.Name)
		}
		return nil
	})
	return r, list.Items
}

func (b *bench) wipe(object client.Object) {
	b.Helper()
	empty := client.RawPatch("application/json-patch+json", []byte(`[{"op":"replace","path":"/status","value":{}}]`))
	if err := b.client.Status().Patch(b.Context(), object, empty); err != nil {
		b.Fatal(err)
	}
}

// Fails when a release whose status was lost begins an attempt before its gateways have recorded what they run: it would
// give out the number of an earlier one again.
func TestAfterStatusWasLostGatewaysAdoptFirst(t *testing.T) {
	b := newBench(t)
	r, gateways := b.lost()
	before := r.Status.Rollout.Attempt
	b.start()
	eventually.Succeeds(t, within, func() error {
		return b.is(r, func() error {
			if s := r.Status.Rollout; s == nil || s.Attempt != 0 || !strings.Contains(s.Message, "first say what they run") {
				return fmt.Errorf("rollout %+v", s)
			}
			return nil
		})
	})
	for _, gateway := range gateways {
		now := &v1alpha1.GatewayInstance{}
		if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(&gateway), now); err != nil {
			t.Fatal(err)
		}
		now.Status = gateway.Status
		if err := b.client.Status().Update(t.Context(), now); err != nil {
			t.Fatal(err)
		}
	}
	b.reaches(r, complete(r, gateways[0].Status.Revision.Image))
	if r.Status.Rollout.Attempt <= before {
		t.Errorf("attempt %d after %d", r.Status.Rollout.Attempt, before)
	}
}

// Fails when a gateway that never reports holds up a release whose status was lost.
func TestAGatewayThatIsSilentHoldsUpNobody(t *testing.T) {
	b := newBench(t)
	r, _ := b.lost()
	b.start()
	eventually.Succeeds(t, within, func() error {
		return b.is(r, func() error {
			if s := r.Status.Rollout; s == nil || s.Target != r.Status.Revision {
				return fmt.Errorf("rollout %+v", s)
			}
			return nil
		})
	})
}
