package release_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
)

// forgetful is a release that keeps no history.
func (b *bench) forgetful() *v1alpha1.GatewayRelease {
	b.Helper()
	return b.release(b.hub.Reference("team/gateway", "1"), b.profile().Name, func(r *v1alpha1.GatewayRelease) {
		r.Spec.RevisionHistoryLimit = ptr.To[int32](0)
	})
}

// accepts pushes a version, edits the release to it, and waits until it is accepted. It returns its image.
func (b *bench) accepts(r *v1alpha1.GatewayRelease, version string) string {
	b.Helper()
	image := b.hub.Host + "/team/gateway@" + b.hub.PushImage(b.T, "team/gateway", version).String()
	edit(b, r, func(r *v1alpha1.GatewayRelease) { r.Spec.Image = b.hub.Reference("team/gateway", version) })
	b.reaches(r, func() error {
		if r.Status.Image != image || r.Status.Rollout.Target != r.Status.Revision {
			return fmt.Errorf("status is of %s, want %s", r.Status.Image, image)
		}
		return nil
	})
	return image
}

// keeps waits until just these revisions are stored, while gateways obey.
func (b *bench) keeps(r *v1alpha1.GatewayRelease, names ...string) {
	b.Helper()
	b.reaches(r, func() error {
		if got := b.revisions(r); !slices.Equal(got, names) {
			return fmt.Errorf("revisions %q, want %q", got, names)
		}
		return nil
	})
}

// stays fails when a revision is deleted within a moment.
func (b *bench) stays(name string) {
	b.Helper()
	eventually.Holds(b.T, 500*time.Millisecond, func() error {
		_, err := b.revision(name)
		return err
	})
}

func (b *bench) touch(r *v1alpha1.GatewayRelease, word string) {
	b.Helper()
	edit(b, r, func(r *v1alpha1.GatewayRelease) {
		r.Annotations = map[string]string{v1alpha1.AnnotationReconcileRequestedAt: word}
	})
}

func deletions(writes []string) []string {
	return slices.DeleteFunc(writes, func(write string) bool { return !strings.Contains(write, "delete ") })
}

// Fails when a revision that nothing needs waits for the next edit or the resync, and when it is deleted by the very pass
// that takes its name out of status: a pass over a gateway may have begun from the status before.
func TestARevisionGoesInThePassAfterItHasBecomeSuperfluous(t *testing.T) {
	b := newBench(t)
	first := b.hub.PushImage(t, "team/gateway", "1")
	r := b.forgetful()
	elsewhere := b.release(b.hub.Reference("team/gateway", "1"), r.Spec.ProfileRef.Name, func(r *v1alpha1.GatewayRelease) { r.Spec.Rollout.Paused = true })
	mover, stayer := b.gateway(r), b.gateway(r)
	name := r.Name // r is read into again and again
	var mu sync.Mutex
	var seen v1alpha1.GatewayReleaseStatus // when the pass began
	deleted := 0
	b.start(func(next client.Client) client.Client {
		return interceptor.NewClient(next.(client.WithWatch), interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
				err := c.Get(ctx, key, object, options...)
				copied := client.GetOptions{}
				copied.ApplyOptions(options)
				if release, ok := object.(*v1alpha1.GatewayRelease); ok && key.Name == name && copied.UnsafeDisableDeepCopy == nil && err == nil {
					mu.Lock()
					defer mu.Unlock()
					seen = *release.Status.DeepCopy()
				}
				return err
			},
			Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
				mu.Lock()
				deleted++
				if name := object.GetName(); seen.Revision == name || seen.Rollout.Target == name || seen.Rollout.Stable == name {
					t.Errorf("%s was deleted by a pass that began when status named it", name)
				}
				mu.Unlock()
				return c.Delete(ctx, object, options...)
			},
		})
	})
	b.reaches(r, complete(r, b.hub.Host+"/team/gateway@"+first.String()))
	one := r.Status.Revision
	edit(b, mover, func(g *v1alpha1.GatewayInstance) { g.Spec.ReleaseRef.Name = elsewhere.Name })
	mark := b.mark()

	image := b.accepts(r, "2")
	b.reaches(r, complete(r, image))
	b.stays(one) // the one that has moved goes on with it
	two := r.Status.Revision
	image = b.accepts(r, "3")
	b.reaches(r, complete(r, image))
	three := r.Status.Revision
	b.keeps(r, one, three)
	edit(b, elsewhere, func(r *v1alpha1.GatewayRelease) { r.Spec.Rollout.Paused = false })
	b.keeps(r, three)

	edit(b, stayer, func(g *v1alpha1.GatewayInstance) { g.Spec.ReleaseRef.Name = "nowhere" })
	image = b.accepts(r, "4")
	b.reaches(r, complete(r, image))
	b.stays(three)
	if err := b.client.Delete(t.Context(), stayer); err != nil {
		t.Fatal(err)
	}
	b.keeps(r, r.Status.Revision)

	mu.Lock()
	defer mu.Unlock()
	if got := deletions(b.writes(mark)); len(got) != 3 || deleted != 3 {
		t.Errorf("of %s, %s and %s each is to be deleted once: sent %q", one, two, three, got)
	}
}

