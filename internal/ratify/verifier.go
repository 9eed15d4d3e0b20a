package ratify

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// The types of verifiers.
const (
	notationVerifier = "notation"
	cosignVerifier   = "cosign"
)

func (c *converter) verifiers() {
	c.names = map[string]string{}
	for i, verifier := range c.from.Spec.Verifiers {
		field := fmt.Sprintf("spec.verifiers[%d]", i)
		name := label(verifier.Name)
		switch {
		case name == "" || slices.Contains(slices.Collect(maps.Values(c.names)), name):
			c.fail(field+".name", "%q cannot be made a name of letters, digits and '-' that no other verifier has; rename it", verifier.Name)
			continue
		case name != verifier.Name:
			c.warn(field+".name", "is written %s, since names are of lower-case letters, digits and '-'", name)
		}
		c.names[verifier.Name] = name
		made := v1alpha1.Verifier{Name: name}
		switch verifier.Type {
		case notationVerifier:
			made.Notation = c.notation(field+".parameters", name, verifier.Parameters)
		case cosignVerifier:
			made.Cosign = c.cosign(field+".parameters", name, verifier.Parameters)
		default:
			c.fail(field+".type", "Gatehouse has no verifiers of type %q, and without it less would be required; take it out of the verifiers and the policy if that is meant", verifier.Type)
		}
		c.spec.Verifiers = append(c.spec.Verifiers, made)
	}
	if len(c.from.Spec.Verifiers) == 0 {
		c.fail("spec.verifiers", "is empty; say who must have signed")
	}
}

var trustStoreTypes = map[string]v1alpha1.TrustStoreType{
	"ca":               v1alpha1.TrustStoreCA,
	"tsa":              v1alpha1.TrustStoreTSA,
	"signingAuthority": v1alpha1.TrustStoreSigningAuthority,
}

func (c *converter) notation(field, name string, raw json.RawMessage) *v1alpha1.NotationVerifier {
	parameters, err := read[notationParameters](raw)
	if err != nil {
		c.fail(field, "%v", err)
		return nil
	}
	if !c.sameScopes(parameters.Scopes) {
		c.fail(field+".scopes", splitRemedy)
	}
	made := &v1alpha1.NotationVerifier{Level: v1alpha1.NotationStrict, Revocation: v1alpha1.RevocationEnforce}
	for _, identity := range parameters.TrustedIdentities {
		made.TrustedIdentities = append(made.TrustedIdentities, v1alpha1.TrustedIdentity(identity))
	}
	if len(made.TrustedIdentities) == 0 {
		made.TrustedIdentities = []v1alpha1.TrustedIdentity{"*"}
	}
	for i, store := range parameters.Certificates {
		at := fmt.Sprintf("%s.certificates[%d]", field, i)
		converted := c.trustStore(at, name, store)
		if slices.ContainsFunc(made.TrustStores, func(s v1alpha1.TrustStore) bool { return s.Name == converted.Name }) {
			c.fail(at+".type", "is %s a second time, which Ratify does not take either; put all certificates of a type into one store", converted.Name)
		}
		made.TrustStores = append(made.TrustStores, converted)
	}
	if len(made.TrustStores) == 0 {
		c.fail(field+".certificates", "is empty; nobody would be trusted")
	}
	return made
}

