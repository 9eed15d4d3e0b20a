package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
	"github.com/gatehouse-dev/gatehouse/test/manager"
	"github.com/gatehouse-dev/gatehouse/test/registry"
)

// Fails when a pass depends on what the process remembers: the window would be lost, or a gateway rolled again.
func TestC01KilledInTheMiddleOfARolloutItIsContinuedFromWhatIsStored(t *testing.T) {
	m := running(t)
	f := fleet.New(t, product, fleet.Options{Gateways: 3, Release: func(r *v1alpha1.GatewayRelease) {
		r.Spec.Rollout.MaxUnavailable = ptr.To(intstr.FromInt32(1))
		r.Spec.Rollout.MinReadySeconds = ptr.To[int32](2)
	}})
	f.Converged(t, f.V1)
	before := map[client.ObjectKey]int64{}
	for n, key := range f.Gateways {
		before[key] = f.Deployment(t, n).Generation
	}

	v2 := f.Push(t, "v2")
	f.SetImage(t, f.Image("v2"))
	for moved := range f.Gateways {
		// However far it has come, it is killed as soon as one more gateway has recorded what it was given.
		eventually.Succeeds(t, fleet.Patience, func() error {
			recorded := 0
			for _, g := range f.All(t) {
				if g.Status.Revision != nil && g.Status.Revision.Image == f.Pinned(v2) {
					recorded++
				}
			}
			if recorded <= moved {
				return fmt.Errorf("%d gateways have recorded v2, want %d", recorded, moved+1)
			}
			return nil
		})
		m.Kill()
		m = running(t)
	}
	f.Converged(t, v2)
	for n, key := range f.Gateways {
		if rolled := f.Deployment(t, n).Generation - before[key]; rolled != 1 {
			t.Errorf("the Deployment of %s was changed %d times by one edit", key, rolled)
		}
	}
	if attempt := f.Release(t).Status.Rollout.Attempt; attempt != 2 {
		t.Errorf("attempt %d after the first install and one edit", attempt)
	}
}

// Fails when a second writer appears in a status: each field's writer is in its managedFields.
func TestC02EachStatusHasOneWriter(t *testing.T) {
	running(t)
	f := fleet.New(t, product, fleet.Options{Gateways: 2})
	f.Converged(t, f.V1)
	f.SetImage(t, f.Image("v2 is not a tag"))
	f.ReleaseSays(t, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonInvalidImage)

	writers := func(object client.Object, subresource string) []string {
		var names []string
		for _, entry := range object.GetManagedFields() {
			if entry.Subresource == subresource {
				names = append(names, entry.Manager)
			}
		}
		return names
	}
	if got := writers(f.Release(t), "status"); len(got) != 1 || got[0] != v1alpha1.FieldOwnerRelease {
		t.Errorf("the release's status is written by %q, want %s alone", got, v1alpha1.FieldOwnerRelease)
	}
	for _, gateway := range f.All(t) {
		if got := writers(&gateway, "status"); len(got) != 1 || got[0] != v1alpha1.FieldOwnerGateway {
			t.Errorf("the status of %s is written by %q, want %s alone", gateway.Name, got, v1alpha1.FieldOwnerGateway)
		}
	}
	if got := writers(f.Deployment(t, 0), ""); len(got) != 1 || got[0] != v1alpha1.FieldOwnerGateway {
		// The annotation deployment.kubernetes.io/revision is written under the subresource status.
		t.Errorf("the Deployment is written by %q, want %s alone", got, v1alpha1.FieldOwnerGateway)
	}
}

