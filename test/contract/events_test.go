package contract

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
	"github.com/gatehouse-dev/gatehouse/test/registry"
)

// Fails when a write of status wakes its own controller. A watch delivers in order: once a later edit has been passed
// over, the earlier write of status has been seen as well.
func TestC08AWriteOfStatusDoesNotWakeItsController(t *testing.T) {
	m := running(t)
	f := fleet.New(t, product, fleet.Options{Gateways: 2})
	f.Converged(t, f.V1)
	before := m.Rest(t, fleet.Patience)

	gateway := f.Gateway(t, 0)
	was := gateway.DeepCopy()
	gateway.Status.Selector = "tampered=true" // of no interest to the release
	if err := f.Client.Status().Patch(t.Context(), gateway, client.MergeFrom(was)); err != nil {
		t.Fatal(err)
	}
	f.RequestGateway(t, 1)
	m.PassedAgain(t, before, 0, 1, soon)
	after := m.Rest(t, soon)
	if after.Gateway != before.Gateway+1 || after.Release != before.Release {
		t.Errorf("passes before %+v and after %+v: want one more, of the gateway that was asked for", before, after)
	}

	before = after
	release := f.Release(t)
	changed := release.DeepCopy()
	changed.Status.Summary = "tampered"
	if err := f.Client.Status().Patch(t.Context(), changed, client.MergeFrom(release)); err != nil {
		t.Fatal(err)
	}
	f.EditRelease(t, func(r *v1alpha1.GatewayRelease) { r.Annotations = map[string]string{"example.com/note": "x"} })
	f.RequestGateway(t, 1) // of another kind, and so only roughly later; Rest waits for the rest
	m.PassedAgain(t, before, 0, 1, soon)
	after = m.Rest(t, soon)
	if after.Release != before.Release || after.Gateway != before.Gateway+1 {
		t.Errorf("passes before %+v and after %+v: a tampered summary and a note woke somebody", before, after)
	}
	f.RequestRelease(t) // and puts it right
	eventually.Succeeds(t, soon, func() error {
		if summary := f.Release(t).Status.Summary; summary != "Available" {
			return errors.New(summary)
		}
		return nil
	})
}

// Fails when every write of a release wakes its whole fleet: one gateway moves, and the passes of gateways are far
// fewer than the fleet has members.
func TestC08AReleaseWakesOnlyTheGatewaysWhosePartChanged(t *testing.T) {
	m := running(t)
	const gateways = 16
	f := fleet.New(t, product, fleet.Options{Gateways: gateways, Release: func(r *v1alpha1.GatewayRelease) {
		r.Spec.Rollout.MaxUnavailable = ptr.To(intstr.FromInt32(1))
	}})
	f.ConvergedWithin(t, f.V1, 2*fleet.Patience)
	bad := f.Push(t, "bad")
	if err := product.BadPods(t.Context(), bad.String(), cluster.NeverReady); err != nil {
		t.Fatal(err)
	}
	before := m.Rest(t, fleet.Patience)
	at := mark(t)
	f.SetImage(t, f.Image("bad"))
	inFlight(t, f, bad)
	after := m.Rest(t, fleet.Patience)
	writes := len(sent(t, at, ofStatus("gatewayreleases")))
	if writes < 2 {
		t.Fatalf("the release was written %d times: this test shows nothing", writes)
	}
	if passes := after.Gateway - before.Gateway; passes >= gateways {
		t.Errorf("%v passes of gateways for one of %d that moved (%d writes of the release)", passes, gateways, writes)
	}
	// Its end is another edit, so that no later test finds a rollout under way.
	f.SetImage(t, f.Image("v1"))
	f.Converged(t, f.V1)
}

