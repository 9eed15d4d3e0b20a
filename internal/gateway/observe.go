package gateway

import (
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/gateway/manifest"
	"github.com/gatehouse-dev/gatehouse/internal/outcome"
)

// observe fills in status from what lives. wrong is what kept the gateway from being as it should; Finish says that.
func (r *reconciler) observe(work *work, wrong error) {
	gateway := work.gateway
	into := &gateway.Status
	desired := ptr.Deref(gateway.Spec.Replicas, 1)
	seen := see(work.deployment(), work.pods)
	lost := seen.lost(desired, work.before)

	into.Selector = selector(gateway.Name)
	into.Replicas = replicas(desired, seen.updated, seen.ready)
	into.Applied = work.marks.applied()
	if seen.rolled {
		into.Image, into.ShortImage = seen.image, shortImage(seen.image)
	}
	if seen.image == "" {
		into.Image, into.ShortImage = "", ""
	}
	work.settled = seen.current && desired == seen.desired

	var waits *errWaiting
	switch {
	case errors.As(wrong, &waits):
		into.Phase = v1alpha1.GatewayPending
		work.unready(waits.reason, waits.message)
	case wrong != nil:
		into.Phase = phaseOf(seen, work.settled, wrong)
	case work.settled:
		into.Phase = v1alpha1.GatewayRunning
		work.pass.Set(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReplicasAvailable,
			fmt.Sprintf("%d of %d replicas run %s", seen.ready, desired, into.Revision.Name))
		if work.undecided == "" {
			work.pass.Clear(v1alpha1.ConditionReconciling)
		}
	case seen.stuck != "":
		into.Phase = v1alpha1.GatewayFailed
		work.unready(v1alpha1.ReasonNotProgressing, fmt.Sprintf("Deployment %s does not progress: %s", gateway.Name, seen.stuck))
	case lost:
		into.Phase = v1alpha1.GatewayDegraded
		work.unready(v1alpha1.ReasonReplicasUnavailable, fmt.Sprintf("%d of %d replicas are available", seen.ready, desired))
	default:
		work.progressing()
	}
	if work.undecided != "" && wrong == nil {
		work.pass.Set(v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonCannotVerify, work.undecided)
	}
	into.ObservedGeneration = gateway.Generation
}

// serves says whether the gateway has something to lose, as the planner will read it from the status that this pass ends
// with when nothing is taken: all replicas available, or some while others are still to come.
func (work *work) serves() bool {
	desired := ptr.Deref(work.gateway.Spec.Replicas, 1)
	seen := see(work.deployment(), work.pods)
	if seen.ready == 0 || desired > 0 && seen.ready >= desired {
		return seen.ready > 0
	}
	return seen.stuck == "" && !seen.lost(desired, work.before)
}

func (work *work) unready(reason, message string) {
	work.pass.Set(v1alpha1.ConditionReady, metav1.ConditionFalse, reason, message)
	work.pass.Set(v1alpha1.ConditionReconciling, metav1.ConditionTrue, reason, message)
}

// lost says that replicas are missing of what had all been there.
func (s sight) lost(desired int32, before *v1alpha1.GatewayInstanceStatus) bool {
	return !s.current && s.rolled && desired == s.desired && settledBefore(before)
}

// settledBefore reports whether the gateway has run what it was given already: then missing replicas are a loss, and
// before that they are still to come.
func settledBefore(before *v1alpha1.GatewayInstanceStatus) bool {
	ready := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionReady)
	return ready != nil && (ready.Reason == v1alpha1.ReasonReplicasAvailable || ready.Reason == v1alpha1.ReasonReplicasUnavailable)
}

// phaseOf is the word for a gateway about which something is wrong. One whose release or revision is gone, or that
// may not take what its release gives, runs on.
func phaseOf(seen sight, settled bool, wrong error) v1alpha1.GatewayPhase {
	described := outcome.As(wrong)
	switch {
	case described == nil:
		return v1alpha1.GatewayProvisioning
	case seen.image == "" && !described.Terminal:
		return v1alpha1.GatewayProvisioning
	case seen.image == "":
		return v1alpha1.GatewayFailed
	case described.Reason == v1alpha1.ReasonReleaseNotFound, described.Reason == v1alpha1.ReasonRevisionNotFound,
		described.Reason == v1alpha1.ReasonVerificationFailed, described.Reason == v1alpha1.ReasonCannotVerify:
		if settled {
			return v1alpha1.GatewayRunning
		}
		return v1alpha1.GatewayDegraded
	case described.Terminal:
		return v1alpha1.GatewayFailed
	default:
		return v1alpha1.GatewayDegraded
	}
}

// sight is what a Deployment and its pods look like.
type sight struct {
	desired, updated, ready int32
	image                   string // of the container "gateway"
	rolled                  bool   // all pods are of the present template, and no old ones remain
	current                 bool   // kstatus: and all are available
	stuck                   string // why it does not progress; empty while it may
}

func see(deployment *appsv1.Deployment, pods []corev1.Pod) sight {
	if deployment == nil {
		return sight{}
	}
	now := deployment.Status
	seen := sight{desired: ptr.Deref(deployment.Spec.Replicas, 1), ready: now.AvailableReplicas}
	for _, container := range deployment.Spec.Template.Spec.Containers {
		if container.Name == v1alpha1.GatewayContainer {
			seen.image = container.Image
		}
	}
	observed := now.ObservedGeneration >= deployment.Generation
	if observed {
		seen.updated = now.UpdatedReplicas
	}
	seen.rolled = observed && now.UpdatedReplicas == seen.desired && now.Replicas == seen.desired
	seen.current = observed && isCurrent(deployment)
	if !seen.current {
		seen.stuck = stuck(deployment, pods)
	}
	return seen
}

// isCurrent asks kstatus, whose rules kubectl, Flux and Argo CD go by.
func isCurrent(deployment *appsv1.Deployment) bool {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(deployment)
	if err != nil {
		return false
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(manifest.DeploymentKind)
	result, err := status.Compute(u)
	return err == nil && result.Status == status.CurrentStatus
}

func replicas(desired, updated, ready int32) *v1alpha1.GatewayReplicas {
	return &v1alpha1.GatewayReplicas{
		Desired: desired, Updated: updated, Ready: ready, Summary: fmt.Sprintf("%d/%d", ready, desired),
	}
}

func selector(gateway string) string {
	return metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: manifest.Selector(gateway)})
}

// shortImage is the last part of the repository and the first twelve characters of the digest.
func shortImage(image string) string {
	repository, digest, _ := strings.Cut(image, "@")
	repository = repository[strings.LastIndex(repository, "/")+1:]
	_, hex, _ := strings.Cut(digest, ":")
	if hex == "" {
		return outcome.Bound(repository, 300)
	}
	return outcome.Bound(repository, 280) + "@" + hex[:min(len(hex), 12)]
}
