package contract

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/faultproxy"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
	"github.com/gatehouse-dev/gatehouse/test/manager"
	"github.com/gatehouse-dev/gatehouse/test/signatures/notation"
)

// vouched is a fleet whose images must be signed, and who signs them.
type vouched struct {
	*fleet.Fleet
	signer   *notation.Signer
	ca       *corev1.Secret
	executor *v1alpha1.Executor
}

// newVouched makes a fleet of five, of which two may move at a time. Its first image is signed.
func newVouched(t *testing.T) *vouched {
	t.Helper()
	authority, err := notation.New(notation.Options{})
	if err != nil {
		t.Fatal(err)
	}
	v := &vouched{}
	if v.signer, err = authority.Issue(notation.Leaf{}); err != nil {
		t.Fatal(err)
	}
	v.Fleet = fleet.New(t, product, fleet.Options{Gateways: 5, Release: func(r *v1alpha1.GatewayRelease) {
		r.Spec.Verification = v1alpha1.VerificationRequired
		r.Spec.Rollout.MaxUnavailable = ptr.To(intstr.FromInt32(2))
		r.Spec.Rollout.MinReadySeconds = ptr.To[int32](2)
	}})
	v.sign(t, v.V1)
	v.ca = &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.Namespace, Name: "ca-" + v.Name},
		Data:       map[string][]byte{"ca.crt": authority.PEM()},
	}
	v.executor = &v1alpha1.Executor{
		ObjectMeta: metav1.ObjectMeta{Name: v.Name},
		Spec: v1alpha1.ExecutorSpec{
			VerificationSpec: v1alpha1.VerificationSpec{
				Scopes: []v1alpha1.Scope{v1alpha1.Scope(v.Registry.Host + "/" + fleet.Repository + "/" + v.Name)},
				Verifiers: []v1alpha1.Verifier{{Name: "release-signers", Notation: &v1alpha1.NotationVerifier{
					Revocation: v1alpha1.RevocationSkip, TrustedIdentities: []v1alpha1.TrustedIdentity{"*"},
					TrustStores: []v1alpha1.TrustStore{{Name: "corp", Type: v1alpha1.TrustStoreCA, Certificates: []v1alpha1.PEMSource{{
						Material: v1alpha1.Material{SecretRef: &v1alpha1.KeyReference{Name: v.ca.Name, Key: "ca.crt"}},
					}}}},
				}}},
			},
			Stores: []v1alpha1.Store{{Name: "registry", Registry: &v1alpha1.RegistryStore{RegistryAccess: v1alpha1.RegistryAccess{PlainHTTP: true}}}},
		},
	}
	for _, object := range []client.Object{v.ca, v.executor} {
		v.Make(t, object)
		t.Cleanup(func() { _ = product.Client.Delete(context.WithoutCancel(t.Context()), object) })
	}
	return v
}

func (v *vouched) sign(t *testing.T, digest image.Digest) {
	t.Helper()
	repository := fleet.Repository + "/" + v.Name
	signature, err := v.signer.Sign(*v.Registry.Subject(t, repository, digest), notation.Signing{})
	if err != nil {
		t.Fatal(err)
	}
	var manifest ocispec.Manifest
	if err := json.Unmarshal(signature.Manifest, &manifest); err != nil {
		t.Fatal(err)
	}
	v.Registry.PushBlob(t, repository, ocispec.MediaTypeEmptyJSON, ocispec.DescriptorEmptyJSON.Data)
	v.Registry.PushReferrer(t, repository, manifest, signature.Envelope)
}

// given counts the gateways that have recorded an image, and those whose Deployment runs it.
func (v *vouched) given(t *testing.T, digest image.Digest) (recorded, deployed int) {
	t.Helper()
	for n := range v.Gateways {
		if given := v.Gateway(t, n).Status.Revision; given != nil && given.Image == v.Pinned(digest) {
			recorded++
		}
		if v.Deployment(t, n).Spec.Template.Spec.Containers[0].Image == v.Pinned(digest) {
			deployed++
		}
	}
	return recorded, deployed
}

// Fails when an image moves that nobody vouches for, or when one that is signed later needs an edit to move.
func TestC15WhatIsNotSignedMovesNoGateway(t *testing.T) {
	running(t)
	v := newVouched(t)
	v.Converged(t, v.V1)
	unsigned := v.Push(t, "v2")
	at := mark(t)
	v.SetImage(t, v.Image("v2"))
	v.ReleaseSays(t, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonVerificationFailed)
	eventually.Holds(t, time.Second, func() error {
		if recorded, deployed := v.given(t, unsigned); recorded+deployed > 0 {
			return fmt.Errorf("%d gateways have recorded it and %d run it", recorded, deployed)
		}
		return nil
	})
	for _, event := range sent(t, at) {
		if event.Resource != "gatewayreleases" && event.Resource != "events" {
			t.Errorf("sent: %s", event)
		}
	}
	v.sign(t, unsigned)
	v.Converged(t, unsigned)
}

