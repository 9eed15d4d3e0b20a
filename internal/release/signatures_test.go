package release_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/signatures/cosign"
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
func unverified(object *v1alpha1.GatewayRelease, reason string, says ...string) func() error {
	return all(
		begins(object, "Unverified: ", says...),
		condition(object, v1alpha1.ConditionVerified, metav1.ConditionFalse, reason),
		condition(object, v1alpha1.ConditionReady, metav1.ConditionFalse, reason),
		condition(object, v1alpha1.ConditionStalled, metav1.ConditionTrue, reason),
		absent(object, v1alpha1.ConditionReconciling),
	)
}

// begins is a check of how the summary begins, and of what else it says.
func begins(object *v1alpha1.GatewayRelease, beginning string, says ...string) func() error {
	return func() error {
		if !strings.HasPrefix(object.Status.Summary, beginning) {
			return fmt.Errorf("summary is %q, want it to begin with %q", object.Status.Summary, beginning)
		}
		for _, part := range says {
			if !strings.Contains(object.Status.Summary, part) {
				return fmt.Errorf("summary is %q, want %q in it", object.Status.Summary, part)
			}
		}
		return nil
	}
}

// withheld is a check of what is given to no further gateway.
func withheld(object *v1alpha1.GatewayRelease, revisions ...string) func() error {
	return func() error {
		if got := object.Status.Rollout.Withheld; !slices.Equal(got, revisions) {
			return fmt.Errorf("withheld %v, want %v", got, revisions)
		}
		return nil
	}
}

// runs checks what a gateway was given; nothing is "".
func (b *bench) runs(gateway *v1alpha1.GatewayInstance, want string) error {
	if err := b.client.Get(b.Context(), objectKey(gateway), gateway); err != nil {
		return err
	}
	got := ""
	if gateway.Status.Revision != nil {
		got = gateway.Status.Revision.Image
	}
	if got != want {
		return fmt.Errorf("gateway %s was given %q, want %q", gateway.Name, got, want)
	}
	return nil
}

// holds checks that something stays so while gateways obey.
func (b *bench) holds(object *v1alpha1.GatewayRelease, check func() error) {
	b.Helper()
	eventually.Holds(b.T, time.Second, func() error {
		if err := b.obey(); err != nil {
			return err
		}
		return b.is(object, check)
	})
}

func objectKey(object client.Object) client.ObjectKey { return client.ObjectKeyFromObject(object) }

// attachCosign pushes what cosign has signed.
func (b *bench) attachCosign(repository string, artifact *cosign.Artifact) {
	b.Helper()
	for _, blob := range artifact.Blobs {
		b.hub.PushBlob(b, repository, blob.MediaType, blob.Content)
	}
	var manifest ocispec.Manifest
	if err := json.Unmarshal(artifact.Manifest, &manifest); err != nil {
		b.Fatal(err)
	}
	b.hub.PushTagged(b, repository, artifact.Tag, manifest)
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
