package release_test

import (
	"encoding/json"
	"fmt"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/test/signatures/notation"
)

// signer is an authority of the Notary Project, and one who signs by it.
type signer struct {
	b         *bench
	authority *notation.Authority
	leaf      *notation.Signer
}

func (b *bench) signer() *signer {
	b.Helper()
	authority, err := notation.New(notation.Options{})
	if err != nil {
		b.Fatal(err)
	}
	leaf, err := authority.Issue(notation.Leaf{})
	if err != nil {
		b.Fatal(err)
	}
	return &signer{b, authority, leaf}
}

// sign signs an image of the bench's registry.
func (s *signer) sign(repository string, digest image.Digest) *notation.Signature {
	s.b.Helper()
	signature, err := s.leaf.Sign(*s.b.hub.Subject(s.b, repository, digest), notation.Signing{})
	if err != nil {
		s.b.Fatal(err)
	}
	s.b.attach(repository, signature)
	return signature
}

// attach pushes a signature as a referrer.
func (b *bench) attach(repository string, signature *notation.Signature) {
	b.Helper()
	var manifest ocispec.Manifest
	if err := json.Unmarshal(signature.Manifest, &manifest); err != nil {
		b.Fatal(err)
	}
	b.hub.PushBlob(b, repository, ocispec.MediaTypeEmptyJSON, ocispec.DescriptorEmptyJSON.Data)
	b.hub.PushReferrer(b, repository, manifest, signature.Envelope)
}

// signed pushes an image under a tag and signs it.
func (s *signer) signed(tag string) image.Digest {
	s.b.Helper()
	digest := s.b.hub.PushImage(s.b, "team/gateway", tag)
	s.sign("team/gateway", digest)
	return digest
}

// pinned is how an image of team/gateway runs.
func (b *bench) pinned(digest image.Digest) string {
	return b.hub.Host + "/team/gateway@" + digest.String()
}

// trust makes the Secret that holds the signer's certificates.
func (s *signer) trust() *corev1.Secret {
	s.b.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.b.namespace, Name: "ca-" + rand.String(8)},
		Data:       map[string][]byte{"ca.crt": s.authority.PEM()},
	}
	s.b.create(secret)
	return secret
}

// executor makes one that trusts a CA for what is in scope, which is below the bench's registry.
func (b *bench) executor(scope string, ca *corev1.Secret, change ...func(*v1alpha1.Executor)) *v1alpha1.Executor {
	b.Helper()
	made := &v1alpha1.Executor{
		ObjectMeta: metav1.ObjectMeta{Name: "executor-" + rand.String(8)},
		Spec: v1alpha1.ExecutorSpec{
			VerificationSpec: v1alpha1.VerificationSpec{
				Scopes: []v1alpha1.Scope{v1alpha1.Scope(b.hub.Host + "/" + scope)},
				Verifiers: []v1alpha1.Verifier{{Name: "release-signers", Notation: &v1alpha1.NotationVerifier{
					Revocation: v1alpha1.RevocationSkip, TrustedIdentities: []v1alpha1.TrustedIdentity{"*"},
					TrustStores: []v1alpha1.TrustStore{{Name: "corp", Type: v1alpha1.TrustStoreCA, Certificates: []v1alpha1.PEMSource{{
						Material: v1alpha1.Material{SecretRef: &v1alpha1.KeyReference{Name: ca.Name, Key: "ca.crt"}},
					}}}},
				}}},
			},
			Stores: []v1alpha1.Store{{Name: "registry", Registry: &v1alpha1.RegistryStore{RegistryAccess: v1alpha1.RegistryAccess{PlainHTTP: true}}}},
		},
	}
	for _, c := range change {
		c(made)
	}
	b.create(made)
	return made
}

func verification(v v1alpha1.Verification) func(*v1alpha1.GatewayRelease) {
	return func(r *v1alpha1.GatewayRelease) { r.Spec.Verification = v }
}

var requiredSignature = verification(v1alpha1.VerificationRequired)

// unverified is a check of what a release says that gives nobody what it asks for.
func unverified(object *v1alpha1.GatewayRelease, reason, message string) func() error {
	return all(
		summary(object, "Unverified: "+message),
		condition(object, v1alpha1.ConditionVerified, metav1.ConditionFalse, reason),
		condition(object, v1alpha1.ConditionReady, metav1.ConditionFalse, reason),
		condition(object, v1alpha1.ConditionStalled, metav1.ConditionTrue, reason),
		absent(object, v1alpha1.ConditionReconciling),
	)
}

// verifiedBy is a check of a positive verdict.
func verifiedBy(object *v1alpha1.GatewayRelease, e *v1alpha1.Executor) func() error {
	return func() error {
		if err := condition(object, v1alpha1.ConditionVerified, metav1.ConditionTrue, v1alpha1.ReasonVerified)(); err != nil {
			return err
		}
		return message(object, v1alpha1.ConditionVerified, fmt.Sprintf("%s: Executor %s: signed by release-signers (", object.Status.Image, e.Name))()
	}
}
