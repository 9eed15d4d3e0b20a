package release_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	testregistry "github.com/gatehouse-dev/gatehouse/test/registry"
	"github.com/gatehouse-dev/gatehouse/test/signatures/cosign"
	"github.com/gatehouse-dev/gatehouse/test/signatures/notation"
)

// Each of these is asked for over a fleet that runs a signed image; none of them reaches a gateway, and what was running
// goes on. Once it is signed it moves, without an edit.
func TestWhatDoesNotVerifyMovesNothing(t *testing.T) {
	tests := []struct {
		name   string
		attach func(b *bench, s *signer, first, second image.Digest)
		why    string
	}{
		{"unsigned", func(*bench, *signer, image.Digest, image.Digest) {}, "no signature by release-signers"},
		{"signed by a stranger", func(b *bench, _ *signer, _, second image.Digest) {
			b.signer().sign("team/gateway", second)
		}, "untrusted CA"},
		{"with the signature of another image", func(b *bench, s *signer, first, second image.Digest) {
			copied, err := notation.Attach(*b.hub.Subject(b, "team/gateway", second), notation.JWS, s.sign("team/gateway", first).Envelope)
			if err != nil {
				b.Fatal(err)
			}
			b.attach("team/gateway", copied)
		}, "over another digest"},
	}
	b := newBench(t)
	s := b.signer()
	first := s.signed("1.0")
	e := b.executor("team/*", s.trust())
	r := b.release(b.hub.Reference("team/gateway", "1.0"), b.profile().Name, requiredSignature)
	for range 3 {
		b.gateway(r)
	}
	b.start()
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			edit(b, r, func(r *v1alpha1.GatewayRelease) { r.Spec.Image = b.hub.Reference("team/gateway", "1.0") })
			b.reaches(r, all(complete(r, b.pinned(first)), verifiedBy(r, e)))
			attempt := r.Status.Rollout.Attempt

			tag := fmt.Sprintf("2.%d", i)
			second := b.hub.PushImage(t, "team/gateway", tag)
			test.attach(b, s, first, second)
			edit(b, r, func(r *v1alpha1.GatewayRelease) { r.Spec.Image = b.hub.Reference("team/gateway", tag) })
			b.reaches(r, unverified(r, v1alpha1.ReasonVerificationFailed, b.pinned(second)+": Executor "+e.Name+": ", test.why))
			if s := r.Status; s.Image != b.pinned(first) || s.Rollout.Attempt != attempt || s.Rollout.Fleet.Updated != 3 || s.Rollout.State != v1alpha1.RolloutComplete {
				t.Errorf("image %s, rollout %+v: it moved", s.Image, s.Rollout)
			}
			s.sign("team/gateway", second)
			b.reaches(r, all(complete(r, b.pinned(second)), verifiedBy(r, e)))
		})
	}
	eventually.Succeeds(t, within, func() error {
		return has(b.events(r), "Warning VerificationFailed "+b.hub.Host, "Normal Verified "+b.hub.Host)
	})
}

func has(events []string, wanted ...string) error {
	for _, want := range wanted {
		found := false
		for _, e := range events {
			found = found || strings.HasPrefix(e, want)
		}
		if !found {
			return fmt.Errorf("no event %q among %q", want, events)
		}
	}
	return nil
}

