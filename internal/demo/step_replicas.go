package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/faultproxy"
	"github.com/gatehouse-dev/gatehouse/test/signatures/notation"
)

// goneWithin is within what time of a pod's end nothing is said of it any more.
const goneWithin = 5 * time.Second

// brokenSpec edits the Executor to what no replica can build, sees that each says so and goes on serving the generation
// before, and takes the edit back.
func brokenSpec(ctx context.Context, s *scene, r *record) error {
	before := s.fleet.now()
	was, err := s.trusted(ctx, replicaCount)
	if err != nil {
		return err
	}
	pasted := s.executor().Spec
	verifiers := pasted.Verifiers
	half := slices.Clone(verifiers)
	half[len(half)-1] = *half[len(half)-1].DeepCopy()
	key := &half[len(half)-1].Cosign.Keys[0]
	key.Inline, _, _ = strings.Cut(key.Inline, "\n") // the first line of it
	generation, err := s.editVerifiers(ctx, half)
	if err != nil {
		return err
	}
	var now v1alpha1.ExecutorStatus
	err = s.executorSays(ctx, "every replica says that it cannot build the new generation, and serves the one before", func(e *v1alpha1.Executor) string {
		now = *e.Status.DeepCopy()
		switch {
		case now.ObservedGeneration != generation || now.Replicas.Failed != replicaCount || now.Replicas.Ready != 0 || now.Succeeded || len(now.ByPod) != replicaCount:
			return saysOf(e)
		}
		for _, p := range now.ByPod {
			if p.ObservedGeneration != generation || p.ServingGeneration != was.ObservedGeneration {
				return fmt.Sprintf("%s serves generation %d and has attempted %d", p.ID, p.ServingGeneration, p.ObservedGeneration)
			}
		}
		return ""
	})
	if err != nil {
		return err
	}
	if err := s.steady(ctx, before); err != nil {
		return err
	}
	r.note("summary", now.Replicas.Summary)
	r.note("observedGeneration", now.ObservedGeneration)
	r.note("servingGeneration", was.ObservedGeneration)
	r.note("briefError", now.BriefError)
	first, _, _ := strings.Cut(now.Error, "\n")
	r.seen = fmt.Sprintf("%s on generation %d, %d goes on serving on every replica; the Executor says %q", now.Replicas.Summary, generation, was.ObservedGeneration, first)
	if _, err := s.editVerifiers(ctx, verifiers); err != nil {
		return err
	}
	_, err = s.trusted(ctx, replicaCount)
	return err
}

