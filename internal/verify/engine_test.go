package verify_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/verify"
	"github.com/gatehouse-dev/gatehouse/internal/verify/policy"
	testregistry "github.com/gatehouse-dev/gatehouse/test/registry"
)

var another = image.DigestOf([]byte("another image"))

func TestADecisionSaysByWhomOrWhatIsMissing(t *testing.T) {
	both := []policy.Group{{Name: "both", Min: 2, Of: []string{"release-signers", "builders"}}}
	either := []policy.Group{{Name: "either", Min: 1, Of: []string{"release-signers", "builders"}}}
	for name, row := range map[string]struct {
		given    func(s *scene)
		config   verify.Config
		outcome  verify.Outcome
		decision string
	}{
		"nothing is there": {
			func(*scene) {}, by(releaseSigners("ann")),
			verify.Failed, "no signature by release-signers; no signature found",
		},
		"signed": {
			func(s *scene) { s.refer(notationType, signature("ann", s.subject.Digest())) }, by(releaseSigners("ann")),
			verify.Passed, "signed by release-signers (ann)",
		},
		"signed under the tag": {
			func(s *scene) { s.tag(signature("bob", s.subject.Digest())) }, by(builders("bob")),
			verify.Passed, "signed by builders (bob)",
		},
		"signed by a bundle": {
			func(s *scene) { s.refer(bundleType, signature("bob", s.subject.Digest())) }, by(builders("bob")),
			verify.Passed, "signed by builders (bob)",
		},
		"two bad ones": {
			func(s *scene) {
				s.refer(notationType, signature("mallory", s.subject.Digest()))
				s.refer(notationType, signature("ann", another))
			},
			by(releaseSigners("ann")),
			verify.Failed, "no signature by release-signers; 2 signatures found: one over another digest, one by an untrusted CA",
		},
		"a good one among bad ones": {
			func(s *scene) {
				s.refer(notationType, signature("mallory", s.subject.Digest()))
				s.refer(notationType, signature("ann", another))
				s.refer(notationType, signature("ann", s.subject.Digest()))
			},
			by(releaseSigners("ann")),
			verify.Passed, "signed by release-signers (ann)",
		},
		"an attestation is none": {
			func(s *scene) { s.refer(bundleType, []byte("scan")) }, by(builders("bob")),
			verify.Failed, "no signature by builders; 1 signature found: one that is an attestation",
		},
		"one of two verifiers": {
			func(s *scene) { s.tag(signature("bob", s.subject.Digest())) }, by(releaseSigners("ann"), builders("bob")),
			verify.Failed, "no signature by release-signers (none found)",
		},
		"neither of two verifiers": {
			func(s *scene) { s.tag(signature("eve", s.subject.Digest())) }, by(releaseSigners("ann"), builders("bob")),
			verify.Failed, "no signature by release-signers (none found), builders (1 found: one by an untrusted CA)",
		},
		"one of a group of one": {
			func(s *scene) { s.tag(signature("bob", s.subject.Digest())) }, under(either, releaseSigners("ann"), builders("bob")),
			verify.Passed, "signed by builders (bob)",
		},
		"one signer twice for a threshold of two": {
			func(s *scene) {
				s.refer(notationType, signature("ann", s.subject.Digest()))
				s.tag(signature("ann", s.subject.Digest()))
			},
			under(both, releaseSigners("ann"), builders("ann")),
			verify.Failed, "policy both: 2 of release-signers, builders: not enough signers, as one signer counts once for all verifiers that accept him: signed by release-signers (ann), builders (ann)",
		},
		"one signer, and each verifier by itself": {
			func(s *scene) {
				s.refer(notationType, signature("ann", s.subject.Digest()))
				s.tag(signature("ann", s.subject.Digest()))
			},
			by(releaseSigners("ann"), builders("ann")),
			verify.Passed, "signed by release-signers (ann), builders (ann)",
		},
		"it cannot be learnt whether one counts": {
			func(s *scene) { s.refer(notationType, []byte("offline")) }, by(releaseSigners("ann")),
			verify.Undecided, "cannot decide: verifier release-signers: the responder did not answer",
		},
		"what cannot be learnt does not matter": {
			func(s *scene) {
				s.refer(notationType, []byte("offline"))
				s.refer(notationType, signature("ann", s.subject.Digest()))
			},
			by(releaseSigners("ann")),
			verify.Passed, "signed by release-signers (ann)",
		},
		"what cannot be learnt would not be enough": {
			func(s *scene) { s.refer(notationType, []byte("offline")) }, by(releaseSigners("ann"), builders("bob")),
			verify.Failed, "no signature by release-signers (1 found: one whose revocation is not known), builders (none found)",
		},
		"a signature breaks the verifier": {
			func(s *scene) { s.refer(notationType, []byte("broken signs x")) }, by(releaseSigners("ann")),
			verify.Failed, "no signature by release-signers; 1 signature found: one malformed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			row.given(s)
			s.want(s.verify(row.config), row.outcome, row.decision)
		})
	}
}

