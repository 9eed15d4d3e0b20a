package ratify

import (
	"fmt"
	"slices"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// thresholdPolicy is the type of policies.
const thresholdPolicy = "threshold-policy"

// maxDepth bounds the nesting of rules.
const maxDepth = 16

func (c *converter) policy() {
	enforcer := c.from.Spec.PolicyEnforcer
	if enforcer == nil {
		c.fail("spec.policyEnforcer", "is missing: Ratify lets nothing pass then, and Gatehouse what all verifiers pass; add a policy of type %s that says so, or remove the manifest", thresholdPolicy)
		return
	}
	if enforcer.Type != thresholdPolicy {
		c.fail("spec.policyEnforcer.type", "Gatehouse has no policy of type %q; use %s", enforcer.Type, thresholdPolicy)
		return
	}
	const field = "spec.policyEnforcer.parameters"
	parameters, err := read[policyParameters](enforcer.Parameters)
	switch {
	case err != nil:
		c.fail(field, "%v", err)
	case parameters.Policy == nil:
		c.fail(field+".policy", "is missing; say how many verifiers are enough")
	default:
		f := &flattener{converter: c}
		member := f.member(field+".policy", *parameters.Policy, 1)
		if len(f.groups) == 0 && member != "" { // the rule is a single verifier
			f.groups = append(f.groups, v1alpha1.PolicyGroup{Name: f.name(), Min: 1, Of: []string{member}})
		}
		c.spec.Policy = &v1alpha1.Policy{Groups: f.groups}
		c.dropUndecisive(f.groups)
		if slices.ContainsFunc(f.groups, func(g v1alpha1.PolicyGroup) bool { return g.Min > 1 }) {
			c.warn(field+".policy", "a threshold counts different signers here: one who satisfies two verifiers counts once")
		}
	}
}

// dropUndecisive removes the verifiers that no rule names: they only reported.
func (c *converter) dropUndecisive(groups []v1alpha1.PolicyGroup) {
	c.spec.Verifiers = slices.DeleteFunc(c.spec.Verifiers, func(v v1alpha1.Verifier) bool {
		decides := slices.ContainsFunc(groups, func(g v1alpha1.PolicyGroup) bool { return slices.Contains(g.Of, v.Name) })
		if !decides {
			c.warn("spec.verifiers", "%s is not carried over: the policy does not name it, so it decides nothing", v.Name)
		}
		return !decides
	})
}

// flattener turns nested rules into groups that refer to earlier ones.
type flattener struct {
	*converter
	groups []v1alpha1.PolicyGroup
}

// member is the name by which a rule is referred to: that of its verifier, or
// of the group that it becomes.
func (f *flattener) member(field string, r rule, depth int) string {
	switch {
	case depth > maxDepth:
		f.fail(field, "is nested deeper than %d; simplify the policy", maxDepth)
	case r.VerifierName != "" && len(r.Rules) > 0:
		f.fail(field, "has a verifier and rules: the rules are about the signatures of a signature, which Gatehouse does not look for; remove them if that is meant")
	case r.VerifierName != "":
		name, ok := f.names[r.VerifierName]
		if !ok {
			f.fail(field+".verifierName", "no verifier is named %q; write the name of one of spec.verifiers", r.VerifierName)
		}
		return name
	case len(r.Rules) == 0:
		f.fail(field, "has neither a verifier nor rules; name a verifier")
	case r.Threshold < 0 || r.Threshold > len(r.Rules):
		f.fail(field+".threshold", "is %d of %d rules; write a number from 1 to %d, or 0 for all", r.Threshold, len(r.Rules), len(r.Rules))
	default:
		return f.group(field, r, depth)
	}
	return ""
}

func (f *flattener) group(field string, r rule, depth int) string {
	made := v1alpha1.PolicyGroup{Min: int32(r.Threshold)}
	if r.Threshold == 0 {
		made.Min = int32(len(r.Rules))
	}
	for i, nested := range r.Rules {
		at := fmt.Sprintf("%s.rules[%d]", field, i)
		member := f.member(at, nested, depth+1)
		if member != "" && slices.Contains(made.Of, member) {
			f.fail(at, "names %s a second time; a member counts once, so name each verifier once", member)
			continue
		}
		made.Of = append(made.Of, member)
	}
	made.Name = f.name()
	f.groups = append(f.groups, made)
	return made.Name
}

// name is one that no verifier and no other group has.
func (f *flattener) name() string {
	for i := len(f.groups) + 1; ; i++ {
		name := fmt.Sprintf("group-%d", i)
		taken := slices.ContainsFunc(f.spec.Verifiers, func(v v1alpha1.Verifier) bool { return v.Name == name }) ||
			slices.ContainsFunc(f.groups, func(g v1alpha1.PolicyGroup) bool { return g.Name == name })
		if !taken {
			return name
		}
	}
}
