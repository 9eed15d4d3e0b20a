package release_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
)

// revisions are the names of the stored revisions of a release.
func (b *bench) revisions(r *v1alpha1.GatewayRelease) []string {
	b.Helper()
	list := &appsv1.ControllerRevisionList{}
	if err := b.client.List(b.Context(), list, client.InNamespace(b.namespace), client.MatchingLabels{v1alpha1.LabelRelease: r.Name}); err != nil {
		b.Fatal(err)
	}
	slices.SortFunc(list.Items, func(x, y appsv1.ControllerRevision) int { return int(x.Revision - y.Revision) })
	var names []string
	for _, stored := range list.Items {
		names = append(names, stored.Name)
	}
	return names
}

func TestHistoryKeepsWhatIsUsedAndSoManyMore(t *testing.T) {
	b := newBench(t)
	p := b.profile().Name
	b.hub.PushImage(t, "team/gateway", "1")
	elsewhere := b.release(b.hub.Reference("team/gateway", "1"), p, func(r *v1alpha1.GatewayRelease) { r.Spec.Rollout.Paused = true })
	r := b.release(b.hub.Reference("team/gateway", "1"), p, func(r *v1alpha1.GatewayRelease) { r.Spec.RevisionHistoryLimit = ptr.To[int32](1) })
	b.start()
	var accepted []string
	for version := 1; version <= 5; version++ {
		digest := b.hub.PushImage(t, "team/gateway", fmt.Sprint(version))
		if version > 1 {
			edit(b, r, func(r *v1alpha1.GatewayRelease) { r.Spec.Image = b.hub.Reference("team/gateway", fmt.Sprint(version)) })
		}
		b.reaches(r, complete(r, b.hub.Host+"/team/gateway@"+digest.String()))
		accepted = append(accepted, r.Status.Revision)
		if version != 2 {
			continue
		}
		// A gateway takes the second, follows another release then, and waits there with what it has.
		gateway := b.gateway(r)
		b.reaches(r, func() error {
			if r.Status.Rollout.Fleet.Updated != 1 {
				return fmt.Errorf("fleet %+v", r.Status.Rollout.Fleet)
			}
			return nil
		})
		edit(b, gateway, func(g *v1alpha1.GatewayInstance) { g.Spec.ReleaseRef.Name = elsewhere.Name })
	}
	// Of five: the last is in use, the second is what a gateway runs, and one more is kept.
	want := []string{accepted[1], accepted[3], accepted[4]}
	eventually.Succeeds(t, within, func() error {
		if got := b.revisions(r); !slices.Equal(got, want) {
			return fmt.Errorf("revisions %q of %q, want %q", got, accepted, want)
		}
		return nil
	})
}

func TestAnAcceptedRevisionThatSomebodyDeletedIsWrittenAnew(t *testing.T) {
	b := newBench(t)
	b.hub.PushImage(t, "team/gateway", "1.0")
	r := b.release(b.hub.Reference("team/gateway", "1.0"), b.profile().Name, interval(0))
	b.start()
	b.reaches(r, summary(r, "Available"))
	stored := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: r.Status.Revision}}
	if err := b.client.Delete(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	eventually.Succeeds(t, within, func() error {
		_, err := b.revision(r.Status.Revision)
		return err
	})
}

func TestAForeignRevisionOfTheNameIsNotTakenFor(t *testing.T) {
	b := newBench(t)
	b.hub.PushImage(t, "team/gateway", "1.0")
	r := b.release(b.hub.Reference("team/gateway", "1.0"), b.profile().Name)
	c := b.start()
	b.reaches(r, summary(r, "Available"))
	c.stop()

	stored := &appsv1.ControllerRevision{}
	key := client.ObjectKey{Namespace: b.namespace, Name: r.Status.Revision}
	if err := b.client.Get(t.Context(), key, stored); err != nil {
		t.Fatal(err)
	}
	forged := stored.DeepCopy()
	forged.ResourceVersion, forged.UID = "", ""
	forged.Data.Raw = []byte(strings.ReplaceAll(string(stored.Data.Raw), "serve", "steal"))
	if err := b.client.Delete(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	b.create(forged)
	b.start()
	b.reaches(r, all(
		condition(r, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonForeignRevision),
		func() error {
			if !strings.HasPrefix(r.Status.Summary, "Invalid: ControllerRevision "+key.String()+": its content belongs to the name "+r.Name+"-") {
				return fmt.Errorf("summary %q", r.Status.Summary)
			}
			return nil
		}))
	if err := b.client.Delete(t.Context(), forged); err != nil {
		t.Fatal(err)
	}
	b.reaches(r, summary(r, "Available"))
}

func TestADeletedReleaseLeavesNoSeriesAndItsSuccessorTakesOver(t *testing.T) {
	b := newBench(t)
	b.hub.PushImage(t, "team/gateway", "1.0")
	p := b.profile().Name
	r := b.release(b.hub.Reference("team/gateway", "1.0"), p)
	b.gateway(r)
	c := b.start()
	b.reaches(r, condition(r, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRolloutComplete))
	eventually.Succeeds(t, within, func() error {
		if got, _ := c.value("gatehouse_release_gateways", "release", r.Name, "state", "updated"); got != 1 {
			return fmt.Errorf("gatehouse_release_gateways{state=updated} is %v", got)
		}
		return nil
	})
	revision, attempt := r.Status.Revision, r.Status.Rollout.Attempt
	if err := b.client.Delete(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	eventually.Succeeds(t, within, func() error {
		if _, series := c.value("gatehouse_release_gateways", "release", r.Name); series != 0 {
			return fmt.Errorf("%d series of a release that is gone", series)
		}
		return nil
	})

	again := &v1alpha1.GatewayRelease{ObjectMeta: metav1.ObjectMeta{Name: r.Name}, Spec: r.Spec}
	b.create(again)
	b.reaches(again, condition(again, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRolloutComplete))
	if again.Status.Revision != revision {
		t.Errorf("revision %s, want %s as before", again.Status.Revision, revision)
	}
	if again.Status.Rollout.Attempt < attempt {
		t.Errorf("attempt %d after %d: it must never repeat", again.Status.Rollout.Attempt, attempt)
	}
	stored := &appsv1.ControllerRevision{}
	if err := b.client.Get(t.Context(), client.ObjectKey{Namespace: b.namespace, Name: revision}, stored); err != nil {
		t.Fatal(err)
	}
	if !metav1.IsControlledBy(stored, again) {
		t.Errorf("the revision is owned by %+v", stored.OwnerReferences)
	}
}
