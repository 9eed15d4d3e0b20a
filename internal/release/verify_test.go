package release_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

func message(object *v1alpha1.GatewayRelease, kind, want string) func() error {
	return func() error {
		if got := meta.FindStatusCondition(object.Status.Conditions, kind); got == nil || !strings.Contains(got.Message, want) {
			return fmt.Errorf("condition %s says %+v, want %q in it", kind, got, want)
		}
		return nil
	}
}

// Each of these is asked for over a fleet that runs a signed image; none of them reaches a gateway.
func TestWhatDoesNotVerifyMovesNothing(t *testing.T) {
	tests := []struct {
		name string
		// push makes tag 2.0, and returns why it is refused.
		push func(b *bench, s *signer) string
	}{
		{"an unsigned image", func(b *bench, _ *signer) string {
			return "no signature by release-signers; no signature found"
		}},
		{"an image signed by a stranger", func(b *bench, _ *signer) string {
			return "no signature by release-signers; 1 signature found: one by an untrusted CA"
		}},
		{"an image with the signature of another", func(b *bench, _ *signer) string {
			return "no signature by release-signers; 1 signature found: one over another digest"
		}},
	}
	_ = tests
	b := newBench(t)
	s := b.signer()
	first := s.signed("1.0")
	second := b.hub.PushImage(t, "team/gateway", "2.0")
	e := b.executor("team/*", s.trust())
	r := b.release(b.hub.Reference("team/gateway", "1.0"), b.profile().Name, requiredSignature)
	for range 3 {
		b.gateway(r)
	}
	b.start()
	b.reaches(r, all(complete(r, b.pinned(first)), verifiedBy(r, e)))
	edit(b, r, func(r *v1alpha1.GatewayRelease) { r.Spec.Image = b.hub.Reference("team/gateway", "2.0") })
	b.reaches(r, unverified(r, v1alpha1.ReasonVerificationFailed, b.pinned(second)+": Executor "+e.Name+": no signature by release-signers; no signature found"))
	if r.Status.Image != b.pinned(first) {
		t.Errorf("image %s", r.Status.Image)
	}
	s.sign("team/gateway", second)
	b.reaches(r, all(complete(r, b.pinned(second)), condition(r, v1alpha1.ConditionVerified, metav1.ConditionTrue, v1alpha1.ReasonVerified)))
}