// Fails when a Secret or a ConfigMap does not find the releases that name it: the resync is ten minutes away.
func TestC09CredentialsAndAuthoritiesFindTheirReleases(t *testing.T) {
	running(t)
	hub := registry.Start(t, registry.WithTLS(), registry.WithBasicAuth("robot", "hunter2"))
	name := "pull-" + strings.ReplaceAll(hub.Host, ":", "-")
	f := fleet.New(t, product, fleet.Options{Registry: hub, Release: func(r *v1alpha1.GatewayRelease) {
		r.Spec.Registry = &v1alpha1.RegistryAccess{
			Credentials: &v1alpha1.RegistryCredentials{SecretRef: v1alpha1.LocalObjectReference{Name: name}},
			CABundle:    &v1alpha1.CABundle{ConfigMapRef: v1alpha1.KeyReference{Name: name, Key: "ca.crt"}},
		}
	}})
	f.ReleaseSays(t, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonInvalidAccess)

	credentials := func(password string) []byte {
		auth := base64.StdEncoding.EncodeToString([]byte("robot:" + password))
		return fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, hub.Host, auth)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.Namespace, Name: name},
		Type:       corev1.SecretTypeDockerConfigJson,
		Data:       map[string][]byte{corev1.DockerConfigJsonKey: credentials("incorrect-horse")},
	}
	authorities := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.Namespace, Name: name},
		Data:       map[string]string{"ca.crt": string(hub.CA)},
	}
	f.Make(t, secret)
	t.Cleanup(func() { _ = f.Client.Delete(t.Context(), secret) })
	eventually.Succeeds(t, soon, func() error {
		if summary := f.Release(t).Status.Summary; !strings.Contains(summary, "ConfigMap") {
			return fmt.Errorf("the Secret is there, and the summary says %q", summary)
		}
		return nil
	})
	f.Make(t, authorities)
	eventually.Succeeds(t, soon, func() error {
		if summary := f.Release(t).Status.Summary; !strings.Contains(summary, "unauthorized") && !strings.Contains(summary, "credentials") {
			return fmt.Errorf("the password is wrong, and the summary says %q", summary)
		}
		return nil
	})
	if text := asJSON(t, f.Release(t)); strings.Contains(text, "incorrect-horse") {
		t.Errorf("the password is in the release:\n%s", text)
	}
	fleet.Edit(t, f, client.ObjectKeyFromObject(secret), &corev1.Secret{}, func(s *corev1.Secret) {
		s.Data[corev1.DockerConfigJsonKey] = credentials("hunter2")
	})
	f.ConvergedWithin(t, f.V1, soon)
}

// Fails when a profile, a namespace's labels, or a release does not find who depends on it.
func TestC09ProfilesAndNamespacesFindTheirGateways(t *testing.T) {
	m := running(t)
	f := fleet.New(t, product, fleet.Options{Gateways: 2, Namespaces: 2})
	f.Converged(t, f.V1)
	m.Rest(t, soon)
	runs := f.Footprint(t)

	f.EditProfile(t, func(p *v1alpha1.GatewayProfile) {
		p.Spec.AllowedNamespaces = &v1alpha1.AllowedNamespaces{
			Names:    []string{f.Namespaces[0]},
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"gateways": "welcome"}},
		}
	})
	f.GatewaySays(t, 1, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonNamespaceNotAllowed)
	f.GatewaySays(t, 0, v1alpha1.ConditionReady, metav1.ConditionTrue, "")

	fleet.Edit(t, f, client.ObjectKey{Name: f.Namespaces[1]}, &corev1.Namespace{}, func(n *corev1.Namespace) { n.Labels["gateways"] = "welcome" })
	f.GatewaySays(t, 1, v1alpha1.ConditionReady, metav1.ConditionTrue, "")
	if now := f.Footprint(t); asJSON(t, now) != asJSON(t, runs) {
		t.Errorf("who may run is no reason to touch what runs: it was\n%s\nand is\n%s", asJSON(t, runs), asJSON(t, now))
	}

	// A release that does not exist, and then does.
	other := f.Name + "-other"
	f.EditGateway(t, 1, func(g *v1alpha1.GatewayInstance) { g.Spec.ReleaseRef.Name = other })
	f.GatewaySays(t, 1, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonReleaseNotFound)
	release := f.Release(t)
	made := &v1alpha1.GatewayRelease{ObjectMeta: metav1.ObjectMeta{Name: other}, Spec: release.Spec}
	f.Make(t, made)
	defer func() {
		if err := f.Client.Delete(t.Context(), made); err != nil {
			t.Error(err)
		}
	}()
	eventually.Succeeds(t, fleet.Patience, func() error {
		gateway := f.Gateway(t, 1)
		if gateway.Status.Revision.Release != other || !meta.IsStatusConditionTrue(gateway.Status.Conditions, v1alpha1.ConditionReady) {
			return fmt.Errorf("the gateway says %s", asJSON(t, gateway.Status))
		}
		return nil
	})
}

