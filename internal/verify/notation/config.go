package notation

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/notaryproject/notation-core-go/signature"
	"k8s.io/utils/clock"
)

// Level says which faults are enforced; see the package's table.
type Level string

// The levels.
const (
	Strict     Level = "Strict"
	Permissive Level = "Permissive"
	Audit      Level = "Audit"
)

// Revocation says what becomes of a signature when it cannot be learnt whether a
// certificate of its signer is revoked.
type Revocation string

// The kinds of revocation checking.
const (
	// Enforce: it is undecided.
	Enforce Revocation = "Enforce"
	// Log: it passes with a warning.
	Log Revocation = "Log"
	// Skip: nobody is asked.
	Skip Revocation = "Skip"
)

// StoreType says what the certificates of a trust store vouch for.
type StoreType string

// The types of trust stores.
const (
	CA               StoreType = "CA"
	TSA              StoreType = "TSA"
	SigningAuthority StoreType = "SigningAuthority"
)

// TrustStore holds certificates that are trusted.
type TrustStore struct {
	// Name is unique among the stores of a verifier.
	Name string
	Type StoreType
	// Certificates are in PEM; each may hold several.
	Certificates [][]byte
}

// Config is what a Verifier verifies against.
type Config struct {
	// Name is the verifier's name in the Executor.
	Name string
	// Level defaults to Strict.
	Level Level
	// Revocation defaults to Enforce.
	Revocation Revocation
	// TrustedIdentities are x509.subject and the attributes that a signing
	// certificate must have, or * alone for every signer that the trust stores
	// vouch for.
	TrustedIdentities []string
	// TrustStores hold the certificates that are trusted.
	TrustStores []TrustStore
	// HTTPClient asks for revocation, at addresses that certificates name: it
	// has to refuse those that Gatehouse must not reach. Needed unless
	// Revocation is Skip.
	HTTPClient *http.Client
	// Cache keeps what was learnt of revocation; verifiers may share it. Nil is
	// a cache of its own.
	Cache *Cache
	// Clock says what time it is. Default the real one.
	Clock clock.PassiveClock
}

// The bounds of a configuration, which are those of the Executor kind.
const (
	maxIdentities  = 16
	maxTrustStores = 8
)

// New compiles a Verifier. An error names the field of the configuration that is
// at fault, and what to do.
func New(config Config) (*Verifier, error) {
	v := &Verifier{
		name:       config.Name,
		level:      config.Level,
		revocation: config.Revocation,
		anchors:    map[signature.SigningScheme]anchors{},
		known:      parsed{},
		clock:      config.Clock,
	}
	if v.name == "" {
		return nil, errors.New("name: the verifier has none: give it one")
	}
	if v.clock == nil {
		v.clock = clock.RealClock{}
	}
	switch v.level {
	case "":
		v.level = Strict
	case Strict, Permissive, Audit:
	default:
		return nil, fmt.Errorf("level: %s is none: write Strict, Permissive or Audit", quoted(string(v.level)))
	}
	switch v.revocation {
	case "":
		v.revocation = Enforce
	case Enforce, Log, Skip:
	default:
		return nil, fmt.Errorf("revocation: %s is none: write Enforce, Log or Skip", quoted(string(v.revocation)))
	}
	var err error
	if v.identities, err = parseIdentities(config.TrustedIdentities); err != nil {
		return nil, err
	}
	if err := v.addStores(config.TrustStores); err != nil {
		return nil, err
	}
	if v.revocation == Skip {
		return v, nil
	}
	if config.HTTPClient == nil {
		return nil, errors.New("revocation: there is no HTTP client to ask with: give one, or set revocation to Skip")
	}
	if config.Cache == nil {
		config.Cache = NewCache(CacheOptions{})
	}
	v.revocations, err = newRevocations(config.HTTPClient, config.Cache, v.clock)
	return v, err
}
