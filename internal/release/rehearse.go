package release

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/outcome"
	"github.com/gatehouse-dev/gatehouse/internal/revision"
)

// maxCauses bounds how many faults of a template are listed.
const maxCauses = 8

// rehearse has the API server itself say whether it would take the pod template of a revision that is about to be
// stored, by a dry run that leaves nothing behind. So a port out of range or a mount without its volume is told before
// the first gateway is asked to run it.
func (r *reconciler) rehearse(ctx context.Context, release *v1alpha1.GatewayRelease, accepted revision.Revision) error {
	template, err := accepted.Template()
	if err != nil {
		return fmt.Errorf("rehearse revision %s: %w", accepted.Name(), err)
	}
	rehearsal := &corev1.PodTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, GenerateName: "rehearsal-"},
		Template:   template,
	}
	err = r.client.Create(ctx, rehearsal, client.DryRunAll, client.FieldOwner(v1alpha1.FieldOwnerRelease))
	if apierrors.IsInvalid(err) {
		return outcome.Terminal(v1alpha1.ReasonInvalidProfile, fmt.Errorf("profile %s: %s", release.Spec.ProfileRef.Name, causes(err)))
	}
	if err != nil {
		return fmt.Errorf("rehearse revision %s: %w", accepted.Name(), err)
	}
	return nil
}

// causes lists what the API server has against a template, with the paths of the profile.
func causes(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
		return "spec.template: the API server refuses it"
	}
	var lines []string
	for i, cause := range status.Status().Details.Causes {
		if i == maxCauses {
			lines = append(lines, fmt.Sprintf("and %d more", len(status.Status().Details.Causes)-maxCauses))
			break
		}
		lines = append(lines, "spec."+cause.Field+": "+cause.Message)
	}
	return strings.Join(lines, "; ")
}