// Fails when a cache that still shows what has been deleted has it deleted again.
func TestARevisionIsDeletedOnceWhateverTheCacheShows(t *testing.T) {
	b := newBench(t)
	r := b.forgetful()
	var mu sync.Mutex
	var ghost []appsv1.ControllerRevision
	shown := 0
	b.start(func(next client.Client) client.Client {
		return interceptor.NewClient(next.(client.WithWatch), interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				err := c.List(ctx, list, options...)
				if revisions, ok := list.(*appsv1.ControllerRevisionList); ok && err == nil {
					mu.Lock()
					defer mu.Unlock()
					if len(ghost) > 0 {
						shown++
						revisions.Items = append(slices.Clone(ghost), slices.DeleteFunc(slices.Clone(revisions.Items), func(stored appsv1.ControllerRevision) bool {
							return stored.UID == ghost[0].UID
						})...)
					}
				}
				return err
			},
			Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
				mu.Lock()
				ghost = []appsv1.ControllerRevision{*object.(*appsv1.ControllerRevision).DeepCopy()}
				mu.Unlock()
				return c.Delete(ctx, object, options...)
			},
		})
	})
	b.accepts(r, "1")
	mark := b.mark()
	b.reaches(r, complete(r, b.accepts(r, "2")))
	b.keeps(r, r.Status.Revision)
	for turn := range 3 {
		mu.Lock()
		shown = 0
		mu.Unlock()
		b.touch(r, fmt.Sprint(turn))
		eventually.Succeeds(t, within, func() error {
			mu.Lock()
			defer mu.Unlock()
			if shown == 0 {
				return errors.New("no pass has looked at the history")
			}
			return nil
		})
	}
	if got := deletions(b.writes(mark)); len(got) != 1 {
		t.Errorf("sent %q", got)
	}
}

// Fails when a cache that does not show what a gateway has recorded has it deleted under the gateway.
func TestWhatAGatewayHasRecordedIsKeptWhateverTheCacheShows(t *testing.T) {
	b := newBench(t)
	first := b.hub.PushImage(t, "team/gateway", "1")
	r := b.forgetful()
	gateway := b.gateway(r)
	var mu sync.Mutex
	blind, looked := false, 0
	b.start(func(next client.Client) client.Client {
		return interceptor.NewClient(next.(client.WithWatch), interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				err := c.List(ctx, list, options...)
				mu.Lock()
				defer mu.Unlock()
				if gateways, ok := list.(*v1alpha1.GatewayInstanceList); ok && blind {
					gateways.Items = nil
					looked++
				}
				return err
			},
		})
	})
	b.reaches(r, complete(r, b.hub.Host+"/team/gateway@"+first.String()))
	one := r.Status.Revision
	b.deaf = true
	mu.Lock()
	blind = true
	mu.Unlock()
	image := b.accepts(r, "2")
	b.reaches(r, complete(r, image)) // as far as the cache shows
	b.touch(r, "again")
	b.stays(one)
	mu.Lock()
	if looked == 0 {
		t.Error("no pass has looked at the gateways")
	}
	blind = false
	mu.Unlock()
	b.deaf = false
	b.touch(r, "with open eyes")
	b.reaches(r, func() error {
		return b.client.Get(t.Context(), client.ObjectKeyFromObject(gateway), gateway)
	})
	b.keeps(r, r.Status.Revision)
}

// Fails when a revision is deleted that a gateway was given and has not recorded: its write may be on its way, however
// long ago the release has gone on to another.
func TestWhatAGatewayWasGivenIsKeptUntilItHasReported(t *testing.T) {
	b := newBench(t)
	first := b.hub.PushImage(t, "team/gateway", "1")
	r := b.forgetful()
	b.gateway(r)
	b.start()
	b.reaches(r, complete(r, b.hub.Host+"/team/gateway@"+first.String()))
	b.deaf = true
	b.accepts(r, "2")
	given := r.Status.Revision
	b.accepts(r, "3")
	b.touch(r, "again")
	b.stays(given)
	b.deaf = false
	b.keeps(r, r.Status.Revision)
}
