package soak

import (
	"encoding/json"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// lastWord puts right what only a person can: mistakes in specs, what is missing, a pause. What is no mistake is not
// touched, so that an edit that was missed is not made good by another.
func (w *world) lastWord(t *testing.T) {
	t.Helper()
	err := errors.Join(w.mendProfiles(t), w.mendAccess(t), w.mendReleases(t), w.mendGateways(t))
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) mendProfiles(t *testing.T) error {
	for n := range profiles {
		found := storedProfile(n)
		err := w.product.Client.Get(t.Context(), client.ObjectKeyFromObject(found), found)
		var template map[string]any
		if err == nil {
			if _, err := readTemplate(found); err == nil && json.Unmarshal(found.Spec.Template.Raw, &template) == nil {
				continue
			}
		} else if !apierrors.IsNotFound(err) {
			return err
		}
		if err := w.replaceProfile(t, n, w.next()); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) mendAccess(t *testing.T) error {
	secret, wanted := &corev1.Secret{}, credentials(w.private().registry, password)
	err := w.product.Client.Get(t.Context(), client.ObjectKeyFromObject(wanted), secret)
	if err != nil || string(secret.Data[corev1.DockerConfigJsonKey]) != string(wanted.Data[corev1.DockerConfigJsonKey]) {
		if err := w.setCredentials(t, password); err != nil {
			return err
		}
	}
	err = w.product.Client.Create(t.Context(), w.authority())
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// atMost is how long a rollout of what is left may take: few steps, and nobody is given up.
var atMost = intstr.FromString("50%")

func (w *world) mendReleases(t *testing.T) error {
	for n, r := range w.releases {
		if r.gone {
			r.gone = false
			if err := w.product.Client.Create(t.Context(), r.object(n%profiles, tagOf(n))); err != nil {
				return err
			}
			continue
		}
		found := r.stored()
		if err := w.product.Client.Get(t.Context(), client.ObjectKeyFromObject(found), found); err != nil {
			return err
		}
		was := found.DeepCopy()
		if tag, known := r.tag(found.Spec.Image); !known || tag == bad {
			found.Spec.Image = r.image(tagOf(n))
		}
		found.Spec.Rollout.Paused = false
		found.Spec.Rollout.MaxUnavailable = ptr.To(atMost)
		if err := w.product.Client.Patch(t.Context(), found, client.MergeFrom(was)); err != nil {
			return err
		}
	}
	return nil
}

// tag finds an image among those of a release's repository.
func (r *release) tag(image string) (string, bool) {
	for tag := range r.digests {
		if r.image(tag) == image {
			return tag, true
		}
	}
	return "", false
}

func (w *world) mendGateways(t *testing.T) error {
	var list v1alpha1.GatewayInstanceList
	if err := w.product.Client.List(t.Context(), &list); err != nil {
		return err
	}
	for i := range list.Items {
		g := &list.Items[i]
		if len(g.Spec.Env) > 0 && g.Spec.Env[0].Name == "PROFILE" {
			if err := w.merge(t, g, `{"spec":{"env":null}}`); err != nil {
				return err
			}
		}
	}
	return nil
}