func TestRequestsAreAtTheirFloor(t *testing.T) {
	for name, row := range map[string]struct {
		given   func(s *scene)
		config  verify.Config
		options []testregistry.Option
		asked   string
	}{
		"notation": {
			func(s *scene) { s.refer(notationType, signature("ann", s.subject.Digest())) }, by(releaseSigners("ann")), nil,
			"referrers manifests blobs",
		},
		"cosign's tag": {
			func(s *scene) { s.tag(signature("bob", s.subject.Digest())) }, by(builders("bob")), nil,
			"manifests blobs",
		},
		"both, which share nothing but the registry": {
			func(s *scene) {
				s.refer(notationType, signature("ann", s.subject.Digest()))
				s.tag(signature("bob", s.subject.Digest()))
			},
			by(releaseSigners("ann"), builders("bob")), nil,
			"referrers manifests manifests blobs blobs",
		},
		"two verifiers of one signature": {
			func(s *scene) { s.refer(notationType, signature("ann", s.subject.Digest())) },
			by(releaseSigners("ann"), toy{"auditors", verify.Notation, []string{"ann"}}), nil,
			"referrers manifests blobs",
		},
		"a bundle, after its tag was asked": {
			func(s *scene) { s.refer(bundleType, signature("bob", s.subject.Digest())) }, by(builders("bob")), nil,
			"manifests referrers manifests blobs",
		},
		"a notation signature and a bundle share the list": {
			func(s *scene) {
				s.refer(notationType, signature("ann", s.subject.Digest()))
				s.refer(bundleType, signature("bob", s.subject.Digest()))
			},
			by(releaseSigners("ann"), builders("bob")), nil,
			"referrers manifests manifests manifests blobs blobs",
		},
		"the referrers tag": {
			func(s *scene) { s.refer(notationType, signature("ann", s.subject.Digest())) }, by(releaseSigners("ann")),
			[]testregistry.Option{testregistry.WithoutReferrers()},
			"referrers manifests manifests blobs",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, row.options...)
			row.given(s)
			if got := s.verify(row.config); got.Outcome != verify.Passed {
				t.Fatalf("%s: %s", got.Outcome, got.Decision)
			}
			asked := s.asked()
			count := map[string]int{}
			for _, a := range asked {
				kind, _, _ := strings.Cut(a, "/")
				count[kind]++
			}
			for _, kind := range strings.Fields(row.asked) {
				count[kind]--
			}
			for kind, n := range count {
				if n != 0 {
					t.Errorf("%+d %s: the registry was asked %q, want %s", n, kind, asked, row.asked)
				}
			}
		})
	}
}

func TestAuditReportsTheTruthAndSatisfiesNothing(t *testing.T) {
	s := newScene(t)
	s.refer(notationType, signature("ann", s.subject.Digest()))
	config := by(releaseSigners("ann"))
	if got := s.verify(config); !got.Satisfies() {
		t.Errorf("an enforcing executor: %+v", got)
	}
	config.Mode = verify.Audit
	got := s.verify(config)
	if got.Outcome != verify.Passed || !got.Succeeded || got.Enforced || got.Satisfies() {
		t.Errorf("got %+v", got)
	}
	if want := "audit only: signed by release-signers (ann)"; got.Summary() != want {
		t.Errorf("summary %q, want %q", got.Summary(), want)
	}
}

func TestAReportKeepsTheNamesThatUsersMatchOn(t *testing.T) {
	s := newScene(t)
	artifact := s.refer(notationType, signature("mallory", s.subject.Digest()))
	encoded, err := json.Marshal(s.verify(by(releaseSigners("ann"))))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Succeeded       *bool
		Outcome         verify.Outcome
		Enforced        bool
		ArtifactReports []struct {
			Subject, Artifact string
			Results           []struct{ VerifierName, Description, Detail, ErrorReason, Reason string }
		}
	}
	if err := json.Unmarshal(encoded, &got); err != nil {
		t.Fatal(err)
	}
	if got.Succeeded == nil || *got.Succeeded || got.Outcome != verify.Failed || !got.Enforced || len(got.ArtifactReports) != 1 {
		t.Fatalf("got %s", encoded)
	}
	of := got.ArtifactReports[0]
	if of.Subject != s.subject.String() || of.Artifact != artifact.String() || len(of.Results) != 1 {
		t.Fatalf("got %s", encoded)
	}
	if r := of.Results[0]; r.VerifierName != "release-signers" || r.Description != "refused: by an untrusted CA" || r.Detail != "mallory" || r.ErrorReason != "nobody knows mallory" || r.Reason != "UntrustedSigner" {
		t.Errorf("got %+v", r)
	}
}

// What is wrong with one signature reads by itself, too.
func TestADescriptionIsOfOneSignature(t *testing.T) {
	for content, want := range map[string]string{
		"scan":    "refused: is an attestation",
		"offline": "cannot decide: revocation is not known",
	} {
		s := newScene(t)
		s.refer(bundleType, []byte(content))
		if got := s.verify(by(builders("bob"))).ArtifactReports[0].Results[0].Description; got != want {
			t.Errorf("%s: described as %q, want %q", content, got, want)
		}
	}
}

// What runs on every replica says the same on every replica.
func TestTheSameSignaturesGiveTheSameReport(t *testing.T) {
	s := newScene(t)
	for _, signer := range []string{"ann", "mallory", "ann", "bob", "ann", "eve", "ann"} {
		s.refer(notationType, signature(signer, s.subject.Digest(), strings.Repeat("again ", len(s.hub.Requests()))))
		s.hub.PushImage(t, repository, "other") // digests that differ
	}
	s.tag(signature("ann", another), signature("bob", s.subject.Digest()))
	config := by(releaseSigners("ann", "bob"), builders("bob"))
	first, err := json.Marshal(s.verify(config))
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		again, err := json.Marshal(s.verify(config))
		if err != nil {
			t.Fatal(err)
		}
		if string(again) != string(first) {
			t.Fatalf("got %s\nthen %s", first, again)
		}
	}
}
