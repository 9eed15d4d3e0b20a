package crash

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	watchapi "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
)

// startup is how long a pod takes to become ready: long enough that a window is seen to be full.
const startup = 40 * time.Millisecond

// watcher sees every version of every Deployment in the order in which the API server stored them. It plays the
// Deployment controller, and holds what it sees to the promises.
type watcher struct {
	client client.Client

	mu       sync.Mutex
	frozen   chan struct{}   // closed when pods go on; nil while they do
	bad      map[string]bool // digests whose pods never become ready
	exempt   map[string]bool // gateways that use no budget
	budget   int
	gateways map[types.UID]*history
	tales    map[types.UID]*tale
	broken   []string // promises
	failed   error
}

// history is what one Deployment has gone through.
type history struct {
	name      string
	revision  string
	release   string
	templates []string // hashes, in the order of their coming
	available bool     // has been once
	moving    bool     // to another revision, and not available on it yet
}

// watch starts one; it ends with the test.
func watch(t *testing.T, config *rest.Config) *watcher {
	t.Helper()
	c, err := fleet.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	w := &watcher{client: c, bad: map[string]bool{}, exempt: map[string]bool{}, gateways: map[types.UID]*history{}, tales: map[types.UID]*tale{}}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var watching sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		watching.Wait()
	})
	for _, kind := range []client.ObjectList{&appsv1.DeploymentList{}, &v1alpha1.GatewayReleaseList{}, &v1alpha1.GatewayInstanceList{}} {
		stream, err := c.Watch(ctx, kind)
		if err != nil {
			t.Fatal(err)
		}
		watching.Go(func() {
			for e := range stream.ResultChan() {
				if e.Type == watchapi.Deleted {
					continue
				}
				switch object := e.Object.(type) {
				case *appsv1.Deployment:
					w.see(ctx, object)
				case *v1alpha1.GatewayRelease:
					w.told(object, tale{generation: object.Status.ObservedGeneration, attempt: attemptOf(object.Status.Rollout), revision: object.Status.Revision})
				case *v1alpha1.GatewayInstance:
					w.told(object, taleOf(object))
				}
			}
			if ctx.Err() == nil {
				w.fail(fmt.Errorf("the watch of a %T has ended", kind))
			}
		})
		context.AfterFunc(ctx, stream.Stop)
	}
	return w
}

// begin forgets what was; from now on no more than budget gateways of a release may be moving at a time.
func (w *watcher) begin(budget int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.budget, w.broken = budget, nil
	clear(w.bad)
	clear(w.exempt)
}

// never makes pods of a digest stay unready.
func (w *watcher) never(digest string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bad[digest] = true
}

// freeze keeps pods from becoming ready until thaw. Of a gateway that is over with its move before anybody looks, no
// mistake in the budget can be seen.
func (w *watcher) freeze() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.frozen == nil {
		w.frozen = make(chan struct{})
	}
}

func (w *watcher) thaw() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.frozen != nil {
		close(w.frozen)
		w.frozen = nil
	}
}

// thawed waits until pods may become ready.
func (w *watcher) thawed(ctx context.Context) {
	w.mu.Lock()
	frozen := w.frozen
	w.mu.Unlock()
	if frozen == nil {
		return
	}
	select {
	case <-frozen:
	case <-ctx.Done():
	}
}

// unbudgeted says that a gateway may move besides the budget. A tenant has just created or changed it, which happens at
// once and outside of the window, and one that is not Ready when it is admitted uses no budget; or it has left the
// fleet, and its slot with it, though nobody here collects its Deployment.
func (w *watcher) unbudgeted(gateway client.ObjectKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.exempt[gateway.String()] = true
}

// verdict is which promises were broken since begin.
func (w *watcher) verdict() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed != nil {
		return w.failed
	}
	if len(w.broken) > 0 {
		return errors.New(strings.Join(w.broken, "\n"))
	}
	return nil
}

func (w *watcher) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = err
}

func (w *watcher) see(ctx context.Context, d *appsv1.Deployment) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.gateways[d.UID]
	if h == nil {
		h = &history{name: d.Namespace + "/" + d.Name}
		w.gateways[d.UID] = h
	}
	w.hold(h, d)
	if !current(d) {
		ready := true
		for digest := range w.bad {
			ready = ready && !strings.HasSuffix(d.Spec.Template.Spec.Containers[0].Image, digest)
		}
		if ready || d.Status.ObservedGeneration < d.Generation {
			time.AfterFunc(startup, func() { w.play(ctx, d, ready) })
		}
	}
}

// hold compares a version with what came before it.
func (w *watcher) hold(h *history, d *appsv1.Deployment) {
	template := hash(d.Spec.Template)
	if n := len(h.templates); n == 0 || h.templates[n-1] != template {
		for _, earlier := range h.templates {
			if earlier == template {
				w.broken = append(w.broken, fmt.Sprintf("%s was rolled back to a template that it had before: rolled twice", h.name))
			}
		}
		h.templates = append(h.templates, template)
	}
	revision, release := d.Annotations[v1alpha1.AnnotationRevision], d.Annotations[v1alpha1.AnnotationRevisionRelease]
	if h.available && revision != h.revision {
		h.moving = true
	}
	h.revision, h.release = revision, release
	if current(d) {
		h.available, h.moving = true, false
	}
	var moving []string
	for _, other := range w.gateways {
		if other.moving && other.release == release && !w.exempt[other.name] {
			moving = append(moving, other.name)
		}
	}
	if h.moving && !w.exempt[h.name] && w.budget > 0 && len(moving) > w.budget {
		w.broken = append(w.broken, fmt.Sprintf("%d gateways are moving at a time, the budget is %d: %v", len(moving), w.budget, moving))
	}
}

// conflicts says that the Deployment has changed or gone since it was seen.
func conflicts(err error) bool { return apierrors.IsConflict(err) || apierrors.IsNotFound(err) }

func hash(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))
}

// current says whether a Deployment runs what it asks for.
func current(d *appsv1.Deployment) bool {
	want := ptr.Deref(d.Spec.Replicas, 1)
	s := d.Status
	return s.ObservedGeneration == d.Generation && s.Replicas == want && s.UpdatedReplicas == want && s.AvailableReplicas == want
}

// play writes what the Deployment controller would. Of pods that do not become ready there is one, besides the old
// ones, which stay.
func (w *watcher) play(ctx context.Context, d *appsv1.Deployment, ready bool) {
	w.thawed(ctx)
	want := ptr.Deref(d.Spec.Replicas, 1)
	status := appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, Replicas: want, UpdatedReplicas: want, ReadyReplicas: want, AvailableReplicas: want,
		Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable"},
			{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"},
		},
	}
	if !ready {
		status.Replicas, status.UpdatedReplicas, status.UnavailableReplicas = want+1, 1, 1
		status.Conditions[1].Reason = "ReplicaSetUpdated"
	}
	changed := d.DeepCopy()
	changed.Status = status
	// In the version that was seen: of a later one the watch tells, and that is played then.
	if err := w.client.Status().Update(ctx, changed); err != nil && ctx.Err() == nil && !conflicts(err) {
		w.fail(fmt.Errorf("play the Deployment controller for %s/%s: %w", d.Namespace, d.Name, err))
	}
}