// The line that everything else leans on, counted by the API server itself over a fleet of forty. Fails for one request
// too many, a patch without effect and a dry run included.
func TestC03ConvergedMeansNoWrites(t *testing.T) {
	m := running(t)
	const gateways = 40
	f := fleet.New(t, product, fleet.Options{Gateways: gateways, Namespaces: 4})
	f.ConvergedWithin(t, f.V1, 2*fleet.Patience)
	passes := m.Rest(t, fleet.Patience)
	runs := f.Footprint(t)

	t.Run("passes that a person asks for", func(t *testing.T) {
		at := mark(t)
		said := asJSON(t, f.Release(t).Status)
		f.Request(t)
		m.PassedAgain(t, passes, 1, gateways, fleet.Patience)
		passes = m.Rest(t, fleet.Patience)
		silent(t, at)
		if t.Failed() {
			t.Logf("the release said\n%s\nand says\n%s", said, asJSON(t, f.Release(t).Status))
		}
	})
	t.Run("a release that is labelled and annotated", func(t *testing.T) {
		at := mark(t)
		f.EditRelease(t, func(r *v1alpha1.GatewayRelease) {
			r.Labels = map[string]string{"team": "edge"}
			r.Annotations["example.com/note"] = "for people"
		})
		m.PassedAgain(t, passes, 1, 0, soon)
		now := m.Rest(t, soon)
		if now.Gateway != passes.Gateway {
			t.Errorf("it woke %v gateways", now.Gateway-passes.Gateway)
		}
		passes = now
		silent(t, at)
	})
	t.Run("another tag of the same digest", func(t *testing.T) {
		f.Registry.MoveTag(t, fleet.Repository+"/"+f.Name, "v1-again", f.V1)
		at := mark(t)
		f.SetImage(t, f.Image("v1-again"))
		f.Converged(t, f.V1)
		passes = m.Rest(t, soon)
		for _, event := range sent(t, at) {
			// The release says that it has seen the edit; nobody else has anything to say.
			if event.Resource != "gatewayreleases" && event.Resource != "events" {
				t.Errorf("sent: %s", event)
			}
		}
	})
	t.Run("a restart", func(t *testing.T) {
		at := mark(t)
		m = restarted(t)
		m.PassedAgain(t, manager.Passes{}, 1, gateways, fleet.Patience)
		m.Rest(t, fleet.Patience)
		silent(t, at)
	})
	t.Run("a second replica, which then takes over", func(t *testing.T) {
		at := mark(t)
		second := manager.Start(t, product.Manager("gatehouse-1"))
		second.Ready(t)
		m.Stop(t)
		second.PassedAgain(t, manager.Passes{}, 1, gateways, fleet.Patience)
		second.Rest(t, fleet.Patience)
		silent(t, at)
		second.Stop(t) // or the next would have to wait for its lease
	})
	t.Run("resync", func(t *testing.T) {
		m := instead(t, "--resync=2s")
		at := mark(t)
		before := m.Passes(t)
		m.PassedAgain(t, before, 3, 3*gateways, fleet.Patience)
		silent(t, at)
	})
	t.Run("an upgrade that renders differently", func(t *testing.T) {
		options := product.Manager("gatehouse-0")
		options.Binary = rendersDifferently(t)
		at := mark(t)
		shared.Kill()
		m := manager.Start(t, options)
		m.PassedAgain(t, manager.Passes{}, 1, gateways, fleet.Patience)
		m.Rest(t, fleet.Patience)
		silent(t, at)

		// A gateway that is edited is another matter, and shows that this version is another one.
		f.EditGateway(t, 0, func(g *v1alpha1.GatewayInstance) { g.Spec.Config["gateway.toml"] = "listen = 9090\n" })
		eventually.Succeeds(t, soon, func() error {
			if limit := ptr.Deref(f.Deployment(t, 0).Spec.RevisionHistoryLimit, 0); limit != 3 {
				return fmt.Errorf("revisionHistoryLimit is %d, want that of the other version", limit)
			}
			return nil
		})
		if limit := ptr.Deref(f.Deployment(t, 1).Spec.RevisionHistoryLimit, 0); limit != 2 {
			t.Errorf("revisionHistoryLimit of a gateway that was not edited is %d", limit)
		}
	})
	after := f.Footprint(t)
	for name, was := range runs {
		if !strings.Contains(name, f.Gateways[0].Name+"-") && !strings.HasSuffix(name, "/"+f.Gateways[0].Name) && after[name] != was {
			t.Errorf("%s was %q and is %q", name, was, after[name])
		}
	}
}

// rendersDifferently builds the product with one line of its renderer changed.
func rendersDifferently(t *testing.T) string {
	t.Helper()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(root, "internal/gateway/manifest/deployment.go")
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), "revisionHistoryLimit = 2", "revisionHistoryLimit = 3", 1)
	if changed == string(text) {
		t.Fatalf("%s does not set revisionHistoryLimit to 2 any more: have this test change something else", source)
	}
	dir := t.TempDir()
	replacement, overlay := filepath.Join(dir, "deployment.go"), filepath.Join(dir, "overlay.json")
	description, err := json.Marshal(map[string]map[string]string{"Replace": {source: replacement}})
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "gatehouse")
	err = errors.Join(
		os.WriteFile(replacement, []byte(changed), 0o600),
		os.WriteFile(overlay, description, 0o600),
	)
	if err == nil {
		err = manager.Build(t.Context(), binary, "-overlay", overlay)
	}
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// Fails when anything in status depends on the process or on the moment of the pass: what is tampered with comes back
// byte for byte, by another process.
func TestC04StatusIsAFunctionOfWhatIsSeen(t *testing.T) {
	running(t)
	f := fleet.New(t, product, fleet.Options{Gateways: 3, Release: func(r *v1alpha1.GatewayRelease) {
		r.Spec.Rollout.ProgressDeadline = &metav1.Duration{Duration: 2 * time.Second}
	}})
	f.Converged(t, f.V1)
	bad := f.Push(t, "bad")
	if err := product.BadPods(t.Context(), bad.String(), cluster.CrashLoop); err != nil {
		t.Fatal(err)
	}
	f.SetImage(t, f.Image("bad"))
	f.ReleaseSays(t, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonRolloutFailed)
	running(t).Rest(t, fleet.Patience)

	type said struct {
		Release  v1alpha1.GatewayReleaseStatus
		Gateways []v1alpha1.GatewayInstanceStatus
	}
	says := func() said {
		now := said{Release: f.Release(t).Status}
		if now.Release.Rollout != nil {
			now.Release.Rollout.FleetVersion = "" // by definition that of the last look
		}
		for _, gateway := range f.All(t) {
			now.Gateways = append(now.Gateways, gateway.Status)
		}
		return now
	}
	before := asJSON(t, says())

	shared.Kill()
	release := f.Release(t)
	was := release.DeepCopy()
	release.Status.Summary = "tampered"
	release.Status.Rollout.Message = "tampered"
	release.Status.Rollout.Fleet = v1alpha1.FleetStatus{}
	for i := range release.Status.Conditions {
		release.Status.Conditions[i].Message = "tampered"
	}
	if err := f.Client.Status().Patch(t.Context(), release, client.MergeFrom(was)); err != nil {
		t.Fatal(err)
	}
	for _, gateway := range f.All(t) {
		was := gateway.DeepCopy()
		gateway.Status.Phase = v1alpha1.GatewayPending
		gateway.Status.Replicas = &v1alpha1.GatewayReplicas{}
		for i := range gateway.Status.Conditions {
			gateway.Status.Conditions[i].Message = "tampered"
		}
		if err := f.Client.Status().Patch(t.Context(), &gateway, client.MergeFrom(was)); err != nil {
			t.Fatal(err)
		}
	}
	running(t).Rest(t, fleet.Patience)
	eventually.Succeeds(t, soon, func() error {
		if now := asJSON(t, says()); now != before {
			return fmt.Errorf("status was\n%s\nand is\n%s", before, now)
		}
		return nil
	})
}