// What an image needs that nobody is set up to vouch for is the release's to say.
func TestAnImageThatNoExecutorMatches(t *testing.T) {
	b := newBench(t)
	digest := b.hub.PushImage(t, "team/gateway", "1.0")
	p := b.profile().Name
	strict := b.release(b.hub.Reference("team/gateway", "1.0"), p, requiredSignature)
	lenient := b.release(b.hub.Reference("team/gateway", "1.0"), p, verification(v1alpha1.VerificationIfConfigured))
	careless := b.release(b.hub.Reference("team/gateway", "1.0"), p)
	b.start()
	none := "no Executor matches " + b.pinned(digest)
	b.reaches(strict, unverified(strict, v1alpha1.ReasonNoExecutor, none+"; add an Executor with this scope or set verification: IfConfigured"))
	passes := all(complete(lenient, b.pinned(digest)), condition(lenient, v1alpha1.ConditionVerified, metav1.ConditionFalse, v1alpha1.ReasonNotRequired))
	b.reaches(lenient, all(passes, message(lenient, v1alpha1.ConditionVerified, none)))
	b.reaches(careless, all(complete(careless, b.pinned(digest)), absent(careless, v1alpha1.ConditionVerified)))

	// One that only audits satisfies nothing, and stands in nobody's way.
	s := b.signer()
	ca := s.trust()
	e := b.executor("team/gateway", ca, func(e *v1alpha1.Executor) { e.Spec.Mode = v1alpha1.ModeAudit })
	b.reaches(strict, unverified(strict, v1alpha1.ReasonNoExecutor, "only Executors with mode: Audit match "+b.pinned(digest)))
	b.reaches(lenient, all(passes, message(lenient, v1alpha1.ConditionVerified, "only Executors with mode: Audit match "+b.pinned(digest))))

	// From the moment that one enforces, both need a signature.
	edit(b, e, func(e *v1alpha1.Executor) { e.Spec.Mode = v1alpha1.ModeEnforce })
	b.reaches(strict, unverified(strict, v1alpha1.ReasonVerificationFailed, "no signature by release-signers"))
	b.reaches(lenient, unverified(lenient, v1alpha1.ReasonNoLongerVerified, "no signature by release-signers"))
	s.sign("team/gateway", digest)
	b.reaches(strict, all(complete(strict, b.pinned(digest)), verifiedBy(strict, e)))
	b.reaches(lenient, all(complete(lenient, b.pinned(digest)), verifiedBy(lenient, e)))
	if err := b.is(careless, all(complete(careless, b.pinned(digest)), absent(careless, v1alpha1.ConditionVerified))); err != nil {
		t.Error(err)
	}
}

// An image that the profile brings along is verified like the release's own.
func TestEveryImageOfThePodsIsVerified(t *testing.T) {
	for _, place := range []struct{ where, template string }{
		{"container proxy", `{"spec":{"containers":[{"name":"gateway"},{"name":"proxy","image":"%s"}]}}`},
		{"init container setup", `{"spec":{"initContainers":[{"name":"setup","image":"%s"}],"containers":[{"name":"gateway"}]}}`},
		{"volume models", `{"spec":{"containers":[{"name":"gateway"}],"volumes":[{"name":"models","image":{"reference":"%s"}}]}}`},
	} {
		t.Run(place.where, func(t *testing.T) {
			b := newBench(t)
			s := b.signer()
			digest := s.signed("1.0")
			other := b.hub.PushImage(t, "team/other", "1.0")
			e := b.executor("team/*", s.trust())
			p := b.profile()
			r := b.release(b.hub.Reference("team/gateway", "1.0"), p.Name, requiredSignature)
			b.gateway(r)
			b.start()
			b.reaches(r, all(complete(r, b.pinned(digest)), verifiedBy(r, e)))
			alone := r.Status.Revision

			pinned := b.hub.Host + "/team/other@" + other.String()
			edit(b, p, func(p *v1alpha1.GatewayProfile) {
				p.Spec.Template = runtime.RawExtension{Raw: fmt.Appendf(nil, place.template, pinned)}
			})
			b.reaches(r, unverified(r, v1alpha1.ReasonVerificationFailed, place.where+": "+pinned+": Executor "+e.Name+": no signature by release-signers"))
			if r.Status.Revision != alone || r.Status.Rollout.Target != alone {
				t.Errorf("revision %s, target %s: want still %s", r.Status.Revision, r.Status.Rollout.Target, alone)
			}
			s.sign("team/other", other)
			b.reaches(r, all(complete(r, b.pinned(digest)), verifiedBy(r, e), message(r, v1alpha1.ConditionVerified, place.where+": "+pinned)))
			if r.Status.Revision == alone {
				t.Error("the profile's edit did not move")
			}
		})
	}
}