// The time that a gateway must have been Ready is counted from when it became Ready. Fails when a restart starts the
// count anew, or when a wait has no wake-up.
func TestC10MinReadySecondsGoOnThroughARestart(t *testing.T) {
	m := running(t)
	const needed = 8 * time.Second
	f := fleet.New(t, product, fleet.Options{Release: func(r *v1alpha1.GatewayRelease) {
		r.Spec.Rollout.MinReadySeconds = ptr.To(int32(needed / time.Second))
	}})
	release := func() string { return string(f.Release(t).Status.Rollout.State) }
	ready := f.GatewaySays(t, 0, v1alpha1.ConditionReady, metav1.ConditionTrue, "")
	since := meta.FindStatusCondition(ready.Status.Conditions, v1alpha1.ConditionReady).LastTransitionTime.Time
	m.Kill()
	eventually.Holds(t, needed/2, func() error { // nobody is there to write it
		if state := release(); state != string(v1alpha1.RolloutProgressing) {
			return errors.New("the rollout is " + state)
		}
		return nil
	})
	running(t)
	started := time.Now()
	eventually.Succeeds(t, fleet.Patience, func() error {
		if state := release(); state != string(v1alpha1.RolloutComplete) {
			return errors.New("the rollout is " + state)
		}
		return nil
	})
	ended := time.Now()
	if ended.Sub(since) < needed {
		t.Errorf("complete %s after it became Ready, want at least %s", ended.Sub(since), needed)
	}
	if ended.Sub(started) >= needed {
		t.Errorf("complete %s after the restart: the time before it was lost", ended.Sub(started))
	}
}

// The deadline is counted from the admission that is in status.
func TestC10TheDeadlineGoesOnThroughARestart(t *testing.T) {
	m := running(t)
	const deadline = 10 * time.Second
	f := fleet.New(t, product, fleet.Options{Release: func(r *v1alpha1.GatewayRelease) {
		r.Spec.Rollout.ProgressDeadline = &metav1.Duration{Duration: deadline}
		r.Spec.Rollout.MaxFailures = ptr.To(intstr.FromInt32(0))
	}})
	f.Converged(t, f.V1)
	bad := f.Push(t, "bad")
	if err := product.BadPods(t.Context(), bad.String(), cluster.NeverReady); err != nil {
		t.Fatal(err)
	}
	f.SetImage(t, f.Image("bad"))
	admitted := inFlight(t, f, bad)
	m.Kill()
	eventually.Holds(t, deadline/2, func() error {
		if state := f.Release(t).Status.Rollout.State; state != v1alpha1.RolloutProgressing {
			return fmt.Errorf("the rollout is %s", state)
		}
		return nil
	})
	running(t)
	started := time.Now()
	f.ReleaseSays(t, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonRolloutFailed)
	ended := time.Now()
	if ended.Sub(admitted) < deadline {
		t.Errorf("failed %s after its admission, want at least %s", ended.Sub(admitted), deadline)
	}
	if ended.Sub(started) >= deadline {
		t.Errorf("failed %s after the restart: the time before it was lost", ended.Sub(started))
	}
}

// Fails without a resync: a status that somebody else has written wakes nobody.
func TestC11WhatNoEventReportsIsRepairedByTheResync(t *testing.T) {
	m := instead(t, "--resync=3s")
	f := fleet.New(t, product, fleet.Options{})
	f.Converged(t, f.V1)
	release, gateway := f.Release(t), f.Gateway(t, 0)
	want := asJSON(t, gateway.Status)

	changedGateway := gateway.DeepCopy()
	changedGateway.Status.Phase = v1alpha1.GatewayFailed
	changedGateway.Status.Selector = "tampered=true"
	changedRelease := release.DeepCopy()
	changedRelease.Status.Summary = "tampered"
	for object, from := range map[client.Object]client.Object{changedGateway: gateway, changedRelease: release} {
		if err := f.Client.Status().Patch(t.Context(), object, client.MergeFrom(from)); err != nil {
			t.Fatal(err)
		}
	}
	eventually.Succeeds(t, soon, func() error {
		if now := asJSON(t, f.Gateway(t, 0).Status); now != want {
			return fmt.Errorf("the gateway's status is\n%s\nand was\n%s", now, want)
		}
		if summary := f.Release(t).Status.Summary; summary != "Available" {
			return fmt.Errorf("the release says %q", summary)
		}
		return nil
	})
	// And rests: a round of passes over what is right again sends nothing.
	at := mark(t)
	m.PassedAgain(t, m.Passes(t), 2, 2, soon)
	silent(t, at)
}