// Fails when a message is not cut, or cut within a character: what is wrong with this profile takes several times the
// room, in characters of two bytes.
func TestC04MessagesAreBounded(t *testing.T) {
	running(t)
	var unknown strings.Builder
	for n := range 8 {
		fmt.Fprintf(&unknown, `, "%s%d": true`, strings.Repeat("é", 150+n), n)
	}
	f := fleet.New(t, product, fleet.Options{Profile: `{"template": {"spec": {"containers": [{"name": "gateway"` + unknown.String() + `}]}}}`})
	release := f.ReleaseSays(t, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonInvalidProfile)
	texts := map[string]string{"summary": release.Status.Summary}
	for _, condition := range release.Status.Conditions {
		texts[condition.Type] = condition.Message
	}
	for field, text := range texts {
		if len(text) > 1024 || !utf8.ValidString(text) {
			t.Errorf("%s has %d bytes and is UTF-8: %t", field, len(text), utf8.ValidString(text))
		}
	}
	for _, field := range []string{"summary", v1alpha1.ConditionStalled} {
		if !strings.HasSuffix(texts[field], "…") {
			t.Errorf("%s does not show that it was cut, or this test shows nothing: %q", field, texts[field])
		}
	}
}

// Fails when what a peer says reaches a status: it may change with every answer, and may be meant to deceive.
func TestC04APeersOwnTextGoesToTheLogAlone(t *testing.T) {
	m := running(t)
	hub := registry.Start(t)
	hub.Break(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodHead {
			registry.HideDigest()(w, r, next) // so that it is asked for the whole, and has something to say
			return
		}
		registry.AnswerText(500, "words-of-the-peer\ninjected=line")(w, r, next)
	})
	f := fleet.New(t, product, fleet.Options{Registry: hub})
	release := f.ReleaseSays(t, v1alpha1.ConditionResolved, metav1.ConditionFalse, v1alpha1.ReasonRegistryUnavailable)
	if text := asJSON(t, release); strings.Contains(text, "words-of-the-peer") {
		t.Errorf("the peer's words are in the release:\n%s", text)
	}
	if !strings.Contains(release.Status.Summary, hub.Host) {
		t.Errorf("summary %q does not say which registry", release.Status.Summary)
	}
	eventually.Succeeds(t, soon, func() error {
		for line := range strings.Lines(m.Log()) {
			if strings.Contains(line, "words-of-the-peer") {
				return nil
			}
			if strings.HasPrefix(line, "injected=line") {
				return fmt.Errorf("the peer has written a line of the log: %s", line)
			}
		}
		return errors.New("the peer's words are not in the log")
	})
}

// Fails when a Deployment is touched by a pass that has no business with it.
func TestC03AnEditOfOneGatewayWritesThatGatewayAlone(t *testing.T) {
	m := running(t)
	f := fleet.New(t, product, fleet.Options{Gateways: 3})
	f.Converged(t, f.V1)
	m.Rest(t, soon)
	at := mark(t)
	f.EditGateway(t, 1, func(g *v1alpha1.GatewayInstance) { g.Spec.Replicas = ptr.To[int32](2) })
	eventually.Succeeds(t, soon, func() error {
		var deployment appsv1.Deployment
		f.Get(t, f.Gateways[1], &deployment)
		if deployment.Status.AvailableReplicas != 2 {
			return fmt.Errorf("%d replicas", deployment.Status.AvailableReplicas)
		}
		return nil
	})
	f.Converged(t, f.V1)
	m.Rest(t, soon)
	for _, event := range sent(t, at) {
		if event.Resource != "gatewayreleases" && !strings.HasPrefix(event.Name, f.Gateways[1].Name) { // its events have longer names
			t.Errorf("sent: %s", event)
		}
	}
}