func (c *converter) trustStore(field, verifier string, from map[string]json.RawMessage) v1alpha1.TrustStore {
	kind := "ca"
	if raw, ok := from["type"]; ok {
		if err := json.Unmarshal(raw, &kind); err != nil || trustStoreTypes[kind] == "" {
			c.fail(field+".type", "%s is none of ca, tsa and signingAuthority", raw)
		}
	}
	made := v1alpha1.TrustStore{Name: label(kind), Type: trustStoreTypes[kind]}
	for _, provider := range slices.Sorted(maps.Keys(from)) {
		switch provider {
		case "type":
		case "inline":
			var text string
			if err := json.Unmarshal(from[provider], &text); err != nil || strings.TrimSpace(text) == "" {
				c.fail(field+".inline", "holds no certificates; write them in PEM")
				continue
			}
			made.Certificates = append(made.Certificates, v1alpha1.PEMSource{Material: v1alpha1.Material{Inline: strings.TrimSpace(text) + "\n"}})
		default:
			// What is in a file or a vault is not in the manifest: a Secret has to bring it.
			named := v1alpha1.KeyReference{Name: label(c.from.Metadata.Name + "-" + verifier + "-" + kind), Key: label(provider) + ".pem"}
			c.warn(field+"."+provider, "the certificates are not in the manifest; put them, in PEM, under the key %s of the Secret %s/%s. Until then nothing passes", named.Key, c.namespace(), named.Name)
			made.Certificates = append(made.Certificates, v1alpha1.PEMSource{Material: v1alpha1.Material{SecretRef: &named}})
		}
	}
	if len(made.Certificates) == 0 {
		c.fail(field, "names no certificates; write inline, with PEM")
	}
	return made
}

// trustRootKey is the key under which a trust root is looked for.
const trustRootKey = "trusted_root.json"

func (c *converter) cosign(field, name string, raw json.RawMessage) *v1alpha1.CosignVerifier {
	parameters, err := read[cosignParameters](raw)
	if err != nil {
		c.fail(field, "%v", err)
		return nil
	}
	if len(parameters.TrustPolicies) != 1 {
		c.fail(field+".trustPolicies", "%d trust policies are for different scopes; write an Executor for each, with the scopes it is for", len(parameters.TrustPolicies))
		return nil
	}
	policy, field := parameters.TrustPolicies[0], field+".trustPolicies[0]"
	if !c.sameScopes(policy.Scopes) {
		c.fail(field+".scopes", splitRemedy)
	}
	identity := v1alpha1.CosignIdentity{
		Issuer: policy.CertificateOIDCIssuer, IssuerRegExp: policy.CertificateOIDCIssuerRegex,
		Subject: policy.CertificateIdentity, SubjectRegExp: policy.CertificateIdentityRegex,
	}
	switch {
	case identity.Issuer == "" && identity.IssuerRegExp == "":
		c.fail(field, "certificateOIDCIssuer is missing: anybody's identity provider would count; say who vouches for the identity")
	case identity.Subject == "" && identity.SubjectRegExp == "":
		c.fail(field, "certificateIdentity is missing: everybody whom the issuer knows would count; say who must have signed")
	case identity.Issuer != "" && identity.IssuerRegExp != "":
		c.fail(field, "certificateOIDCIssuer and certificateOIDCIssuerRegex are both given; keep one")
	case identity.Subject != "" && identity.SubjectRegExp != "":
		c.fail(field, "certificateIdentity and certificateIdentityRegex are both given; keep one")
	}
	for _, given := range []struct{ field, text string }{
		{".certificateIdentityRegex", policy.CertificateIdentityRegex},
		{".certificateOIDCIssuerRegex", policy.CertificateOIDCIssuerRegex},
	} {
		if given.text != "" {
			c.warn(field+given.field, "must match the whole text from now on, not a part of it; add .* where more may stand")
		}
	}
	secret := label(c.from.Metadata.Name + "-" + name)
	made := &v1alpha1.CosignVerifier{
		Identities:      []v1alpha1.CosignIdentity{identity},
		TrustRoot:       &v1alpha1.Material{SecretRef: &v1alpha1.KeyReference{Name: secret, Key: trustRootKey}},
		TransparencyLog: v1alpha1.Required,
		Timestamps:      v1alpha1.Ignored,
	}
	c.warn(field, "Ratify fetches Sigstore's public trust root, Gatehouse is given one: put %s under that key of the Secret %s/%s. Until then nothing passes", trustRootKey, c.namespace(), secret)
	if policy.IgnoreTLog {
		made.TransparencyLog, made.Timestamps = v1alpha1.Ignored, v1alpha1.Required
		c.warn(field+".ignoreTLog", "a keyless signature needs proof of when it was made: without a log the time stamp of an authority is required")
	}
	if policy.IgnoreCTLog {
		c.warn(field+".ignoreCTLog", "is not carried over: a certificate of Fulcio must always be in a certificate transparency log")
	}
	return made
}