// Signatures of Sigstore count as those of the Notary Project do.
func TestAReleaseSignedByAKey(t *testing.T) {
	b := newBench(t)
	key, err := cosign.NewKey(cosign.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	digest := b.hub.PushImage(t, "team/gateway", "1.0")
	signature, err := (&cosign.Signer{Key: key}).Sign(cosign.Payload(b.hub.Host+"/team/gateway", digest))
	if err != nil {
		t.Fatal(err)
	}
	b.executor("team/*", b.signer().trust(), func(e *v1alpha1.Executor) {
		e.Spec.Verifiers = []v1alpha1.Verifier{{Name: "builders", Cosign: &v1alpha1.CosignVerifier{
			TransparencyLog: v1alpha1.Ignored,
			Keys:            []v1alpha1.CosignKey{{Name: "k1", PEMSource: v1alpha1.PEMSource{Material: v1alpha1.Material{Inline: string(key.PublicPEM())}}}},
		}}}
	})
	r := b.release(b.hub.Reference("team/gateway", "1.0"), b.profile().Name, requiredSignature)
	b.start()
	b.reaches(r, unverified(r, v1alpha1.ReasonVerificationFailed, "no signature by builders"))
	b.attachCosign("team/gateway", cosign.Tagged(digest, signature))
	b.reaches(r, all(complete(r, b.pinned(digest)), message(r, v1alpha1.ConditionVerified, "signed by builders (")))
}

// What cannot be decided is neither passed nor failed: it waits, and says for what.
func TestWhatCannotBeDecidedWaits(t *testing.T) {
	b := newBench(t)
	s := b.signer()
	digest := s.signed("1.0")
	ca := s.trust()
	e := b.executor("team/*", ca)
	b.hub.BreakPath("referrers", testregistry.Answer(503))
	r := b.release(b.hub.Reference("team/gateway", "1.0"), b.profile().Name, requiredSignature)
	b.gateway(r)
	b.start()
	waits := all(
		condition(r, v1alpha1.ConditionVerified, metav1.ConditionUnknown, v1alpha1.ReasonVerifying),
		condition(r, v1alpha1.ConditionResolved, metav1.ConditionTrue, v1alpha1.ReasonResolved),
		condition(r, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonVerifying),
		condition(r, v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonVerifying),
		absent(r, v1alpha1.ConditionStalled),
		func() error {
			if r.Status.Image != "" || r.Status.Revision != "" {
				return fmt.Errorf("accepted %s", r.Status.Image)
			}
			return nil
		})
	b.reaches(r, all(waits, begins(r, "Verifying: "+b.pinned(digest)+": Executor "+e.Name+": cannot decide: ", "503")))
	b.hub.Heal()
	b.reaches(r, all(complete(r, b.pinned(digest)), verifiedBy(r, e)))

	t.Run("and what was accepted stays, but is given to nobody new", func(t *testing.T) {
		b.hub.BreakPath("referrers", testregistry.Answer(503))
		edit(b, e, func(e *v1alpha1.Executor) { e.Spec.Verifiers[0].Name = "signers" })
		b.reaches(r, all(
			begins(r, "Unverified: "+b.pinned(digest)+": Executor "+e.Name+": cannot decide: "),
			condition(r, v1alpha1.ConditionVerified, metav1.ConditionUnknown, v1alpha1.ReasonCannotVerify),
			condition(r, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRolloutComplete),
			condition(r, v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonCannotVerify),
			absent(r, v1alpha1.ConditionStalled),
			bothWithheld(r),
		))
		late := b.gateway(r)
		b.holds(r, func() error { return b.runs(late, "") })
		b.hub.Heal()
		b.reaches(r, all(complete(r, b.pinned(digest)), withheld(r)))
		b.reaches(r, func() error { return b.runs(late, b.pinned(digest)) })
	})
}

// What a tag or a profile has come to without an edit of the release is said like an edit while it cannot be decided:
// nobody is told Ready of what was accepted before.
func TestAMovedTagThatCannotBeDecidedIsSaid(t *testing.T) {
	b := newBench(t)
	s := b.signer()
	first := s.signed("1.0")
	e := b.executor("team/*", s.trust())
	r := b.release(b.hub.Reference("team/gateway", "1.0"), b.profile().Name, requiredSignature, interval(time.Second))
	g := b.gateway(r)
	b.start()
	b.reaches(r, all(complete(r, b.pinned(first)), verifiedBy(r, e)))
	b.hub.BreakPath("referrers", testregistry.Answer(503))
	second := s.signed("1.0")
	b.reaches(r, all(
		begins(r, "Verifying: "+b.pinned(second)+": Executor "+e.Name+": cannot decide: "),
		condition(r, v1alpha1.ConditionVerified, metav1.ConditionUnknown, v1alpha1.ReasonVerifying),
		condition(r, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonVerifying),
		func() error { return b.runs(g, b.pinned(first)) },
	))
	b.hub.Heal()
	b.reaches(r, all(complete(r, b.pinned(second)), verifiedBy(r, e)))
}

// An Executor that cannot be compiled vouches for nothing, and what is in its scope is not unmatched.
func TestABrokenExecutorAdmitsNothing(t *testing.T) {
	b := newBench(t)
	s := b.signer()
	digest := s.signed("1.0")
	broken := func(e *v1alpha1.Executor) {
		e.Spec.Verifiers[0].Notation.TrustStores[0].Certificates[0].Material = v1alpha1.Material{Inline: "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----"}
	}
	ca := s.trust()
	e := b.executor("team/*", ca, broken)
	r := b.release(b.hub.Reference("team/gateway", "1.0"), b.profile().Name, verification(v1alpha1.VerificationIfConfigured))
	b.gateway(r)
	c := b.start()
	b.reaches(r, all(
		begins(r, "Verifying: "+b.pinned(digest)+": Executor "+e.Name+": cannot decide: "),
		condition(r, v1alpha1.ConditionVerified, metav1.ConditionUnknown, v1alpha1.ReasonVerifying),
	))
	edit(b, e, func(e *v1alpha1.Executor) {
		e.Spec.Verifiers[0].Notation.TrustStores[0].Certificates[0].Material = v1alpha1.Material{SecretRef: &v1alpha1.KeyReference{Name: ca.Name, Key: "ca.crt"}}
	})
	b.reaches(r, all(complete(r, b.pinned(digest)), verifiedBy(r, e)))

	// The build before goes on serving when a later spec breaks.
	edit(b, e, broken)
	eventually.Succeeds(t, within, func() error {
		if err := b.client.Get(t.Context(), objectKey(e), e); err != nil {
			return err
		}
		if served := c.live.Served(objectKey(e)); served.Attempted != e.Generation || served.Problem == "" {
			return fmt.Errorf("generation %d was attempted last, with problem %q", served.Attempted, served.Problem)
		}
		return nil
	})
	b.holds(r, all(complete(r, b.pinned(digest)), verifiedBy(r, e)))
	next := s.signed("1.1")
	edit(b, r, func(r *v1alpha1.GatewayRelease) { r.Spec.Image = b.hub.Reference("team/gateway", "1.1") })
	b.reaches(r, all(complete(r, b.pinned(next)), verifiedBy(r, e)))
}

// A verdict is about what was asked for when it was reached: it does not stand beside a profile that is invalid, nor is
// the tag resolved again because of an edit of the profile, where it is resolved once for each generation.
func TestAnEditOfTheProfileTakesTheVerdictAndLeavesTheDigest(t *testing.T) {
	b := newBench(t)
	s := b.signer()
	first := s.signed("1.0")
	sidecar := b.hub.Host + "/team/sidecar@" + b.hub.PushImage(t, "team/sidecar", "1.0").String()
	e := b.executor("team/*", s.trust())
	p := b.profile()
	r := b.release(b.hub.Reference("team/gateway", "1.0"), p.Name, requiredSignature, interval(0))
	b.gateway(r)
	b.start()
	b.reaches(r, all(complete(r, b.pinned(first)), verifiedBy(r, e)))
	s.signed("1.0") // the tag moves, and no answer of before is good enough for whoever would ask
	edit(b, r, func(r *v1alpha1.GatewayRelease) {
		r.Annotations = map[string]string{v1alpha1.AnnotationReconcileRequestedAt: time.Now().Format(time.RFC3339Nano)}
	})
	revised := func(containers string) {
		edit(b, p, func(p *v1alpha1.GatewayProfile) {
			p.Spec.Template.Raw = []byte(`{"spec":{"containers":[` + containers + `]}}`)
		})
	}

	revised(`{"name":"gateway"},{"name":"sidecar","image":"` + sidecar + `"}`)
	b.reaches(r, unverified(r, v1alpha1.ReasonVerificationFailed, sidecar))
	revised(`{"name":"proxy"}`)
	b.reaches(r, all(
		begins(r, "Invalid: profile "+p.Name),
		condition(r, v1alpha1.ConditionVerified, metav1.ConditionUnknown, v1alpha1.ReasonNotAccepted),
		condition(r, v1alpha1.ConditionResolved, metav1.ConditionTrue, v1alpha1.ReasonResolved),
		resolvedImage(r, b.pinned(first)),
	))
	revised(`{"name":"gateway"},{"name":"sidecar","image":"` + sidecar + `"}`)
	b.reaches(r, unverified(r, v1alpha1.ReasonVerificationFailed, sidecar))
	revised(`{"name":"gateway","args":["serve","--fast"]}`)
	b.reaches(r, all(complete(r, b.pinned(first)), verifiedBy(r, e)))
}

func resolvedImage(r *v1alpha1.GatewayRelease, want string) func() error {
	return func() error {
		if r.Status.ResolvedImage != want {
			return fmt.Errorf("resolvedImage is %q, want %q", r.Status.ResolvedImage, want)
		}
		return nil
	}
}

func message(object *v1alpha1.GatewayRelease, kind, want string) func() error {
	return func() error {
		if got := meta.FindStatusCondition(object.Status.Conditions, kind); got == nil || !strings.Contains(got.Message, want) {
			return fmt.Errorf("condition %s says %+v, want %q in it", kind, got, want)
		}
		return nil
	}
}
