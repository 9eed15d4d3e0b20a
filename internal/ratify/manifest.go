package ratify

import (
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// groups are those under which Ratify serves its kinds.
var groups = []string{"config.ratify.sh/v2alpha1", "config.ratify.dev/v2alpha1"}

// The kinds that are read.
const (
	kindExecutor           = "Executor"
	kindNamespacedExecutor = "NamespacedExecutor"
)

// manifest is a Ratify Executor or NamespacedExecutor.
type manifest struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
	Spec struct {
		Scopes         []string `json:"scopes"`
		Verifiers      []plugin `json:"verifiers"`
		Stores         []plugin `json:"stores"`
		PolicyEnforcer *plugin  `json:"policyEnforcer"`
		Concurrency    int      `json:"concurrency"`
	} `json:"spec"`
}

// plugin is anything that Ratify has by name: its parameters depend on the type.
type plugin struct {
	Name       string          `json:"name"`
	Type       string          `json:"type"`
	Parameters json.RawMessage `json:"parameters"`
}

// Known reports whether a manifest is one that this package reads.
func Known(apiVersion, kind string) bool {
	return slices.Contains(groups, apiVersion) && (kind == kindExecutor || kind == kindNamespacedExecutor)
}

// notationParameters are those of a verifier of type notation.
type notationParameters struct {
	Scopes            []string                     `json:"scopes"`
	TrustedIdentities []string                     `json:"trustedIdentities"`
	Certificates      []map[string]json.RawMessage `json:"certificates"`
}

// cosignParameters are those of a verifier of type cosign.
type cosignParameters struct {
	TrustPolicies []cosignPolicy `json:"trustPolicies"`
}

type cosignPolicy struct {
	Scopes                     []string `json:"scopes"`
	CertificateIdentity        string   `json:"certificateIdentity"`
	CertificateIdentityRegex   string   `json:"certificateIdentityRegex"`
	CertificateOIDCIssuer      string   `json:"certificateOIDCIssuer"`
	CertificateOIDCIssuerRegex string   `json:"certificateOIDCIssuerRegex"`
	IgnoreTLog                 bool     `json:"ignoreTLog"`
	IgnoreCTLog                bool     `json:"ignoreCTLog"`
}

// registryParameters are those of a store of type registry-store.
type registryParameters struct {
	Scopes           []string `json:"scopes"`
	PlainHTTP        bool     `json:"plainHttp"`
	UserAgent        string   `json:"userAgent"`
	MaxBlobBytes     int64    `json:"maxBlobBytes"`
	MaxManifestBytes int64    `json:"maxManifestBytes"`
	AllowCosignTag   bool     `json:"allowCosignTag"`
	Credential       *struct {
		Provider string `json:"provider"`
		Username string `json:"username"`
		Password string `json:"password"`
	} `json:"credential"`
}

// layoutParameters are those of a store of type filesystem-oci-store.
type layoutParameters struct {
	Scopes []string `json:"scopes"`
	Path   string   `json:"path"`
}

// policyParameters are those of a policy of type threshold-policy.
type policyParameters struct {
	Policy *rule `json:"policy"`
}

// rule passes when its verifier does, or so many of its rules; a threshold of
// zero means all of them.
type rule struct {
	VerifierName string `json:"verifierName"`
	Threshold    int    `json:"threshold"`
	Rules        []rule `json:"rules"`
}

// read decodes parameters. A parameter that is not known is an error: it could
// be what makes the manifest strict.
func read[T any](raw json.RawMessage) (T, error) {
	var into T
	if len(raw) == 0 {
		return into, nil
	}
	if err := decode(raw, &into); err != nil {
		if field := fieldOf(err); field != "" {
			return into, fmt.Errorf("%s %w; correct it, or remove what Ratify does not know", field, unwrapped(err))
		}
		return into, fmt.Errorf("%w; correct it, or remove what Ratify does not know", unwrapped(err))
	}
	return into, nil
}
