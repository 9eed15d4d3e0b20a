package demo

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	digest "github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/test/signatures/cosign"
	"github.com/gatehouse-dev/gatehouse/test/signatures/notation"
)

const (
	executorName   = "production"
	caSecret       = "release-ca"
	caKey          = "ca.crt"
	releaseSigners = "release-signers"
	builders       = "builders"
)

// signers are the two who sign the images of the demo: a release team with certificates of its own authority, and a
// build with a key.
type signers struct {
	authority *notation.Authority
	release   *notation.Signer
	build     *cosign.Key
}

func newSigners() (*signers, error) {
	authority, err := notation.New(notation.Options{})
	if err != nil {
		return nil, fmt.Errorf("make a certificate authority: %w", err)
	}
	release, err := authority.Issue(notation.Leaf{})
	if err != nil {
		return nil, fmt.Errorf("issue a signing certificate: %w", err)
	}
	build, err := cosign.NewKey(cosign.ECDSAP256)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return &signers{authority, release, build}, nil
}

// sign signs an image twice and pushes what it signs as the signatures of another, or of the same.
func (s *store) sign(ctx context.Context, who *signers, signed, of version) error {
	if err := s.signBoth(ctx, who, signed, of); err != nil {
		return fmt.Errorf("sign %s: %w", of.image, err)
	}
	return nil
}

func (s *store) signBoth(ctx context.Context, who *signers, signed, of version) error {
	release, err := who.release.Sign(signed.descriptor, notation.Signing{})
	if err != nil {
		return err
	}
	attached, err := notation.Attach(of.descriptor, notation.JWS, release.Envelope)
	if err != nil {
		return err
	}
	for _, blob := range attached.Blobs() {
		if err := s.pushBlob(ctx, ocispec.MediaTypeEmptyJSON, blob); err != nil {
			return err
		}
	}
	if err := s.pushManifest(ctx, "@"+attached.Descriptor.Digest.String(), attached.Descriptor.MediaType, attached.Manifest); err != nil {
		return err
	}

	signedDigest, err := image.ParseDigest(signed.digest)
	if err != nil {
		return err
	}
	ofDigest, err := image.ParseDigest(of.digest)
	if err != nil {
		return err
	}
	build, err := (&cosign.Signer{Key: who.build}).Sign(cosign.Payload(s.repository, signedDigest))
	if err != nil {
		return err
	}
	tagged := cosign.Tagged(ofDigest, build)
	for _, blob := range tagged.Blobs {
		if err := s.pushBlob(ctx, blob.MediaType, blob.Content); err != nil {
			return err
		}
	}
	return s.pushManifest(ctx, ":"+tagged.Tag, tagged.MediaType, tagged.Manifest)
}

// names are the options by which go-containerregistry reads names here.
func (s *store) names() []name.Option {
	options := []name.Option{name.StrictValidation}
	if s.plainHTTP {
		options = append(options, name.Insecure)
	}
	return options
}

func (s *store) pushBlob(ctx context.Context, mediaType string, content []byte) error {
	repository, err := name.NewRepository(s.repository, s.names()...)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, pushWithin)
	defer cancel()
	return remote.WriteLayer(repository, static.NewLayer(content, types.MediaType(mediaType)),
		remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
}

// manifest is one that is pushed as it is.
type manifest struct {
	mediaType string
	content   []byte
}

func (m manifest) RawManifest() ([]byte, error)        { return m.content, nil }
func (m manifest) MediaType() (types.MediaType, error) { return types.MediaType(m.mediaType), nil }

func (s *store) pushManifest(ctx context.Context, where, mediaType string, content []byte) error {
	ref, err := name.ParseReference(s.repository+where, s.names()...)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, pushWithin)
	defer cancel()
	return remote.Put(ref, manifest{mediaType, content}, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
}

// describe is the descriptor of a pushed image.
func describe(mediaType types.MediaType, content []byte) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: string(mediaType), Digest: digest.FromBytes(content), Size: int64(len(content))}
}

// caOf is the Secret with the certificate of the release team's authority.
func (s *scene) caOf() *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: caSecret, Namespace: systemNamespace},
		Data:       map[string][]byte{caKey: s.signers.authority.PEM()},
	}
}

// executor demands both signatures of every image of the demo.
func (s *scene) executor() *v1alpha1.Executor {
	return &v1alpha1.Executor{
		ObjectMeta: metav1.ObjectMeta{Name: executorName},
		Spec: v1alpha1.ExecutorSpec{
			VerificationSpec: v1alpha1.VerificationSpec{
				Scopes: []v1alpha1.Scope{v1alpha1.Scope(s.repository)},
				Verifiers: []v1alpha1.Verifier{
					{Name: releaseSigners, Notation: &v1alpha1.NotationVerifier{
						Revocation:        v1alpha1.RevocationSkip, // this authority serves no revocation lists
						TrustedIdentities: []v1alpha1.TrustedIdentity{"x509.subject: CN=release,O=Example,ST=WA,C=US"},
						TrustStores: []v1alpha1.TrustStore{{Name: "example", Type: v1alpha1.TrustStoreCA, Certificates: []v1alpha1.PEMSource{{
							Material: v1alpha1.Material{SecretRef: &v1alpha1.KeyReference{Name: caSecret, Key: caKey}},
						}}}},
					}},
					{Name: builders, Cosign: &v1alpha1.CosignVerifier{
						Keys: []v1alpha1.CosignKey{{Name: "build", PEMSource: v1alpha1.PEMSource{
							Material: v1alpha1.Material{Inline: string(s.signers.build.PublicPEM())},
						}}},
						TransparencyLog: v1alpha1.Ignored,
					}},
				},
			},
			Stores: []v1alpha1.Store{{Name: "registry", Registry: &v1alpha1.RegistryStore{RegistryAccess: v1alpha1.RegistryAccess{PlainHTTP: s.plainHTTP}}}},
		},
	}
}

// secretPatch sets or takes away the authority's certificate, as a person would with kubectl.
func secretPatch(content []byte) ([]byte, error) {
	var value any
	if content != nil {
		value = content // in base64, as encoding/json writes it
	}
	return json.Marshal(map[string]any{"data": map[string]any{caKey: value}})
}
