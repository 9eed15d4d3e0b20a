package replicas

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/internal/kubelet"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/faultproxy"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
	"github.com/gatehouse-dev/gatehouse/test/manager"
)

// Options say how the replicas of a test are run.
type Options struct {
	// Arguments come after those that make a short lease, and may override them.
	Arguments []string
	// Environment is what every process sees beside its pod's identity, as NAME=value.
	Environment []string
	// Proxied, if set, puts a fault proxy before the replicas for whose pods it returns true.
	Proxied func(pod string) bool
	// Seed decides what is left to chance in the proxies.
	Seed uint64
}

// Replicas are those of one installation.
type Replicas struct {
	on      *fleet.Installation
	kubelet *kubelet.Kubelet
	dir     string // of kubeconfigs, and of the logs of every process there was

	mu      sync.Mutex
	proxies map[string]*faultproxy.Proxy
}

// Start plays the kubelet for the replicas of an installation until the test ends, and then takes their pods away.
func Start(tb testing.TB, on *fleet.Installation, o Options) *Replicas {
	tb.Helper()
	r := &Replicas{on: on, dir: tb.TempDir(), proxies: map[string]*faultproxy.Proxy{}}
	way := func(pod *corev1.Pod, kubeconfig string) (string, error) {
		if o.Proxied == nil || !o.Proxied(pod.Name) {
			return kubeconfig, nil
		}
		proxy, err := faultproxy.Run(faultproxy.Options{Kubeconfig: kubeconfig, Dir: r.dir, Seed: o.Seed, Name: pod.Name})
		if err != nil {
			return "", err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.proxies[pod.Name] = proxy
		return proxy.Kubeconfig, nil
	}
	r.kubelet = kubelet.Start(tb.Context(), kubelet.Options{
		Client: on.Client, Config: on.Config, Namespace: fleet.Namespace, Binary: on.Binary, Dir: r.dir,
		Arguments: append([]string{
			"--lease-duration=4s", "--renew-deadline=3s", "--retry-period=1s",
			"--registry-allow-loopback", // where test registries are
		}, o.Arguments...),
		Environment: o.Environment,
		Way:         way,
	})
	tb.Cleanup(func() { r.end(tb) })
	return r
}

// Proxy is the one before a replica, or nil while there is none.
func (r *Replicas) Proxy(pod string) *faultproxy.Proxy {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.proxies[pod]
}

// All are the replicas that there are, those that end included.
func (r *Replicas) All() []*kubelet.Replica { return r.kubelet.Replicas() }

// Of is the replica of a pod, which must be there.
func (r *Replicas) Of(tb testing.TB, pod string) *kubelet.Replica {
	tb.Helper()
	var found *kubelet.Replica
	eventually.Succeeds(tb, fleet.Patience, func() error {
		if found = r.kubelet.Replica(pod); found == nil {
			return fmt.Errorf("no process runs for a pod %s (%v)", pod, r.kubelet.Trouble())
		}
		return nil
	})
	return found
}

// Kill ends the process of a pod as a power cut would. Another is started in the same pod.
func (r *Replicas) Kill(tb testing.TB, pod string) {
	tb.Helper()
	if err := r.Of(tb, pod).Signal(syscall.SIGKILL); err != nil {
		tb.Fatal(err)
	}
}

// Restart asks the process of a pod to end, as the kubelet does when its container is to run anew, and waits until another
// runs in the same pod.
func (r *Replicas) Restart(tb testing.TB, pod string) {
	tb.Helper()
	replica := r.Of(tb, pod)
	before := replica.Restarts()
	if err := replica.Signal(syscall.SIGTERM); err != nil {
		tb.Fatal(err)
	}
	eventually.Succeeds(tb, patience, func() error {
		if replica.Restarts() == before {
			return fmt.Errorf("the process of pod %s has not been started again (%v)", pod, r.kubelet.Trouble())
		}
		return nil
	})
}

// Lose is the end of the machine of a pod: its process is gone, and the pod says what it said last.
func (r *Replicas) Lose(tb testing.TB, pod string) {
	tb.Helper()
	if err := r.Of(tb, pod).Lose(); err != nil {
		tb.Fatal(err)
	}
}

// Leader is the name of the pod that holds the lease; empty if none does.
func (r *Replicas) Leader(tb testing.TB) string {
	tb.Helper()
	leader, err := r.on.Holder(tb.Context())
	if client.IgnoreNotFound(err) != nil {
		tb.Fatal(err)
	}
	return leader
}

// Led waits until a replica that is there, and is not the one named, leads, and returns its name.
func (r *Replicas) Led(tb testing.TB, not string) string {
	tb.Helper()
	leader := ""
	eventually.Succeeds(tb, fleet.Patience, func() error {
		leader = r.Leader(tb)
		if leader == "" || leader == not || r.kubelet.Replica(leader) == nil {
			return fmt.Errorf("the lease is held by %q", leader)
		}
		return nil
	})
	return leader
}

// Metrics are those of a pod's process.
func (r *Replicas) Metrics(tb testing.TB, pod string) manager.Metrics {
	tb.Helper()
	metrics, err := manager.MetricsAt(tb.Context(), r.Of(tb, pod).Metrics())
	if err != nil {
		tb.Fatal(err)
	}
	return metrics
}

// end takes everything away, and looks into the logs.
func (r *Replicas) end(tb testing.TB) {
	ctx := context.WithoutCancel(tb.Context())
	if err := r.kubelet.Kill(); err != nil {
		tb.Error(err)
	}
	r.mu.Lock()
	for _, proxy := range r.proxies {
		proxy.Close()
	}
	r.mu.Unlock()
	r.checkLogs(tb)
	namespace := client.InNamespace(fleet.Namespace)
	for _, err := range []error{
		r.on.Client.DeleteAllOf(ctx, &appsv1.Deployment{}, namespace, kubelet.Replicas),
		r.on.Client.DeleteAllOf(ctx, &appsv1.ReplicaSet{}, namespace, kubelet.Replicas), // nobody may collect garbage
	} {
		if err != nil {
			tb.Error(err)
		}
	}
	var left error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, fleet.Patience, true, func(ctx context.Context) (bool, error) {
		left = r.sweep(ctx)
		return left == nil, nil
	})
	if err != nil {
		tb.Error(errors.Join(err, left))
	}
}

// checkLogs looks into what every process there was has logged.
func (r *Replicas) checkLogs(tb testing.TB) {
	logs, err := filepath.Glob(filepath.Join(r.dir, "*.log"))
	if err != nil {
		tb.Error(err)
	}
	for _, file := range logs {
		text, err := os.ReadFile(file)
		if err != nil {
			tb.Error(err)
		}
		manager.CheckLog(tb, filepath.Base(file), string(text))
	}
}

// sweep deletes the pods that there are, and says whether there were any.
func (r *Replicas) sweep(ctx context.Context) error {
	pods := &corev1.PodList{}
	if err := r.on.Client.List(ctx, pods, client.InNamespace(fleet.Namespace), kubelet.Replicas); err != nil {
		return err
	}
	var errs []error
	for i := range pods.Items {
		pod := &pods.Items[i]
		errs = append(errs, fmt.Errorf("pod %s is still there", pod.Name),
			client.IgnoreNotFound(r.on.Client.Delete(ctx, pod, client.GracePeriodSeconds(0))),
			kubelet.Release(ctx, r.on.Client, pod))
	}
	return errors.Join(errs...)
}
