package lint

import (
	"errors"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/revision"
)

// examine says of an object that the schema admits what the controllers will
// say of it, and what is weak about it.
func examine(r *reporter) {
	switch r.kind {
	case "GatewayRelease":
		decoded(r, examineRelease)
	case "GatewayProfile":
		decoded(r, examineProfile)
	case "Executor":
		decoded(r, examineExecutor)
	case "NamespacedExecutor":
		decoded(r, examineNamespacedExecutor)
	}
}

func decoded[T any](r *reporter, next func(*reporter, *T)) {
	into := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(r.Object, into); err != nil {
		r.add("", "does not decode: %v", err)
		return
	}
	next(r, into)
}

func examineRelease(r *reporter, release *v1alpha1.GatewayRelease) {
	if _, err := image.Parse(release.Spec.Image); err != nil {
		r.add("spec.image", "%v", err)
	}
	if release.Spec.Verification == v1alpha1.VerificationDisabled {
		r.warn("spec.verification", "Disabled asks for no signature: whatever the registry serves under this name is run")
	}
	if access := release.Spec.Registry; access != nil && access.PlainHTTP {
		r.warn("spec.registry.plainHTTP", "whoever is on the way to the registry can answer in its place; use TLS")
	}
}

func examineProfile(r *reporter, profile *v1alpha1.GatewayProfile) {
	err := revision.Validate(&profile.Spec)
	var faults *revision.ProfileError
	switch {
	case errors.As(err, &faults):
		for _, p := range faults.Problems {
			r.add(p.Field, "%s", p.Reason)
		}
	case err != nil:
		r.add("spec", "%v", err)
	}
}
