package cosign

import (
	"fmt"

	"github.com/sigstore/sigstore-go/pkg/root"

	"github.com/gatehouse-dev/gatehouse/internal/verify/strictjson"
)

// parseTrustRoot reads a trusted_root.json and refuses one that lacks what the
// configuration demands of it.
func parseTrustRoot(config Config) (*root.TrustedRoot, error) {
	fault := func(format string, arguments ...any) error {
		return &ConfigError{"trustRoot", fmt.Sprintf(format, arguments...)}
	}
	if len(config.TrustRoot) > MaxTrustRootBytes {
		return nil, fault("is larger than %d bytes; give a trusted_root.json", MaxTrustRootBytes)
	}
	if err := strictjson.Check(config.TrustRoot, maxDepth); err != nil {
		return nil, fault("%v; give a trusted_root.json as Sigstore publishes it", err)
	}
	trusted, err := root.NewTrustedRootFromJSON(config.TrustRoot)
	if err != nil {
		return nil, fault("does not read as a trusted_root.json: %s", quote(err.Error()))
	}
	authorities, stampers := trusted.FulcioCertificateAuthorities(), trusted.TimestampingAuthorities()
	if len(authorities) == 0 && len(stampers) == 0 && len(trusted.RekorLogs()) == 0 {
		return nil, fault("trusts nobody; give a trusted_root.json with the authorities and logs that count")
	}
	if len(config.Identities) > 0 {
		if len(authorities) == 0 {
			return nil, fault("has no certificateAuthorities, which identities need; add them")
		}
		if len(trusted.CTLogs()) == 0 {
			return nil, fault("has no ctlogs, which the certificates of identities are logged in; add them")
		}
	}
	if config.TransparencyLog == Required && len(trusted.RekorLogs()) == 0 {
		return nil, fault("has no tlogs, which transparencyLog: Required needs; add them, or set transparencyLog to Ignored")
	}
	if config.Timestamps == Required && len(stampers) == 0 {
		return nil, fault("has no timestampAuthorities, which timestamps: Required needs; add them, or set timestamps to Ignored")
	}
	for i, stamper := range stampers {
		if known, ok := stamper.(*root.SigstoreTimestampingAuthority); ok && known.Root == nil {
			return nil, fault("timestampAuthorities[%d] has no root certificate; add it after the authority's own", i)
		}
	}
	return trusted, nil
}
