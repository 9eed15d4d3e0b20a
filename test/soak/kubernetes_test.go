package soak

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/apps/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"

	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
)

// workloads play the Deployment controller. What becomes of a change is its fate, which the seed decides.
type workloads struct {
	client *kubernetes.Clientset
	lister listers.DeploymentLister
	queue  workqueue.TypedDelayingInterface[cache.ObjectName]
	seed   uint64

	mu     sync.Mutex
	quiet  bool            // every change is good at once
	never  map[string]bool // digests whose pods are never ready
	fates  map[cache.ObjectName]fate
	failed error
}

// fate is what happens to the pods of a Deployment after a change of it.
type fate struct {
	generation int64
	seen       time.Time
	// ready is when its pods are; lost is when they are lost again, and back is when they return. Zero lost is never.
	ready, lost, back time.Duration
}

const players = 8

// playKubernetes plays the Deployment controller and the garbage collector until the test ends.
func playKubernetes(t *testing.T, product *fleet.Installation, seed uint64) *workloads {
	t.Helper()
	config := rest.CopyConfig(product.Config)
	config.ContentType = runtime.ContentTypeProtobuf
	config.UserAgent = "kubernetes-played"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	w := &workloads{
		client: client,
		queue:  workqueue.NewTypedDelayingQueue[cache.ObjectName](),
		seed:   seed,
		never:  map[string]bool{},
		fates:  map[cache.ObjectName]fate{},
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Apps().V1().Deployments()
	w.lister = informer.Lister()
	see := func(object any) {
		if name, err := cache.DeletionHandlingObjectToName(object); err == nil {
			w.queue.Add(name)
		}
	}
	if _, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: see, UpdateFunc: func(_, now any) { see(now) }, DeleteFunc: see,
	}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	var working sync.WaitGroup
	for range players {
		working.Go(func() { w.work(ctx) })
	}
	working.Go(func() { w.fail(collect(ctx, product.Client)) })
	t.Cleanup(func() {
		cancel()
		w.queue.ShutDown()
		factory.Shutdown()
		working.Wait()
		if w.failed != nil {
			t.Error(w.failed)
		}
	})
	return w
}

func (w *workloads) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = errors.Join(w.failed, err)
}

func (w *workloads) work(ctx context.Context) {
	for {
		name, ends := w.queue.Get()
		if ends {
			return
		}
		if err := w.play(ctx, name); err != nil && ctx.Err() == nil {
			w.fail(fmt.Errorf("write the status of Deployment %s: %w", name, err))
		}
		w.queue.Done(name)
	}
}

// play brings the status of a Deployment up to the present hour of its fate.
func (w *workloads) play(ctx context.Context, name cache.ObjectName) error {
	deployment, err := w.lister.Deployments(name.Namespace).Get(name.Name)
	if err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.fates, name)
		return nil
	}
	want, next := w.status(name, deployment)
	if next > 0 {
		w.queue.AddAfter(name, next)
	}
	if same(deployment.Status, want) {
		return nil
	}
	deployment = deployment.DeepCopy()
	deployment.Status = want
	_, err = w.client.AppsV1().Deployments(name.Namespace).UpdateStatus(ctx, deployment, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // what has changed meanwhile is on its way
	}
	return err
}

// status is what a Deployment's should be now, and when that changes.
func (w *workloads) status(name cache.ObjectName, deployment *appsv1.Deployment) (appsv1.DeploymentStatus, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	f := w.fates[name]
	if f.generation != deployment.Generation || f.seen.IsZero() {
		f = w.draw(name, deployment)
		f.seen = now
		w.fates[name] = f
	}
	age := now.Sub(f.seen)
	switch {
	case w.never[digestOf(deployment)]:
		return surging(deployment), 0
	case w.quiet:
		return rolled(deployment), 0
	case age < f.ready:
		return surging(deployment), f.ready - age
	case f.lost > 0 && age < f.lost:
		return rolled(deployment), f.lost - age
	case f.lost > 0 && age < f.back:
		return gone(deployment), f.back - age
	default:
		return rolled(deployment), 0
	}
}

