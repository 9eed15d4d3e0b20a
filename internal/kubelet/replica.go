package kubelet

import (
	"context"
	"fmt"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gatehouse-dev/gatehouse/internal/child"
)

const (
	// defaultGrace is that of a pod that names none.
	defaultGrace = 30 * time.Second
	// A process that has died is started again at once, and the longer after, the more often it dies, up to mostPause.
	firstPause, mostPause = 200 * time.Millisecond, 5 * time.Second
	// unready is after how many probes in a row that fail a process counts as not ready.
	unready = 3
)

// Replica is one pod and its process.
type Replica struct {
	Name string
	UID  types.UID
	// Log is the path of what its processes have written, one after the other.
	Log string

	options    Options
	pod        atomic.Pointer[corev1.Pod]
	gone, lost atomic.Bool

	mu         sync.Mutex
	process    *child.Process // nil before the first, and when the replica is over
	kubeconfig string
	addresses  addresses
	ready      bool // as the pod says
	restarts   int32
	trouble    error
	ended      bool
}

func newReplica(o Options, pod *corev1.Pod) *Replica {
	r := &Replica{Name: pod.Name, UID: pod.UID, Log: pathOf(o.Dir, pod, ".log"), options: o}
	r.pod.Store(pod)
	for _, c := range pod.Status.Conditions {
		r.ready = r.ready || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}
	return r
}

// Ready says whether the pod was last said to be Ready.
func (r *Replica) Ready() bool { return r.locked(func() bool { return r.ready }) }

// Ending says whether the pod is being deleted, or is gone.
func (r *Replica) Ending() bool { return r.gone.Load() || r.pod.Load().DeletionTimestamp != nil }

// Restarts is how often a process of the pod was started again.
func (r *Replica) Restarts() int32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.restarts
}

// PID is that of the process that runs, or 0.
func (r *Replica) PID() int {
	if p := r.running(); p != nil {
		return p.PID()
	}
	return 0
}

// Metrics is the URL of the running process's metrics.
func (r *Replica) Metrics() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return "http://" + r.addresses.metrics + "/metrics"
}

// Signal sends a signal to the process: SIGKILL, and another is started in the same pod; SIGSTOP, and the pod is soon no
// longer Ready.
func (r *Replica) Signal(s syscall.Signal) error {
	if p := r.running(); p != nil {
		return p.Signal(s)
	}
	return fmt.Errorf("pod %s runs no process", r.Name)
}

// Lose is the end of the machine that the replica runs on: the process is gone, nobody starts another, and the pod says
// what it said last, until somebody else finds out.
func (r *Replica) Lose() error {
	r.lost.Store(true)
	return r.kill()
}

// Forget lets the object of a lost replica's pod go, when it is deleted, as a forced deletion does.
func (r *Replica) Forget(ctx context.Context) error {
	return Release(ctx, r.options.Client, r.pod.Load())
}

// Trouble is what keeps the replica from running, or nil.
func (r *Replica) Trouble() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.trouble
}

// run runs the pod until it is gone, or ctx ends. It leaves the process running then, for whoever ended it.
func (r *Replica) run(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ended = true
	}()
	pause := firstPause
	var died time.Time
	failures := unready
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if r.lost.Load() {
			if r.note(r.kill()); r.gone.Load() {
				return
			}
			continue
		}
		if r.Ending() {
			if r.note(r.leave(ctx)) {
				return
			}
			continue
		}
		process := r.running()
		if process == nil {
			failures = unready
			if r.had() && died.IsZero() {
				died = time.Now()
				r.note(r.say(ctx, false))
			}
			if !died.IsZero() && time.Since(died) < pause {
				continue
			}
			if !died.IsZero() {
				pause = min(2*pause, mostPause)
			}
			if r.note(r.start(ctx)) {
				died = time.Time{}
			}
			continue
		}
		if probe(ctx, r.addresses.probes) {
			failures, pause = 0, firstPause
		} else {
			failures++
		}
		// One answer that is late is not the end.
		if ready := failures == 0 || r.Ready() && failures < unready && process.Running(); ready != r.Ready() || !r.said() {
			r.note(r.say(ctx, ready))
		}
	}
}

// start starts a process.
func (r *Replica) start(ctx context.Context) (err error) {
	pod := r.pod.Load()
	kubeconfig := r.kubeconfig
	if kubeconfig == "" {
		if kubeconfig, err = writeKubeconfig(ctx, r.options, pod); err != nil {
			return err
		}
		if r.options.Way != nil {
			if kubeconfig, err = r.options.Way(pod, kubeconfig); err != nil {
				return err
			}
		}
	}
	at, err := freeAddresses()
	if err != nil {
		return err
	}
	log, err := appendTo(r.Log)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(r.options.Binary, arguments(r.options, pod, kubeconfig, at)...)
	cmd.Env = environment(r.options, pod)
	cmd.Stdout, cmd.Stderr = log, log
	process, err := child.Launch("the process of pod "+pod.Name, cmd)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process != nil {
		r.restarts++
	}
	r.process, r.kubeconfig, r.addresses = process, kubeconfig, at
	return nil
}

// leave ends the process of a pod that is deleted, and lets the object go. Once begun it goes on to its end.
func (r *Replica) leave(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	// How it ended helps nobody who deletes a pod; that it did not end would, and cannot be.
	_ = r.end(ctx)
	if r.gone.Load() {
		return nil
	}
	return Release(ctx, r.options.Client, r.pod.Load())
}

// end asks the process to end, and insists after the pod's grace.
func (r *Replica) end(ctx context.Context) error {
	p := r.running()
	if p == nil {
		return nil
	}
	grace := defaultGrace
	pod := r.pod.Load()
	if seconds := pod.DeletionGracePeriodSeconds; seconds != nil && *seconds > 0 {
		grace = time.Duration(*seconds) * time.Second
	} else if seconds := pod.Spec.TerminationGracePeriodSeconds; seconds != nil {
		grace = time.Duration(*seconds) * time.Second
	}
	return p.Stop(ctx, grace)
}

func (r *Replica) kill() error {
	if p := r.running(); p != nil {
		return p.Kill()
	}
	return nil
}

// running is the process that runs, or nil.
func (r *Replica) running() *child.Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process == nil || !r.process.Running() {
		return nil
	}
	return r.process
}

// had says whether a process of the pod has run.
func (r *Replica) had() bool { return r.locked(func() bool { return r.process != nil }) }

// over says whether nothing of the replica is left.
func (r *Replica) over() bool { return r.locked(func() bool { return r.ended }) }

func (r *Replica) locked(what func() bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return what()
}

// note keeps what went wrong, and says whether nothing did.
func (r *Replica) note(err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trouble = err
	return err == nil
}
