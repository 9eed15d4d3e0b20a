package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/verify"
	"github.com/gatehouse-dev/gatehouse/internal/verify/cosign"
	"github.com/gatehouse-dev/gatehouse/internal/verify/notation"
)

// verifier compiles one verifier.
func (c *compiler) verifier(v *v1alpha1.Verifier) verify.Verifier {
	field := "verifier " + v.Name
	var compiled verify.Verifier
	var err error
	switch {
	case v.Notation != nil:
		compiled, err = c.notation(field, v.Name, v.Notation)
	case v.Cosign != nil:
		compiled, err = c.cosign(field, v.Name, v.Cosign)
	default:
		err = errors.New("give it exactly one kind: notation or cosign")
	}
	if err != nil {
		c.fault(fmt.Errorf("%s: %w", field, err))
		return nil
	}
	return compiled
}

// notation compiles a verifier of Notary Project signatures with the certificates that are to be had.
func (c *compiler) notation(field, name string, n *v1alpha1.NotationVerifier) (verify.Verifier, error) {
	faults, problems := len(c.faults), len(c.problems)
	config := notation.Config{
		Name:       name,
		Level:      notation.Level(n.Level),
		Revocation: notation.Revocation(n.Revocation),
		HTTPClient: c.tools.Registry.Anonymous(),
		Cache:      c.tools.Revocations,
		Clock:      c.tools.Clock,
	}
	for _, identity := range n.TrustedIdentities {
		config.TrustedIdentities = append(config.TrustedIdentities, string(identity))
	}
	if err := notation.CheckIdentities(config.TrustedIdentities); err != nil {
		return nil, err // also if there are no certificates
	}
	vouched := false
	for i := range n.TrustStores {
		s := &n.TrustStores[i]
		store := notation.TrustStore{Name: s.Name, Type: notation.StoreType(s.Type)}
		for j := range s.Certificates {
			where := fmt.Sprintf("%s: trustStores[%s].certificates[%d]", field, s.Name, j)
			found := c.source(where, &s.Certificates[j].Material, func(pem []byte) error { return notation.CheckCertificates(store.Type, pem) })
			if found != nil {
				store.Certificates = append(store.Certificates, found)
			}
		}
		if len(store.Certificates) > 0 {
			config.TrustStores = append(config.TrustStores, store)
			vouched = vouched || store.Type != notation.TSA
		}
	}
	if len(c.faults) > faults {
		return nil, nil // as in cosign
	}
	if !vouched && len(c.problems) > problems {
		return c.withdrawn(name, verify.Notation, problems), nil
	}
	return notation.New(config)
}

// cosign compiles a verifier of Sigstore signatures with the keys that are to be had and read as such.
func (c *compiler) cosign(field, name string, s *v1alpha1.CosignVerifier) (verify.Verifier, error) {
	faults, problems := len(c.faults), len(c.problems)
	config := cosign.Config{
		Name:            name,
		TransparencyLog: cmp.Or(cosign.Requirement(s.TransparencyLog), cosign.Required),
		Timestamps:      cmp.Or(cosign.Requirement(s.Timestamps), cosign.Ignored),
	}
	for i := range s.Keys {
		key := &s.Keys[i]
		if found := c.source(field+": key "+key.Name, &key.Material, cosign.CheckKey); found != nil {
			config.Keys = append(config.Keys, cosign.Key{Name: key.Name, PEM: found})
		}
	}
	for _, i := range s.Identities {
		config.Identities = append(config.Identities, cosign.Identity{
			Issuer: i.Issuer, IssuerRegExp: i.IssuerRegExp, Subject: i.Subject, SubjectRegExp: i.SubjectRegExp, SourceRepository: i.SourceRepository,
		})
	}
	if s.TrustRoot != nil {
		config.TrustRoot = c.source(field+": trustRoot", s.TrustRoot, config.CheckTrustRoot)
	}
	if err := cosign.CheckIdentities(config.Identities); err != nil {
		return nil, err // also if there is nobody to vouch for them
	}
	if len(c.faults) > faults {
		return nil, nil // what is left of it would have others, which are none
	}
	lost := len(c.problems) > problems
	if lost && (s.TrustRoot != nil && config.TrustRoot == nil || len(config.Keys) == 0 && len(config.Identities) == 0) {
		return c.withdrawn(name, verify.Cosign, problems), nil
	}
	return cosign.New(config)
}

// withdrawn is a verifier whose keys or authorities are gone, all that it could do without: it accepts nobody.
type withdrawn struct {
	name string
	kind verify.Kind
	why  string
}

// withdrawn makes one for the problems since the given number of them.
func (c *compiler) withdrawn(name string, kind verify.Kind, since int) withdrawn {
	return withdrawn{name, kind, errors.Join(slices.Clone(c.problems[since:])...).Error()}
}

func (w withdrawn) Name() string                { return w.name }
func (w withdrawn) Kind() verify.Kind           { return w.kind }
func (w withdrawn) Reads(*verify.Artifact) bool { return true }

// Verify refuses whatever it is shown, and says what is gone.
func (w withdrawn) Verify(context.Context, image.Pinned, *verify.Artifact) []verify.Finding {
	return []verify.Finding{{Outcome: verify.Failed, Reason: verify.ReasonUntrustedSigner, Message: w.why}}
}
