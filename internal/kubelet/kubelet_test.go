package kubelet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/test/eventually"
)

const patience = time.Minute

// bench is a kubelet with a namespace of its own, whose processes do as files say.
type bench struct {
	*testing.T
	kubelet   *Kubelet
	namespace string
	state     string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{T: t, namespace: shared.Namespace(t, "kubelet"), state: t.TempDir()}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "gatehouse"}}
	if err := shared.Client.Create(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b.kubelet = Start(t.Context(), Options{
		Client: shared.Client, Config: shared.Config, Namespace: b.namespace, Binary: program, Dir: t.TempDir(),
		Arguments: []string{"--more=this"}, Environment: []string{stateEnv + "=" + b.state},
	})
	t.Cleanup(func() {
		if err := b.kubelet.Kill(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// run creates a pod.
func (b *bench) run(name string, change func(*corev1.Pod)) *corev1.Pod {
	b.Helper()
	pod := Pod(b.namespace, name, "gatehouse", "manager")
	change(pod)
	if err := shared.Client.Create(b.Context(), pod); err != nil {
		b.Fatal(err)
	}
	return pod
}

func asItIs(*corev1.Pod) {}

// tell makes or removes the file by which a process is told something.
func (b *bench) tell(name, what string, there bool) {
	b.Helper()
	path := filepath.Join(b.state, name+"."+what)
	var err error
	if there {
		err = os.WriteFile(path, nil, 0o600)
	} else {
		err = os.Remove(path)
	}
	if err != nil {
		b.Fatal(err)
	}
}

// until waits until the pod is as wanted.
func (b *bench) until(name, what string, is func(*corev1.Pod) bool) *corev1.Pod {
	b.Helper()
	pod := &corev1.Pod{}
	eventually.Succeeds(b, patience, func() error {
		if err := shared.Client.Get(b.Context(), client.ObjectKey{Namespace: b.namespace, Name: name}, pod); err != nil {
			return err
		}
		if !is(pod) {
			return fmt.Errorf("pod %s is not yet %s: %+v (%v)", name, what, pod.Status, b.kubelet.Trouble())
		}
		return nil
	})
	return pod
}

func ready(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func running(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodRunning && !ready(pod)
}

func TestAProcessIsItsPod(t *testing.T) {
	b := newBench(t)
	pod := b.run("one", asItIs)
	b.until("one", "running", running)
	eventually.Succeeds(t, patience, func() error {
		said, err := os.ReadFile(filepath.Join(b.state, "one.said"))
		if want := fmt.Sprintf("manager this %s %s", pod.UID, pod.UID); err != nil || string(said) != want {
			return fmt.Errorf("the process says %q, want %q: arguments, its pod, and the pod of its token (%v)", said, want, err)
		}
		return nil
	})
}

func TestReadyIsWhatTheProcessSays(t *testing.T) {
	b := newBench(t)
	b.run("one", asItIs)
	b.until("one", "running", running)
	b.tell("one", "ready", true)
	b.until("one", "ready", ready)
	b.tell("one", "ready", false)
	b.until("one", "unready", running)
	b.tell("one", "ready", true)
	b.until("one", "ready again", ready)
}

func TestAProcessThatDiesIsStartedAgainInTheSamePod(t *testing.T) {
	b := newBench(t)
	pod := b.run("one", asItIs)
	b.tell("one", "ready", true)
	b.until("one", "ready", ready)
	was := b.kubelet.Replica("one").PID()
	b.tell("one", "ready", false)
	if err := b.kubelet.Replica("one").Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	restarted := b.until("one", "restarted and unready", func(p *corev1.Pod) bool {
		return running(p) && p.Status.ContainerStatuses[0].RestartCount == 1
	})
	b.tell("one", "ready", true)
	b.until("one", "ready", ready)
	if now := b.kubelet.Replica("one").PID(); now == was || now == 0 || restarted.UID != pod.UID {
		t.Errorf("process %d of pod %s, before it was %d of pod %s", now, restarted.UID, was, pod.UID)
	}
}

func TestAPodThatIsDeletedStaysUntilItsProcessHasEnded(t *testing.T) {
	b := newBench(t)
	pod := b.run("one", asItIs)
	b.tell("one", "ready", true)
	b.until("one", "ready", ready)
	replica := b.kubelet.Replica("one")
	if err := shared.Client.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	eventually.Succeeds(t, patience, func() error {
		if !replica.Ending() {
			return fmt.Errorf("the kubelet has not seen that the pod is deleted")
		}
		return nil
	})
	b.until("one", "still there", func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil && replica.PID() != 0 })
	b.tell("one", "mayend", true)
	eventually.Succeeds(t, patience, func() error {
		err := shared.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), &corev1.Pod{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the pod is still there: %v (%v)", err, b.kubelet.Trouble())
		}
		if pid := replica.PID(); pid != 0 {
			t.Errorf("the pod is gone, and its process %d runs", pid)
		}
		return nil
	})
	// Another of the same name is another.
	again := b.run("one", asItIs)
	b.until("one", "ready", func(p *corev1.Pod) bool { return p.UID == again.UID && ready(p) })
}

func TestStoppingTheKubeletEndsEveryProcessAndLeavesThePods(t *testing.T) {
	b := newBench(t)
	b.run("one", asItIs)
	b.run("two", asItIs)
	for _, name := range []string{"one", "two"} {
		b.tell(name, "ready", true)
		b.until(name, "ready", ready)
		b.tell(name, "mayend", true)
	}
	if err := b.kubelet.Stop(t.Context()); err != nil {
		t.Errorf("the processes did not end well: %v", err)
	}
	for _, name := range []string{"one", "two"} {
		if pid := b.kubelet.Replica(name).PID(); pid != 0 {
			t.Errorf("process %d of %s runs", pid, name)
		}
		b.until(name, "there", func(p *corev1.Pod) bool { return p.DeletionTimestamp == nil })
	}
}

func TestAPodThatFitsNowhereStaysPending(t *testing.T) {
	b := newBench(t)
	waiting := b.run("waiting", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"no": "node"} })
	b.run("one", asItIs)
	b.until("one", "running", running)
	b.until("waiting", "pending", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodPending })
	if r := b.kubelet.Replica("waiting"); r != nil {
		t.Errorf("process %d runs for it", r.PID())
	}
	if err := shared.Client.Delete(t.Context(), waiting); err != nil {
		t.Fatal(err)
	}
	eventually.Succeeds(t, patience, func() error {
		if err := shared.Client.Get(t.Context(), client.ObjectKeyFromObject(waiting), &corev1.Pod{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the pod is still there: %v", err)
		}
		return nil
	})
}

func TestALostPodSaysWhatItSaidLast(t *testing.T) {
	b := newBench(t)
	b.run("one", asItIs)
	b.run("two", asItIs)
	for _, name := range []string{"one", "two"} {
		b.tell(name, "ready", true)
		b.until(name, "ready", ready)
	}
	lost := b.kubelet.Replica("one")
	if err := lost.Lose(); err != nil {
		t.Fatal(err)
	}
	// What the kubelet does for another it would have done for this one.
	b.tell("two", "ready", false)
	b.until("two", "unready", running)
	if pod := b.until("one", "there", func(*corev1.Pod) bool { return true }); !ready(pod) || lost.PID() != 0 {
		t.Errorf("the lost pod is ready: %v; its process is %d", ready(pod), lost.PID())
	}
	if err := shared.Client.Delete(t.Context(), lost.pod.Load().DeepCopy()); err != nil {
		t.Fatal(err)
	}
	eventually.Succeeds(t, patience, func() error {
		if !lost.Ending() {
			return fmt.Errorf("the deletion has not been seen")
		}
		return lost.Forget(context.WithoutCancel(t.Context()))
	})
	eventually.Succeeds(t, patience, func() error {
		if r := b.kubelet.Replica("one"); r != nil {
			return fmt.Errorf("the kubelet still knows it")
		}
		return nil
	})
}
