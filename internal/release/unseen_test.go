package release_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/executor"
	"github.com/gatehouse-dev/gatehouse/test/faultproxy"
)

// unseen is a bench whose controller can be kept from seeing changes of a resource.
func unseen(t *testing.T) (b *bench, now *clocktesting.FakePassiveClock, hold func(resource string) (release func())) {
	t.Helper()
	b = newBench(t)
	now = clocktesting.NewFakePassiveClock(time.Now())
	b.proxy, b.now = faultproxy.Start(t, faultproxy.Options{Kubeconfig: shared.Kubeconfig}), now
	return b, now, func(resource string) func() {
		release := b.proxy.Hold(func(r faultproxy.Request) bool { return r.Verb == "watch" && r.Resource == resource })
		t.Cleanup(release)
		return release
	}
}

// A key was taken away, and this replica's cache does not tell it: what that key alone vouches for is accepted no more.
// Fails when a new image is accepted by what its Executor was compiled from a while ago.
func TestWhatTrustThatIsGoneVouchedForIsNotAccepted(t *testing.T) {
	b, _, hold := unseen(t)
	s := b.signer()
	first, second := s.signed("1.0"), s.signed("1.1")
	ca := s.trust()
	e := b.executor("team/*", ca)
	r := b.release(b.hub.Reference("team/gateway", "1.0"), b.profile().Name, requiredSignature)
	b.gateway(r)
	b.start()
	b.reaches(r, all(complete(r, b.pinned(first)), verifiedBy(r, e)))

	hold("secrets")
	edit(b, ca, func(c *corev1.Secret) { c.Data["ca.crt"] = b.signer().authority.PEM() })
	edit(b, r, func(r *v1alpha1.GatewayRelease) { r.Spec.Image = b.hub.Reference("team/gateway", "1.1") })
	b.reaches(r, unverified(r, v1alpha1.ReasonVerificationFailed, b.pinned(second), "no signature by release-signers"))
	b.holds(r, func() error { return b.count(second, 0) })
}

// While an edit of an Executor does not compile, the spec before vouches for new images; and no longer once what the edit
// names is there, which this replica's cache does not tell.
func TestTheSpecBeforeVouchesForNothingOnceTheEditMayCompile(t *testing.T) {
	b, _, hold := unseen(t)
	s := b.signer()
	first, second, third := s.signed("1.0"), s.signed("1.1"), s.signed("1.2")
	later := b.signer().trust()
	trusted := later.DeepCopy().Data
	b.remove(later)
	e := b.executor("team/*", s.trust())
	r := b.release(b.hub.Reference("team/gateway", "1.0"), b.profile().Name, requiredSignature)
	b.gateway(r)
	b.start()
	b.reaches(r, all(complete(r, b.pinned(first)), verifiedBy(r, e)))
	edit(b, e, func(e *v1alpha1.Executor) {
		e.Spec.Verifiers[0].Notation.TrustStores[0].Certificates[0].SecretRef.Name = later.Name
	})
	edit(b, r, func(r *v1alpha1.GatewayRelease) { r.Spec.Image = b.hub.Reference("team/gateway", "1.1") })
	b.reaches(r, all(complete(r, b.pinned(second)), verifiedBy(r, e)))

	hold("secrets")
	b.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: later.Namespace, Name: later.Name}, Data: trusted})
	edit(b, r, func(r *v1alpha1.GatewayRelease) { r.Spec.Image = b.hub.Reference("team/gateway", "1.2") })
	b.reaches(r, unverified(r, v1alpha1.ReasonVerificationFailed, b.pinned(third), "no signature by release-signers"))
	b.holds(r, func() error { return b.count(third, 0) })
}

// In mid-rollout trust is withdrawn, and this replica's cache does not tell it. Within a bounded time nobody further is
// admitted; what was admitted before keeps its place.
func TestARolloutStopsThoughItsReplicaSeesNoReason(t *testing.T) {
	for _, test := range []struct {
		name, held string
		withdraw   func(b *bench, e *v1alpha1.Executor, ca *corev1.Secret)
		stopped    func(r *v1alpha1.GatewayRelease) func() error
		cured      bool // without the cache telling
	}{
		{"a key is replaced", "secrets", func(b *bench, _ *v1alpha1.Executor, ca *corev1.Secret) {
			edit(b, ca, func(c *corev1.Secret) { c.Data["ca.crt"] = b.signer().authority.PEM() })
		}, func(r *v1alpha1.GatewayRelease) func() error {
			return condition(r, v1alpha1.ConditionVerified, metav1.ConditionFalse, v1alpha1.ReasonNoLongerVerified)
		}, true},
		{"an Executor is edited", "executors", func(b *bench, e *v1alpha1.Executor, _ *corev1.Secret) {
			edit(b, e, func(e *v1alpha1.Executor) {
				e.Spec.Verifiers[0].Notation.TrustedIdentities = []v1alpha1.TrustedIdentity{"x509.subject: CN=nobody,O=Nobody,ST=WA,C=US"}
			})
		}, nil, false},
		{"an Executor is deleted", "executors", func(b *bench, e *v1alpha1.Executor, _ *corev1.Secret) { b.remove(e) }, nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			b, now, hold := unseen(t)
			s := b.signer()
			first, second := s.signed("1.0"), s.signed("1.1")
			ca := s.trust()
			e := b.executor("team/*", ca)
			r := b.release(b.hub.Reference("team/gateway", "1.0"), b.profile().Name, requiredSignature)
			for range 4 {
				b.gateway(r)
			}
			b.start()
			b.reaches(r, all(complete(r, b.pinned(first)), verifiedBy(r, e)))
			b.deaf = true
			edit(b, r, func(r *v1alpha1.GatewayRelease) { r.Spec.Image = b.hub.Reference("team/gateway", "1.1") })
			b.reaches(r, func() error { return inFlight(r, 1) })

			release := hold(test.held)
			test.withdraw(b, e, ca)
			now.SetTime(now.Now().Add(executor.Lately))
			b.deaf = false
			if test.stopped != nil {
				b.reaches(r, test.stopped(r))
			}
			b.reaches(r, func() error { return b.count(second, 1) })
			b.holds(r, func() error { return b.count(second, 1) })
			if !test.cured {
				release()
				b.reaches(r, condition(r, v1alpha1.ConditionVerified, metav1.ConditionFalse, v1alpha1.ReasonNoLongerVerified))
				b.holds(r, func() error { return b.count(second, 1) })
			}
		})
	}
}

// What was confirmed a moment ago is not asked for again with every gateway, and at rest nothing is.
func TestARolloutAsksOnceInAWhile(t *testing.T) {
	b, _, _ := unseen(t)
	s := b.signer()
	first, second := s.signed("1.0"), s.signed("1.1")
	e := b.executor("team/*", s.trust())
	r := b.release(b.hub.Reference("team/gateway", "1.0"), b.profile().Name, requiredSignature)
	for range 6 {
		b.gateway(r)
	}
	b.start()
	b.reaches(r, all(complete(r, b.pinned(first)), verifiedBy(r, e)))
	reads := func() int {
		return b.proxy.Sent(func(r faultproxy.Request) bool { return r.Verb == "get" && r.Resource == "secrets" })
	}
	before := reads()
	edit(b, r, func(r *v1alpha1.GatewayRelease) { r.Spec.Image = b.hub.Reference("team/gateway", "1.1") })
	b.reaches(r, complete(r, b.pinned(second)))
	if n := reads() - before; n != 1 {
		t.Errorf("a rollout over six gateways read the key %d times, want once", n)
	}
}
