package cosign

import (
	"fmt"
	"regexp"

	"github.com/sigstore/sigstore-go/pkg/fulcio/certificate"
	sigstore "github.com/sigstore/sigstore-go/pkg/verify"
)

// maxPattern bounds each text of an identity, in bytes.
const maxPattern = 1024

// compileIdentities tells by its number the first identity that is at fault.
func compileIdentities(given []Identity) ([]sigstore.CertificateIdentity, error) {
	var all []sigstore.CertificateIdentity
	for i, identity := range given {
		compiled, fault := compileIdentity(identity)
		if fault != nil {
			field := fmt.Sprintf("identity %d", i+1)
			if fault.Field != "" {
				field += ": " + fault.Field
			}
			return nil, &ConfigError{field, fault.Problem}
		}
		all = append(all, compiled)
	}
	return all, nil
}

// compileIdentity turns an identity into the criteria of sigstore-go.
func compileIdentity(given Identity) (sigstore.CertificateIdentity, *ConfigError) {
	var none sigstore.CertificateIdentity
	for _, pair := range []struct{ field, exact, pattern string }{
		{"issuer", given.Issuer, given.IssuerRegExp},
		{"subject", given.Subject, given.SubjectRegExp},
		{"sourceRepository", given.SourceRepository, ""},
	} {
		if len(pair.exact) > maxPattern || len(pair.pattern) > maxPattern {
			return none, &ConfigError{pair.field, fmt.Sprintf("is longer than %d bytes", maxPattern)}
		}
		if pair.field != "sourceRepository" && (pair.exact == "") == (pair.pattern == "") {
			return none, &ConfigError{"", fmt.Sprintf("give exactly one of %[1]s and %[1]sRegExp", pair.field)}
		}
	}
	issuerPattern, err := whole(given.IssuerRegExp)
	if err != nil {
		return none, &ConfigError{"issuerRegExp", err.Error()}
	}
	subjectPattern, err := whole(given.SubjectRegExp)
	if err != nil {
		return none, &ConfigError{"subjectRegExp", err.Error()}
	}
	issuer, err := sigstore.NewIssuerMatcher(given.Issuer, issuerPattern)
	if err != nil {
		return none, &ConfigError{"issuer", err.Error()}
	}
	subject, err := sigstore.NewSANMatcher(given.Subject, subjectPattern)
	if err != nil {
		return none, &ConfigError{"subject", err.Error()}
	}
	compiled, err := sigstore.NewCertificateIdentity(subject, issuer, certificate.Extensions{SourceRepositoryURI: given.SourceRepository})
	if err != nil {
		return none, &ConfigError{"", err.Error()}
	}
	return compiled, nil
}

// whole makes a pattern match the whole text only. The pattern must compile
// alone first: "a)|(b" would otherwise close the group and match a fragment.
func whole(pattern string) (string, error) {
	if pattern == "" {
		return "", nil
	}
	if _, err := regexp.Compile(pattern); err != nil {
		return "", fmt.Errorf("does not compile: %w; write a regular expression of RE2, which needs neither ^ nor $", err)
	}
	anchored := "^(?:" + pattern + ")$"
	if _, err := regexp.Compile(anchored); err != nil {
		return "", fmt.Errorf("does not compile when it is to match the whole text: %w", err)
	}
	return anchored, nil
}