// replicaKilled kills a replica and deletes its pod, and sees what was said of it go, and another take its place.
func replicaKilled(ctx context.Context, s *scene, r *record) error {
	pod, err := s.manager.follower(ctx)
	if err != nil {
		return err
	}
	replica := s.manager.kubelet.Replica(pod.Name)
	if replica == nil {
		return fmt.Errorf("no process runs for pod %s", pod.Name)
	}
	if err := s.manager.client.Delete(ctx, pod); err != nil {
		return fmt.Errorf("delete pod %s: %w", pod.Name, err)
	}
	if err := replica.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, probeEvery, managerReadyWithin, true, func(ctx context.Context) (bool, error) {
		err := s.manager.client.Get(ctx, client.ObjectKeyFromObject(pod), s.manager.named(pod.Name))
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	if err != nil {
		return fmt.Errorf("awaited that pod %s is gone: %w", pod.Name, err)
	}
	gone := time.Now()
	err = s.executorSays(ctx, "nothing is said of "+pod.Name+" any more", func(e *v1alpha1.Executor) string {
		if slices.ContainsFunc(e.Status.ByPod, func(p v1alpha1.ReplicaStatus) bool { return p.ID == pod.Name }) {
			return "it is still in byPod"
		}
		return ""
	})
	if err != nil {
		return err
	}
	took := time.Since(gone)
	if took > goneWithin {
		return fmt.Errorf("what was said of pod %s was to go within %s of the pod, but took %s", pod.Name, goneWithin, took)
	}
	if err := s.manager.await(ctx, replicaCount); err != nil {
		return err
	}
	if _, err := s.trusted(ctx, replicaCount); err != nil {
		return err
	}
	r.note("killed", pod.Name)
	r.note("entryGoneAfter", float64(took.Milliseconds())/1000)
	r.seen = fmt.Sprintf("the entry of %s was gone %.1fs after its pod; another has taken its place", pod.Name, took.Seconds())
	return s.intact()
}

// scaled makes Gatehouse five replicas and three again, and sees that no Executor was in doubt meanwhile.
func scaled(ctx context.Context, s *scene, r *record) error {
	const more = 5
	if _, err := s.trusted(ctx, replicaCount); err != nil {
		return err
	}
	s.fleet.begin()
	for _, replicas := range []int{more, replicaCount} {
		if err := s.manager.scale(ctx, replicas); err != nil {
			return err
		}
		if _, err := s.trusted(ctx, replicas); err != nil {
			return err
		}
	}
	doubted := ""
	s.fleet.look(func() { doubted = s.fleet.extremes.doubted })
	r.note("replicas", more)
	r.note("doubted", doubted != "")
	if doubted != "" {
		return fmt.Errorf("the Executor %s was to be Ready throughout, but at one moment %s", executorName, doubted)
	}
	r.seen = fmt.Sprintf("%d/%d, then %d/%d; Executor %s was Ready throughout", more, more, replicaCount, replicaCount, executorName)
	return s.intact()
}

// missedRotation adds another certificate to the authority's Secret while one replica does not get to hear of it, and sees
// that replica, and no other, shown as the one that trusts something else.
func missedRotation(ctx context.Context, s *scene, r *record) error {
	pod, err := s.manager.follower(ctx)
	if err != nil {
		return err
	}
	odd, proxy, err := s.manager.replaceByProxied(ctx, pod)
	if err != nil {
		return err
	}
	was, err := s.trusted(ctx, replicaCount)
	if err != nil {
		return err
	}
	release := proxy.Hold(func(request faultproxy.Request) bool { return request.Verb == "watch" && request.Resource == "secrets" })
	defer release()
	next, err := notation.New(notation.Options{})
	if err != nil {
		return err
	}
	if err := s.editSecret(ctx, slices.Concat(s.signers.authority.PEM(), next.PEM())); err != nil {
		return err
	}
	old, brief := was.ByPod[0].Inputs, ""
	err = s.executorSays(ctx, "all replicas but "+odd+" trust the new certificate too, and it is shown as the odd one out", func(e *v1alpha1.Executor) string {
		status := e.Status
		if status.Succeeded || status.Replicas.Expected != replicaCount || status.Replicas.Ready != replicaCount-1 || len(status.ByPod) != replicaCount {
			return saysOf(e)
		}
		first := status.ByPod[0]
		if first.ID != odd || first.Succeeded || first.Inputs != old {
			return fmt.Sprintf("the first that is shown is %s, inputs %s (before %s)", first.ID, first.Inputs, old)
		}
		for _, p := range status.ByPod[1:] {
			if !p.Succeeded || p.Inputs == old || p.Inputs != status.ByPod[1].Inputs {
				return fmt.Sprintf("%s trusts %s", p.ID, p.Inputs)
			}
		}
		brief = first.BriefError
		return ""
	})
	if err != nil {
		return err
	}
	if r.shown, err = s.status(ctx); err != nil {
		return err
	}
	release()
	now, err := s.trusted(ctx, replicaCount)
	if err != nil {
		return err
	}
	if now.ByPod[0].Inputs == old {
		return fmt.Errorf("all replicas were to trust the new certificate, but their inputs are %s, as before", old)
	}
	r.note("odd", odd)
	r.note("ready", replicaCount-1)
	r.note("briefError", brief)
	r.seen = fmt.Sprintf("%d/%d, and of %s alone: %q; %d/%d when it heard of it", replicaCount-1, replicaCount, odd, brief, replicaCount, replicaCount)
	return s.intact()
}

// status is what a person would type to see who serves what of the Executor, and what is printed then.
func (s *scene) status(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, s.manager.options.Binary, "status", executorName, "--kubeconfig", s.kubernetes.kubeconfig)
	printed, err := cmd.Output()
	exited := &exec.ExitError{}
	if err != nil && !(errors.As(err, &exited) && exited.ExitCode() == 1) { // 1: it is not Ready
		return "", fmt.Errorf("gatehouse status %s: %w", executorName, err)
	}
	return fmt.Sprintf("$ gatehouse status %s\n%s", executorName, printed), nil
}

// editVerifiers replaces the Executor's verifiers and returns the generation that the edit made.
func (s *scene) editVerifiers(ctx context.Context, verifiers []v1alpha1.Verifier) (int64, error) {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"verifiers": verifiers}})
	if err != nil {
		return 0, err
	}
	executor := s.executor()
	if err := s.client.Patch(ctx, executor, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return 0, fmt.Errorf("edit Executor %s: %w", executorName, err)
	}
	return executor.Generation, nil
}

// trusted waits until that many replicas serve the Executor's present generation and trust the same.
func (s *scene) trusted(ctx context.Context, replicas int) (now v1alpha1.ExecutorStatus, err error) {
	what := fmt.Sprintf("%d replicas serve Executor %s", replicas, executorName)
	err = s.executorSays(ctx, what, func(e *v1alpha1.Executor) string {
		now = *e.Status.DeepCopy()
		if now.ObservedGeneration != e.Generation || !now.Succeeded || int(now.Replicas.Ready) != replicas || int(now.Replicas.Expected) != replicas || len(now.ByPod) != replicas {
			return saysOf(e)
		}
		for _, p := range now.ByPod {
			if p.Inputs != now.ByPod[0].Inputs || p.ServingGeneration != e.Generation {
				return saysOf(e)
			}
		}
		return ""
	})
	return now, err
}

func (s *scene) executorSays(ctx context.Context, what string, holds func(*v1alpha1.Executor) (missing string)) error {
	return s.fleet.await(ctx, s.pace.patience, what, func() string {
		if s.fleet.executor == nil {
			return "the Executor has not been seen"
		}
		return holds(s.fleet.executor)
	})
}

// saysOf is what an Executor says, in a line.
func saysOf(e *v1alpha1.Executor) string {
	status := e.Status
	return fmt.Sprintf("it says of generation %d (now %d): %+v; %s", status.ObservedGeneration, e.Generation, status.Replicas, strings.ReplaceAll(status.Error, "\n", "; "))
}
