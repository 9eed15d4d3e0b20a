package kubelet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

const (
	// Scheduler is a scheduler that does not exist: pods that ask for it get no node.
	Scheduler = "gatehouse-processes"
	// Finalizer keeps a pod until its process has ended.
	Finalizer = "gatehouse.dev/process"

	// lookEvery is how often pods are listed and processes are probed.
	lookEvery = 100 * time.Millisecond
	// requestWithin bounds a request to the API server, probeWithin one to a process.
	requestWithin, probeWithin = 10 * time.Second, 2 * time.Second
	maxPods                    = 200
)

// Options say what is run, and how.
type Options struct {
	// Client reads from the API server, as an administrator.
	Client client.Client
	// Config is that administrator's: it says where the API server is.
	Config *rest.Config
	// Namespace is Gatehouse's own.
	Namespace string
	// Binary is the product.
	Binary string
	// Dir is where kubeconfigs and logs are written. It outlives the kubelet.
	Dir string
	// Arguments come after those of the pod's container, and may override them.
	Arguments []string
	// Environment is what each process sees beside HOME, PATH and its pod's identity, as NAME=value.
	Environment []string
	// Way returns the kubeconfig by which a pod's process reaches the API server, given its own: that of a proxy. Nil is
	// the direct way. It is called once for each pod.
	Way func(pod *corev1.Pod, kubeconfig string) (string, error)
}

// Kubelet plays the kubelet for the replicas.
type Kubelet struct {
	options Options
	stop    context.CancelFunc
	ended   sync.WaitGroup

	mu       sync.Mutex
	replicas map[types.UID]*Replica
	trouble  error // of the last look at the pods
}

// Start plays the kubelet until Stop or Kill is called, one of which must be.
func Start(ctx context.Context, o Options) *Kubelet {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	k := &Kubelet{options: o, stop: cancel, replicas: map[types.UID]*Replica{}}
	k.ended.Go(func() { k.look(ctx) })
	return k
}

// Replicas are those whose pods have a process, by name.
func (k *Kubelet) Replicas() []*Replica {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make([]*Replica, 0, len(k.replicas))
	for _, r := range k.replicas {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *Replica) int {
		return strings.Compare(a.Name+" "+string(a.UID), b.Name+" "+string(b.UID))
	})
	return all
}

// Replica is the newest of a pod's name, or nil.
func (k *Kubelet) Replica(name string) *Replica {
	var found *Replica
	for _, r := range k.Replicas() {
		if r.Name == name && (found == nil || !r.Ending()) {
			found = r
		}
	}
	return found
}

// Trouble is what keeps the kubelet from its work at the moment, or nil.
func (k *Kubelet) Trouble() error {
	k.mu.Lock()
	errs := []error{k.trouble}
	k.mu.Unlock()
	for _, r := range k.Replicas() {
		if err := r.Trouble(); err != nil {
			errs = append(errs, fmt.Errorf("pod %s: %w", r.Name, err))
		}
	}
	return errors.Join(errs...)
}

// Stop asks every process to end, insists after the pods' grace, and stops playing the kubelet. The pods stay as they
// are. It returns how processes that did not end well ended.
func (k *Kubelet) Stop(ctx context.Context) error {
	k.stop()
	k.ended.Wait()
	var mu sync.Mutex
	var errs []error
	var stopping sync.WaitGroup
	for _, r := range k.Replicas() {
		stopping.Go(func() {
			if err := r.end(ctx); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	stopping.Wait()
	return errors.Join(errs...)
}

// Kill is Stop without asking.
func (k *Kubelet) Kill() error {
	k.stop()
	k.ended.Wait()
	var errs []error
	for _, r := range k.Replicas() {
		errs = append(errs, r.kill())
	}
	return errors.Join(errs...)
}

// look lists the pods again and again, and tells each replica of its own.
func (k *Kubelet) look(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		err := k.see(ctx)
		k.mu.Lock()
		k.trouble = err
		k.mu.Unlock()
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (k *Kubelet) see(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, requestWithin)
	defer cancel()
	pods := &corev1.PodList{}
	err := k.options.Client.List(asking, pods, client.InNamespace(k.options.Namespace), client.Limit(maxPods), Replicas)
	if err != nil {
		return fmt.Errorf("list the pods of namespace %s: %w", k.options.Namespace, err)
	}
	if pods.Continue != "" {
		return fmt.Errorf("namespace %s has more than %d pods of replicas: this machine cannot run them", k.options.Namespace, maxPods)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	there := map[types.UID]bool{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		there[pod.UID] = true
		known := k.replicas[pod.UID]
		switch {
		case known != nil:
			known.pod.Store(pod)
		case len(pod.Spec.NodeSelector) > 0 && pod.DeletionTimestamp == nil: // for a node that is not there
		default:
			r := newReplica(k.options, pod)
			k.replicas[pod.UID] = r
			k.ended.Go(func() { r.run(ctx) })
		}
	}
	for uid, r := range k.replicas {
		if !there[uid] {
			r.gone.Store(true)
			if r.over() {
				delete(k.replicas, uid)
			}
		}
	}
	return nil
}

// Replicas select the pods that are replicas of Gatehouse.
var Replicas = client.MatchingLabels{v1alpha1.LabelApplication: v1alpha1.Application, v1alpha1.LabelComponent: v1alpha1.ComponentManager}