// Fails when a rollout goes on after its trust was withdrawn, when what runs is touched by that, or when a restart in
// between forgets it; and when it does not go on with trust.
func TestC15ADecidedNegativeStopsTheRolloutAtOnce(t *testing.T) {
	running(t)
	v := newVouched(t)
	v.Converged(t, v.V1)
	runs := v.Footprint(t)
	v2 := v.Push(t, "v2")
	v.sign(t, v2)
	v.SetImage(t, v.Image("v2"))
	eventually.Succeeds(t, fleet.Patience, func() error {
		if recorded, _ := v.given(t, v2); recorded == 0 {
			return errors.New("no gateway has taken v2 yet")
		}
		return nil
	})
	trusted := v.ca.DeepCopy().Data
	v.secret(t, nil)
	v.ReleaseSays(t, v1alpha1.ConditionVerified, metav1.ConditionFalse, v1alpha1.ReasonNoLongerVerified)
	took, _ := v.given(t, v2)
	stays := func() error {
		if recorded, _ := v.given(t, v2); recorded != took {
			return fmt.Errorf("%d gateways have recorded v2, %d had when trust was withdrawn", recorded, took)
		}
		now := v.Footprint(t)
		for _, gateway := range v.All(t) {
			key := "Deployment " + gateway.Namespace + "/" + gateway.Name
			if gateway.Status.Revision.Image == v.Pinned(v.V1) && now[key] != runs[key] || gateway.Status.Replicas.Ready != 1 {
				return fmt.Errorf("what runs is touched: %s was %s and is %s, with %d ready replicas", key, runs[key], now[key], gateway.Status.Replicas.Ready)
			}
		}
		return nil
	}
	eventually.Holds(t, 3*time.Second, stays) // longer than the ones that took it need to converge
	restarted(t)
	v.ReleaseSays(t, v1alpha1.ConditionVerified, metav1.ConditionFalse, v1alpha1.ReasonNoLongerVerified)
	eventually.Holds(t, time.Second, stays)
	if took == len(v.Gateways) {
		t.Errorf("all %d had taken v2 already", took)
	}
	late := &v1alpha1.GatewayInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: v.Namespaces[0], Name: "late"},
		Spec:       v1alpha1.GatewayInstanceSpec{ReleaseRef: v1alpha1.ReleaseReference{Name: v.Name}},
	}
	v.Make(t, late)
	v.Gateways = append(v.Gateways, client.ObjectKeyFromObject(late))
	v.GatewaySays(t, len(v.Gateways)-1, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonWithheld)
	v.secret(t, trusted)
	v.Converged(t, v2)
}

// Fails when a verified fleet is written after a restart, or its verdict flaps.
func TestC15ARestartMakesVerdictsAnewAndWritesNothing(t *testing.T) {
	m := running(t)
	v := newVouched(t)
	v.Converged(t, v.V1)
	m.Rest(t, soon)
	before := v.Release(t)
	at := mark(t)
	asked := len(v.Registry.Requests())
	m = restarted(t)
	eventually.Succeeds(t, fleet.Patience, func() error {
		if len(v.Registry.Requests()) == asked {
			return errors.New("the registry has not been asked for signatures")
		}
		return nil
	})
	m.Rest(t, soon)
	silent(t, at)
	if now := v.Release(t); now.ResourceVersion != before.ResourceVersion {
		t.Errorf("the release was written: %+v", now.Status.Conditions)
	}
}

// Fails when a gateway is given something by what an earlier process had found, before this one has looked.
func TestC15NothingIsGivenByAVerdictOfAnEarlierProcess(t *testing.T) {
	running(t)
	v := newVouched(t)
	v.Converged(t, v.V1)
	shared.Kill()
	if err := product.Client.Delete(t.Context(), v.executor); err != nil {
		t.Fatal(err)
	}
	var late []*v1alpha1.GatewayInstance
	for i := range 10 {
		g := &v1alpha1.GatewayInstance{
			ObjectMeta: metav1.ObjectMeta{Namespace: v.Namespaces[0], Name: fmt.Sprintf("late-%d", i)},
			Spec:       v1alpha1.GatewayInstanceSpec{ReleaseRef: v1alpha1.ReleaseReference{Name: v.Name}},
		}
		v.Make(t, g)
		late = append(late, g)
	}
	running(t)
	v.ReleaseSays(t, v1alpha1.ConditionVerified, metav1.ConditionFalse, v1alpha1.ReasonNoLongerVerified)
	eventually.Holds(t, 3*time.Second, func() error {
		for _, g := range late {
			if err := product.Client.Get(t.Context(), client.ObjectKeyFromObject(g), g); err != nil {
				return err
			}
			if g.Status.Revision != nil {
				return fmt.Errorf("%s was given %s, which nobody vouches for", g.Name, g.Status.Revision.Image)
			}
		}
		return nil
	})
}

// A key was taken away, and the cache does not tell it. Fails when a new image is accepted by what that key vouched for.
func TestC15ACacheThatIsBehindVouchesForNothingNew(t *testing.T) {
	shared.Kill()
	proxy := faultproxy.Start(t, faultproxy.Options{Kubeconfig: product.Kubeconfig})
	options := product.Manager("gatehouse-0")
	options.Kubeconfig = proxy.Kubeconfig
	m := manager.Start(t, options)
	v := newVouched(t)
	v.Converged(t, v.V1)
	v2 := v.Push(t, "v2")
	v.sign(t, v2)
	t.Cleanup(proxy.Hold(func(r faultproxy.Request) bool { return r.Verb == "watch" && r.Resource == "secrets" }))
	v.secret(t, nil)
	v.SetImage(t, v.Image("v2"))
	v.ReleaseSays(t, v1alpha1.ConditionVerified, metav1.ConditionFalse, v1alpha1.ReasonVerificationFailed)
	if recorded, deployed := v.given(t, v2); recorded+deployed > 0 {
		t.Errorf("%d gateways have recorded v2 and %d run it", recorded, deployed)
	}
	m.Check(t)
}

// secret gives the authority's Secret other data.
func (v *vouched) secret(t *testing.T, data map[string][]byte) {
	t.Helper()
	eventually.Succeeds(t, fleet.Patience, func() error {
		if err := product.Client.Get(t.Context(), client.ObjectKeyFromObject(v.ca), v.ca); err != nil {
			return err
		}
		v.ca.Data = data
		return product.Client.Update(t.Context(), v.ca)
	})
}
