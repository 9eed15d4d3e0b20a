package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
	"github.com/gatehouse-dev/gatehouse/test/registry"
)

// Fails when a registry in trouble delays a release of another, when its release moves anything, or when the summary
// does not say which registry it is.
func TestARegistryInTroubleDelaysItsOwnReleasesAlone(t *testing.T) {
	t.Parallel()
	running(t)
	faults := map[string]registry.Fault{
		"hangs":                   registry.Hang(),
		"drips a byte a second":   registry.Drip(time.Second),
		"answers 429":             registry.AnswerRetryAfter(429, "5"),
		"answers 500":             registry.Answer(500),
		"breaks off":              registry.Cut(),
		"lies about the digest":   registry.LieAboutDigest(image.DigestOf([]byte("something else"))),
		"lies about the size":     registry.LieAboutSize(1 << 20),
		"forges the content":      registry.Forge(`{"schemaVersion":2}`),
		"redirects in a circle":   registry.RedirectLoop(),
		"answers without a limit": registry.Giant(64 << 20),
		"is down":                 nil,
	}
	troubled := map[string]*fleet.Fleet{}
	for name, fault := range faults {
		hub := registry.Start(t)
		if fault != nil {
			hub.Break(fault)
		}
		f := fleet.New(t, product, fleet.Options{Registry: hub, Release: func(*v1alpha1.GatewayRelease) {
			if fault == nil {
				hub.Down()
			}
		}})
		troubled[name] = f
	}
	started := time.Now()
	healthy := fleet.New(t, product, fleet.Options{})
	healthy.Converged(t, healthy.V1)
	if took := time.Since(started); took > 15*time.Second {
		t.Errorf("a healthy release took %s beside %d that are in trouble", took, len(faults))
	}
	for name, f := range troubled {
		eventually.Succeeds(t, fleet.Patience, func() error {
			release := f.Release(t)
			if summary := release.Status.Summary; !strings.HasPrefix(summary, "Resolving: ") || !strings.Contains(summary, f.Registry.Host) {
				return fmt.Errorf("of a registry that %s the summary says %q", name, summary)
			}
			if release.Status.Image != "" {
				t.Errorf("of a registry that %s %q was accepted", name, release.Status.Image)
			}
			return nil
		})
		t.Logf("of a registry that %s: %s", name, f.Release(t).Status.Summary)
	}
	for _, f := range troubled {
		f.Registry.Heal()
	}
	troubled["is down"].Registry.Up(t)
	for _, f := range troubled {
		f.ConvergedWithin(t, f.V1, 2*fleet.Patience)
	}
}

// Fails when a profile that cannot be run is run, moves something, or does not say what is wrong with it.
func TestAMalformedProfileMovesNothingAndSaysWhy(t *testing.T) {
	m := running(t)
	for name, test := range map[string]struct{ template, says string }{
		"no container of that name": {`{"spec":{"containers":[{"name":"other","image":"x@sha256:` + strings.Repeat("a", 64) + `"}]}}`, `"gateway"`},
		"an unknown field":          {`{"spec":{"containers":[{"name":"gateway","imagePullPolcy":"Always"}]}}`, "imagePullPolcy"},
		"another image by tag":      {`{"spec":{"containers":[{"name":"gateway"},{"name":"sidecar","image":"example.com/sidecar:v1"}]}}`, "sidecar"},
	} {
		t.Run(name, func(t *testing.T) {
			f := fleet.New(t, product, fleet.Options{})
			f.Converged(t, f.V1)
			runs := f.Footprint(t)
			accepted := f.Release(t).Status.Revision
			f.EditProfile(t, func(p *v1alpha1.GatewayProfile) { p.Spec.Template.Raw = []byte(test.template) })
			release := f.ReleaseSays(t, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonInvalidProfile)
			if message := fleet.Message(release.Status.Conditions, v1alpha1.ConditionStalled); !strings.Contains(message, test.says) || !strings.Contains(message, f.Name) {
				t.Errorf("the message %q names neither the profile nor what is wrong", message)
			}
			if !strings.HasPrefix(release.Status.Summary, "Invalid: ") || release.Status.Revision != accepted {
				t.Errorf("the summary is %q, and the accepted revision %s, before %s", release.Status.Summary, release.Status.Revision, accepted)
			}
			m.Rest(t, soon)
			if now := f.Footprint(t); asJSON(t, now) != asJSON(t, runs) {
				t.Errorf("what runs was\n%s\nand is\n%s", asJSON(t, runs), asJSON(t, now))
			}
		})
	}
}

// notProgressing waits for the reason for which the first gateway does not get further.
func notProgressing(t *testing.T, f *fleet.Fleet, reason string) {
	t.Helper()
	eventually.Succeeds(t, fleet.Patience, func() error {
		gateway := f.Gateway(t, 0)
		message := fleet.Message(gateway.Status.Conditions, v1alpha1.ConditionReady)
		if !strings.Contains(message, reason) || gateway.Status.Phase != v1alpha1.GatewayFailed {
			return fmt.Errorf("the gateway is %s and says %q, want %s", gateway.Status.Phase, message, reason)
		}
		return nil
	})
	eventually.Succeeds(t, fleet.Patience, func() error {
		rollout := f.Release(t).Status.Rollout
		if !strings.Contains(rollout.Message, f.Gateways[0].Name) || !strings.Contains(rollout.Message, v1alpha1.ReasonNotProgressing) {
			return fmt.Errorf("the release says %q, which names neither the gateway nor why", rollout.Message)
		}
		return nil
	})
}

