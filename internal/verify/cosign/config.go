package cosign

import (
	"errors"
	"fmt"

	"github.com/sigstore/sigstore-go/pkg/root"
	sigstore "github.com/sigstore/sigstore-go/pkg/verify"
)

// Bounds of a configuration.
const (
	MaxKeys       = 16
	MaxIdentities = 16
	// MaxKeyBytes bounds the PEM of a key, MaxTrustRootBytes a trusted_root.json.
	MaxKeyBytes       = 64 << 10
	MaxTrustRootBytes = 1 << 20
)

// Config is what a Verifier trusts.
type Config struct {
	// Name is the verifier's name in the Executor.
	Name string
	// Keys are tried, each of them, on every signature.
	Keys []Key
	// Identities are who may have signed keyless.
	Identities []Identity
	// TrustRoot is a Sigstore trusted_root.json: certificate authorities, logs
	// and timestamp authorities. Empty: none.
	TrustRoot []byte
	// TransparencyLog says whether a signature counts only with an entry in a
	// transparency log, Timestamps whether only with the time stamp of an
	// authority. With TransparencyLog Required and Timestamps Ignored, the time
	// of a keyless signature is that of its entry, or of a time stamp where the
	// log states none.
	TransparencyLog, Timestamps Requirement
}

// Key is a public key.
type Key struct {
	// Name is the key's name in messages.
	Name string
	// PEM is one block: PUBLIC KEY or RSA PUBLIC KEY.
	PEM []byte
}

// Identity is who may sign keyless. Exactly one of Issuer and IssuerRegExp is
// given, and of Subject and SubjectRegExp. The regular expressions are RE2 and
// match the whole text.
type Identity struct {
	Issuer, IssuerRegExp   string
	Subject, SubjectRegExp string
	// SourceRepository is the repository of the workflow that signed, as
	// https://github.com/example/app; empty: any.
	SourceRepository string
}

// Requirement says whether something must be there.
type Requirement string

// The requirements.
const (
	Required Requirement = "Required"
	Ignored  Requirement = "Ignored"
)

// ConfigError is why there is no Verifier.
type ConfigError struct {
	// Field is what is at fault, as key k1 or trustRoot.
	Field string
	// Problem is what is wrong with it and what to do.
	Problem string
}

func (e *ConfigError) Error() string { return e.Field + ": " + e.Problem }

// New compiles a configuration. The error is always a *ConfigError, for the first
// field that is at fault.
func New(config Config) (*Verifier, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	v := &Verifier{name: config.Name, log: config.TransparencyLog == Required, stamps: config.Timestamps == Required}
	v.material = &root.BaseTrustedMaterial{}
	if len(config.TrustRoot) > 0 {
		trusted, err := parseTrustRoot(config)
		if err != nil {
			return nil, err
		}
		v.material = trusted
	}
	for i, given := range config.Keys {
		for _, other := range config.Keys[:i] {
			if other.Name == given.Name {
				return nil, &ConfigError{"key " + given.Name, "two keys have this name; give each its own"}
			}
		}
		key, err := v.compileKey(given)
		if err != nil {
			return nil, &ConfigError{"key " + given.Name, err.Error()}
		}
		v.keys = append(v.keys, key)
	}
	var err error
	if v.identities, err = compileIdentities(config.Identities); err != nil {
		return nil, err
	}
	for _, identity := range v.identities {
		v.listed = append(v.listed, sigstore.WithCertificateIdentity(identity))
	}
	if len(v.identities) > 0 {
		keyless, err := sigstore.NewVerifier(v.material, v.keylessOptions()...)
		if err != nil {
			return nil, &ConfigError{"identities", "cannot be verified: " + err.Error()}
		}
		v.keyless = keyless
	}
	return v, nil
}

// CheckKey, CheckIdentities and CheckTrustRoot say what New would refuse of a part of a configuration, whatever else of it
// there is.

// CheckKey is about the PEM of a public key.
func CheckKey(content []byte) error {
	public, err := parseKey(content)
	if err == nil {
		err = usable(public)
	}
	if err != nil {
		return fmt.Errorf("it %w", err)
	}
	return nil
}

// CheckIdentities is about who may have signed keyless.
func CheckIdentities(given []Identity) error {
	_, err := compileIdentities(given)
	return err
}

// CheckTrustRoot is about a trusted_root.json for the rest of the configuration.
func (c Config) CheckTrustRoot(content []byte) error {
	c.TrustRoot = content
	var malformed *ConfigError
	if _, err := parseTrustRoot(c); errors.As(err, &malformed) {
		return errors.New(malformed.Problem)
	}
	return nil
}

// check refuses what contradicts itself.
func (c Config) check() error {
	for _, requirement := range []struct {
		field string
		value Requirement
	}{{"transparencyLog", c.TransparencyLog}, {"timestamps", c.Timestamps}} {
		if requirement.value != Required && requirement.value != Ignored {
			return &ConfigError{requirement.field, fmt.Sprintf("is %q; write Required or Ignored", requirement.value)}
		}
	}
	switch {
	case len(c.Keys) == 0 && len(c.Identities) == 0:
		return &ConfigError{"keys", "there are neither keys nor identities, so nobody's signature would count; give one of them, or both"}
	case len(c.Keys) > MaxKeys:
		return &ConfigError{"keys", fmt.Sprintf("there are %d, of at most %d; divide them among verifiers", len(c.Keys), MaxKeys)}
	case len(c.Identities) > MaxIdentities:
		return &ConfigError{"identities", fmt.Sprintf("there are %d, of at most %d; divide them among verifiers", len(c.Identities), MaxIdentities)}
	case len(c.Identities) > 0 && c.TransparencyLog == Ignored && c.Timestamps == Ignored:
		return &ConfigError{"identities", "need proof of when was signed, because their certificates live for minutes; set transparencyLog or timestamps to Required"}
	}
	if len(c.TrustRoot) > 0 {
		return nil
	}
	switch {
	case len(c.Identities) > 0:
		return &ConfigError{"trustRoot", "is empty, and identities are vouched for by a certificate authority; give a trusted_root.json"}
	case c.TransparencyLog == Required:
		return &ConfigError{"trustRoot", "is empty, and transparencyLog: Required needs the log's keys; give a trusted_root.json, or set transparencyLog to Ignored"}
	case c.Timestamps == Required:
		return &ConfigError{"trustRoot", "is empty, and timestamps: Required needs the authority's certificates; give a trusted_root.json, or set timestamps to Ignored"}
	}
	return nil
}

// keylessOptions are what a keyless signature must have. Its time is proven by
// what is required: by stamps, or by the log, or, where the log states no time
// (Rekor 2), by a stamp that came along.
func (v *Verifier) keylessOptions() []sigstore.VerifierOption {
	options := []sigstore.VerifierOption{
		sigstore.WithSignedCertificateTimestamps(1),
		sigstore.WithoutStatementPredicate(),
	}
	if v.log {
		options = append(options, sigstore.WithTransparencyLog(1))
	}
	if v.stamps {
		return append(options, sigstore.WithSignedTimestamps(1))
	}
	return append(options, sigstore.WithObserverTimestamps(1))
}

// keyOptions are what a signature by a key must have. A key is valid at any
// time, so that stamps count only where they are required.
func (v *Verifier) keyOptions() []sigstore.VerifierOption {
	options := []sigstore.VerifierOption{sigstore.WithoutStatementPredicate()}
	if v.log {
		options = append(options, sigstore.WithTransparencyLog(1))
	}
	if v.stamps {
		return append(options, sigstore.WithSignedTimestamps(1))
	}
	return append(options, sigstore.WithNoObserverTimestamps())
}