// draw decides the fate of a change: most are good at once, some late, and some lose their pods again.
func (w *workloads) draw(name cache.ObjectName, deployment *appsv1.Deployment) fate {
	decider := fnv.New64a()
	_, _ = fmt.Fprintf(decider, "%s %d", name, deployment.Generation)
	chance := rand.New(rand.NewPCG(w.seed, decider.Sum64()))
	f := fate{generation: deployment.Generation}
	switch n := chance.IntN(20); {
	case n < 12:
	case n < 16:
		f.ready = time.Duration(chance.IntN(3000)) * time.Millisecond
	case n < 18:
		f.ready = time.Duration(3+chance.IntN(15)) * time.Second
	default:
		f.lost = time.Duration(1+chance.IntN(10)) * time.Second
		f.back = f.lost + time.Duration(1+chance.IntN(15))*time.Second
	}
	return f
}

// neverReady lets the pods of a digest never be ready.
func (w *workloads) neverReady(digest image.Digest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.never[digest.String()] = true
}

// calm lets everything be good from now on.
func (w *workloads) calm() {
	w.mu.Lock()
	w.quiet = true
	names := make([]cache.ObjectName, 0, len(w.fates))
	for name := range w.fates {
		names = append(names, name)
	}
	w.mu.Unlock()
	for _, name := range names {
		w.queue.Add(name)
	}
}

// settled waits until nothing is left to play.
func (w *workloads) settled(t *testing.T) {
	t.Helper()
	eventually.Succeeds(t, settling, func() error {
		if left := w.queue.Len(); left > 0 {
			return fmt.Errorf("%d Deployments are still to be played", left)
		}
		return nil
	})
}

func digestOf(deployment *appsv1.Deployment) string {
	for _, container := range deployment.Spec.Template.Spec.Containers {
		if _, digest, pinned := strings.Cut(container.Image, "@"); container.Name == "gateway" && pinned {
			return digest
		}
	}
	return ""
}

// rolled is a Deployment whose pods are all of the present template and available.
func rolled(d *appsv1.Deployment) appsv1.DeploymentStatus {
	n := ptr.Deref(d.Spec.Replicas, 1)
	return status(d, n, n, n, corev1.ConditionTrue, complete)
}

// surging is one with one new pod that is not ready, beside the old ones.
func surging(d *appsv1.Deployment) appsv1.DeploymentStatus {
	n := ptr.Deref(d.Spec.Replicas, 1)
	if n == 0 {
		return rolled(d)
	}
	old := min(n, d.Status.AvailableReplicas)
	available := corev1.ConditionFalse
	if old == n {
		available = corev1.ConditionTrue
	}
	return status(d, old+1, 1, old, available, "ReplicaSetUpdated")
}

// gone is one whose pods are of the present template and not there for a while.
func gone(d *appsv1.Deployment) appsv1.DeploymentStatus {
	n := ptr.Deref(d.Spec.Replicas, 1)
	if n == 0 {
		return rolled(d)
	}
	return status(d, n, n, 0, corev1.ConditionFalse, complete)
}

// complete is what the Deployment controller says of one that has got through, as kstatus wants to hear it.
const complete = "NewReplicaSetAvailable"

func status(d *appsv1.Deployment, all, updated, available int32, is corev1.ConditionStatus, progress string) appsv1.DeploymentStatus {
	now := metav1.Now()
	return appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation,
		Replicas:           all, UpdatedReplicas: updated, ReadyReplicas: available, AvailableReplicas: available,
		UnavailableReplicas: all - available,
		Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentAvailable, Status: is, Reason: "MinimumReplicas", LastUpdateTime: now, LastTransitionTime: now},
			{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: progress, LastUpdateTime: now, LastTransitionTime: now},
		},
	}
}

// same compares but for times.
func same(a, b appsv1.DeploymentStatus) bool {
	timeless := func(s appsv1.DeploymentStatus) appsv1.DeploymentStatus {
		s = *s.DeepCopy()
		for i := range s.Conditions {
			s.Conditions[i].LastUpdateTime, s.Conditions[i].LastTransitionTime = metav1.Time{}, metav1.Time{}
		}
		return s
	}
	return equality.Semantic.DeepEqual(timeless(a), timeless(b))
}