// Fails when a person has to look at pods to learn why a gateway does not come up.
func TestWhatKeepsAGatewayFromRunningIsSaid(t *testing.T) {
	running(t)
	t.Run("its image crashes", func(t *testing.T) {
		f := fleet.New(t, product, fleet.Options{})
		if err := product.BadPods(t.Context(), f.V1.String(), cluster.CrashLoop); err != nil {
			t.Fatal(err)
		}
		notProgressing(t, f, "CrashLoopBackOff")
	})
	t.Run("its image cannot be pulled", func(t *testing.T) {
		f := fleet.New(t, product, fleet.Options{Release: func(r *v1alpha1.GatewayRelease) { r.Spec.Rollout.Paused = true }})
		if err := product.BadPods(t.Context(), f.V1.String(), cluster.NeverReady); err != nil {
			t.Fatal(err)
		}
		f.EditRelease(t, func(r *v1alpha1.GatewayRelease) { r.Spec.Rollout.Paused = false })
		// No kubelet is there to say so.
		eventually.Succeeds(t, fleet.Patience, func() error {
			var pods corev1.PodList
			if err := f.Client.List(t.Context(), &pods, client.InNamespace(f.Namespaces[0])); err != nil {
				return err
			}
			if len(pods.Items) == 0 || len(pods.Items[0].Status.ContainerStatuses) == 0 {
				return errors.New("no pod runs yet")
			}
			pod := &pods.Items[0]
			was := pod.DeepCopy()
			pod.Status.ContainerStatuses[0].Started = new(bool)
			pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}}
			return f.Client.Status().Patch(t.Context(), pod, client.MergeFrom(was))
		})
		notProgressing(t, f, "ImagePullBackOff")
	})
	t.Run("its namespace has no room", func(t *testing.T) {
		f := fleet.New(t, product, fleet.Options{Release: func(r *v1alpha1.GatewayRelease) { r.Spec.Rollout.Paused = true }})
		quota := &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespaces[0], Name: "none"},
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
		}
		f.Make(t, quota)
		eventually.Succeeds(t, soon, func() error {
			f.Get(t, client.ObjectKeyFromObject(quota), quota)
			if len(quota.Status.Hard) == 0 {
				return errors.New("the quota is not counted yet")
			}
			return nil
		})
		f.EditRelease(t, func(r *v1alpha1.GatewayRelease) { r.Spec.Rollout.Paused = false })
		notProgressing(t, f, "FailedCreate")
	})
}

// Fails when a bad image takes down more than the budget, when those that it hits lose what they run, or when going back
// is more than an edit.
func TestABadImageStopsAtItsBudgetAndAnEditGoesBack(t *testing.T) {
	running(t)
	const gateways, budget = 6, 2
	f := fleet.New(t, product, fleet.Options{Gateways: gateways, Release: func(r *v1alpha1.GatewayRelease) {
		r.Spec.Rollout.MaxUnavailable = intOrString(budget)
		r.Spec.Rollout.MaxFailures = intOrString(0)
		r.Spec.Rollout.ProgressDeadline = &metav1.Duration{Duration: 2 * time.Second}
	}})
	f.Converged(t, f.V1)
	bad := f.Push(t, "bad")
	if err := product.BadPods(t.Context(), bad.String(), cluster.NeverReady); err != nil {
		t.Fatal(err)
	}
	f.SetImage(t, f.Image("bad"))
	release := f.ReleaseSays(t, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonRolloutFailed)
	hit := 0
	for _, gateway := range f.All(t) {
		if gateway.Status.Revision.Image == f.Pinned(bad) {
			hit++
		}
		if gateway.Status.Replicas.Ready != 1 {
			t.Errorf("%s has %d ready replicas: what ran must run until something else does", gateway.Name, gateway.Status.Replicas.Ready)
		}
	}
	if hit > budget {
		t.Errorf("%d gateways were moved to an image that never becomes ready, with a budget of %d", hit, budget)
	}
	if message := release.Status.Rollout.Message; !strings.Contains(message, "gw-") {
		t.Errorf("the message %q does not say who failed", message)
	}
	f.SetImage(t, f.Image("v1"))
	f.Converged(t, f.V1)
}

// Fails when a registry that goes down takes something back, or is called fine; and when a tag that moves meanwhile is
// not followed afterwards.
func TestARegistryThatGoesDownLaterTakesNothingBack(t *testing.T) {
	t.Parallel()
	running(t)
	f := fleet.New(t, product, fleet.Options{Release: func(r *v1alpha1.GatewayRelease) {
		r.Spec.ResolveInterval = &metav1.Duration{Duration: time.Second}
	}})
	f.Converged(t, f.V1)
	runs := f.Footprint(t)
	f.Registry.Down()
	release := f.ReleaseSays(t, v1alpha1.ConditionResolved, metav1.ConditionUnknown, v1alpha1.ReasonRegistryUnavailable)
	if message := fleet.Message(release.Status.Conditions, v1alpha1.ConditionResolved); !strings.Contains(message, f.Registry.Host) {
		t.Errorf("the message %q does not say which registry", message)
	}
	if release.Status.Summary != "Available" {
		t.Errorf("the summary is %q, and what was accepted is still available", release.Status.Summary)
	}
	f.ReleaseSays(t, v1alpha1.ConditionReady, metav1.ConditionTrue, "")
	if now := f.Footprint(t); asJSON(t, now) != asJSON(t, runs) {
		t.Errorf("what runs was\n%s\nand is\n%s", asJSON(t, runs), asJSON(t, now))
	}
	f.Registry.Up(t)
	moved := f.Push(t, "v1")
	f.ConvergedWithin(t, moved, 2*fleet.Patience)
	f.ReleaseSays(t, v1alpha1.ConditionResolved, metav1.ConditionTrue, "")
}
