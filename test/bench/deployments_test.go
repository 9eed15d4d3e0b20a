package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// deployments plays the Deployment controller: each change of a Deployment that Gatehouse manages is answered by one
// status write, which says that all has been rolled.
type deployments struct {
	kubernetes *kubernetes.Clientset
	changed    chan *appsv1.Deployment
	// written counts the status writes that went through.
	written atomic.Int64
	mu      sync.Mutex
	failed  error
}

// concurrency is that of the manager's workers, of the bench's own clients, and of the floor.
const concurrency = 16

// backlog is more than any fleet has Deployments.
const backlog = 20_000

// playDeployments runs until the benchmark ends.
func playDeployments(tb testing.TB, config *rest.Config) *deployments {
	tb.Helper()
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		tb.Fatal(err)
	}
	d := &deployments{kubernetes: clients, changed: make(chan *appsv1.Deployment, backlog)}
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	factory := informers.NewSharedInformerFactoryWithOptions(clients, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.LabelSelector = v1alpha1.LabelManagedBy + "=" + v1alpha1.ManagedBy
	}))
	see := func(object any) {
		if deployment := object.(*appsv1.Deployment); deployment.Status.ObservedGeneration < deployment.Generation {
			d.changed <- deployment
		}
	}
	if _, err := factory.Apps().V1().Deployments().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: see, UpdateFunc: func(_, now any) { see(now) },
	}); err != nil {
		tb.Fatal(err)
	}
	factory.Start(ctx.Done())
	var workers sync.WaitGroup
	for range concurrency {
		workers.Go(func() { d.work(ctx) })
	}
	tb.Cleanup(func() {
		cancel()
		factory.Shutdown()
		workers.Wait()
		if err := d.err(); err != nil {
			tb.Error(err)
		}
	})
	return d
}

func (d *deployments) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case deployment := <-d.changed:
			_, err := d.kubernetes.AppsV1().Deployments(deployment.Namespace).UpdateStatus(ctx, rolled(deployment), metav1.UpdateOptions{})
			switch {
			case err == nil:
				d.written.Add(1)
			case apierrors.IsConflict(err) || apierrors.IsNotFound(err) || ctx.Err() != nil:
				// What has changed meanwhile is on its way.
			default:
				d.mu.Lock()
				d.failed = fmt.Errorf("write the status of Deployment %s/%s: %w", deployment.Namespace, deployment.Name, err)
				d.mu.Unlock()
			}
		}
	}
}

func (d *deployments) err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed
}

// rolled is the Deployment as its controller describes it when all pods are of the present template and available.
func rolled(deployment *appsv1.Deployment) *appsv1.Deployment {
	out := deployment.DeepCopy()
	replicas := ptr.Deref(out.Spec.Replicas, 1)
	now := metav1.NewTime(time.Now())
	out.Status = appsv1.DeploymentStatus{
		ObservedGeneration: out.Generation,
		Replicas:           replicas, UpdatedReplicas: replicas, ReadyReplicas: replicas, AvailableReplicas: replicas,
		Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable", LastUpdateTime: now, LastTransitionTime: now},
			{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable", LastUpdateTime: now, LastTransitionTime: now},
		},
	}
	return out
}
