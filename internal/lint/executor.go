package lint

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/executor"
	"github.com/gatehouse-dev/gatehouse/internal/registry"
)

func examineExecutor(r *reporter, e *v1alpha1.Executor) { examineVerification(r, &e.Spec) }

func examineNamespacedExecutor(r *reporter, e *v1alpha1.NamespacedExecutor) {
	spec := e.Spec.ExecutorSpec()
	examineVerification(r, &spec)
}

// examineVerification compiles a spec. What it names is not there: that is no fault of the manifest.
func examineVerification(r *reporter, spec *v1alpha1.ExecutorSpec) {
	withoutLayouts := *spec.DeepCopy()
	for i := range withoutLayouts.Stores { // folders are those of the replicas
		if withoutLayouts.Stores[i].OCILayout != nil {
			withoutLayouts.Stores[i] = v1alpha1.Store{Name: withoutLayouts.Stores[i].Name, Registry: &v1alpha1.RegistryStore{}}
		}
	}
	_, err := executor.Compile(r.name, &withoutLayouts, nil, "", executor.Tools{Registry: registry.New(registry.Options{})})
	var faulty *executor.SpecError
	switch {
	case errors.As(err, &faulty):
		for _, fault := range faulty.Faults {
			r.add("spec", "%v", fault)
		}
	case err != nil:
		r.add("spec", "%v", err)
	}
	for i, scope := range spec.Scopes {
		if scope == "*" && spec.Mode == v1alpha1.ModeAudit {
			r.warn(fmt.Sprintf("spec.scopes[%d]", i), "* in mode Audit enforces nothing for any image; set mode to Enforce once the reports are as they should be")
		}
	}
	for i, store := range spec.Stores {
		if store.Registry != nil && store.Registry.PlainHTTP {
			r.warn(fmt.Sprintf("spec.stores[%d].registry.plainHTTP", i), "whoever is on the way to the registry can hide signatures; use TLS")
		}
	}
	for i := range spec.Verifiers {
		field := fmt.Sprintf("spec.verifiers[%d]", i)
		if notation := spec.Verifiers[i].Notation; notation != nil {
			examineNotation(r, field+".notation", notation)
		}
		if cosign := spec.Verifiers[i].Cosign; cosign != nil {
			examineCosign(r, field+".cosign", cosign)
		}
	}
}

func examineNotation(r *reporter, field string, n *v1alpha1.NotationVerifier) {
	if n.Level != v1alpha1.NotationStrict {
		r.warn(field+".level", "%s lets expired signatures pass; use Strict", n.Level)
	}
	if n.Revocation != v1alpha1.RevocationEnforce {
		r.warn(field+".revocation", "%s lets certificates pass of which nobody knows whether they are revoked; use Enforce", n.Revocation)
	}
	for i, identity := range n.TrustedIdentities {
		if identity == "*" {
			r.warn(fmt.Sprintf("%s.trustedIdentities[%d]", field, i), "everybody whom the trust stores vouch for can sign; name who may, as 'x509.subject: CN=release,O=Example,ST=WA,C=US'")
		}
	}
}

// workflows is what the subject of a certificate for a GitHub workflow holds.
const workflows = "/.github/workflows/"

func examineCosign(r *reporter, field string, c *v1alpha1.CosignVerifier) {
	for i, identity := range c.Identities {
		subject := strings.ReplaceAll(identity.Subject+identity.SubjectRegExp, `\.`, ".")
		if identity.SourceRepository == "" && strings.Contains(subject, workflows) {
			r.warn(fmt.Sprintf("%s.identities[%d]", field, i), "a workflow that other repositories may call signs for them, too; write sourceRepository")
		}
	}
}
