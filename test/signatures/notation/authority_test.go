package notation_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"net/http/httptest"
	"testing"
	"time"

	notationgo "github.com/notaryproject/notation-go"
	notationverifier "github.com/notaryproject/notation-go/verifier"
	"github.com/notaryproject/notation-go/verifier/trustpolicy"
	"github.com/notaryproject/notation-go/verifier/truststore"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/gatehouse-dev/gatehouse/test/signatures/notation"
)

var subject = ocispec.Descriptor{
	MediaType: ocispec.MediaTypeImageManifest,
	Digest:    digest.FromString("an image"),
	Size:      42,
}

// stores is a trust store in memory.
type stores map[truststore.Type][]*x509.Certificate

func (s stores) GetCertificates(_ context.Context, kind truststore.Type, _ string) ([]*x509.Certificate, error) {
	return s[kind], nil
}

// notationSays is what the Notary Project's own verifier says of a signature.
func notationSays(t *testing.T, trusted stores, format string, envelope []byte) error {
	t.Helper()
	statement := trustpolicy.TrustPolicy{
		Name:                  "all",
		RegistryScopes:        []string{"*"},
		SignatureVerification: trustpolicy.SignatureVerification{VerificationLevel: "strict"},
		TrustedIdentities:     []string{"x509.subject: CN=release,O=Example,ST=WA,C=US"},
	}
	for kind := range trusted {
		statement.TrustStores = append(statement.TrustStores, string(kind)+":all")
	}
	verifier, err := notationverifier.New(&trustpolicy.Document{Version: "1.0", TrustPolicies: []trustpolicy.TrustPolicy{statement}}, trusted, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = verifier.Verify(t.Context(), subject, envelope, notationgo.VerifierVerifyOptions{
		ArtifactReference:  "registry.example.com/app@" + subject.Digest.String(),
		SignatureMediaType: format,
	})
	return err
}

// What the authority makes is what the Notary Project's own verifier accepts,
// and refuses where it should.
func TestSignaturesAreTheNotaryProjects(t *testing.T) {
	later := httptest.NewUnstartedServer(nil)
	later.Start()
	defer later.Close()
	for name, options := range map[string]notation.Options{
		"without revocation": {},
		"OCSP":               {OCSP: later.URL},
		"CRL":                {CRL: later.URL},
	} {
		t.Run(name, func(t *testing.T) {
			ca, err := notation.New(options)
			if err != nil {
				t.Fatal(err)
			}
			later.Config.Handler = ca
			signer, err := ca.Issue(notation.Leaf{})
			if err != nil {
				t.Fatal(err)
			}
			clock, err := ca.Timestamper(time.Now())
			if err != nil {
				t.Fatal(err)
			}
			for _, format := range []string{notation.JWS, notation.COSE} {
				plain, err := signer.Sign(subject, notation.Signing{Format: format})
				if err != nil {
					t.Fatal(err)
				}
				stamped, err := signer.Sign(subject, notation.Signing{Format: format, Timestamps: clock})
				if err != nil {
					t.Fatal(err)
				}
				trusted := stores{truststore.TypeCA: {ca.Root}}
				if err := notationSays(t, trusted, format, plain.Envelope); err != nil {
					t.Errorf("%s: %v", format, err)
				}
				trusted[truststore.TypeTSA] = []*x509.Certificate{ca.Root}
				if err := notationSays(t, trusted, format, stamped.Envelope); err != nil {
					t.Errorf("%s with a time stamp: %v", format, err)
				}
				if err := notationSays(t, trusted, format, plain.Envelope); err == nil {
					t.Errorf("%s without the time stamp that is required is accepted", format)
				}
			}
			if options.OCSP == "" && options.CRL == "" {
				return
			}
			ca.Revoke(signer.Chain[0], time.Now())
			revoked, err := signer.Sign(subject, notation.Signing{})
			if err != nil {
				t.Fatal(err)
			}
			if err := notationSays(t, stores{truststore.TypeCA: {ca.Root}}, notation.JWS, revoked.Envelope); err == nil {
				t.Error("a revoked signer is accepted")
			}
		})
	}
}

func TestManifestRefersToTheSubject(t *testing.T) {
	ca, err := notation.New(notation.Options{})
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ca.Issue(notation.Leaf{})
	if err != nil {
		t.Fatal(err)
	}
	signature, err := signer.Sign(subject, notation.Signing{})
	if err != nil {
		t.Fatal(err)
	}
	var manifest ocispec.Manifest
	if err := json.Unmarshal(signature.Manifest, &manifest); err != nil {
		t.Fatal(err)
	}
	if manifest.Subject == nil || manifest.Subject.Digest != subject.Digest {
		t.Errorf("subject is %v", manifest.Subject)
	}
	if signature.Descriptor.Digest != digest.FromBytes(signature.Manifest) {
		t.Error("the descriptor does not describe the manifest")
	}
	blobs := signature.Blobs()
	for _, described := range append(manifest.Layers, manifest.Config) {
		if content, ok := blobs[described.Digest]; !ok || digest.FromBytes(content) != described.Digest || int64(len(content)) != described.Size {
			t.Errorf("%s is not among the blobs", described.MediaType)
		}
	}
}
