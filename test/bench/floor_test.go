package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/gateway/manifest"
	"github.com/gatehouse-dev/gatehouse/internal/revision"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
)

// floorAgent is the user agent of a bare client.
const floorAgent = "gatehouse-bench-floor"

// bare is a client that does nothing but send: the manager's identity, one connection, bodies made beforehand, answers
// not decoded.
type bare struct{ rest rest.Interface }

func newBare(tb testing.TB, kubeconfig string) bare {
	tb.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		tb.Fatal(err)
	}
	config.QPS = -1
	config.UserAgent = floorAgent
	config.NegotiatedSerializer = clientgoscheme.Codecs.WithoutConversion()
	made, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		tb.Fatal(err)
	}
	return bare{made}
}

// write is one request, ready to be sent.
type write struct {
	verb, path, owner string
	kind              types.PatchType
	body              []byte
}

func (b bare) send(ctx context.Context, w write) error {
	request := b.rest.Verb(w.verb)
	if w.verb == "PATCH" {
		request = b.rest.Patch(w.kind).Param("fieldManager", w.owner)
		if w.kind == types.ApplyPatchType {
			request = request.Param("force", "true")
		}
	}
	answer, err := request.AbsPath(w.path).Body(w.body).DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("%s %s: %w: %.300s", w.verb, w.path, err, answer)
	}
	return nil
}

// floor sends what a rollout has sent, back to the revision before: for each gateway one write to record, one to apply,
// one to say that it has arrived, in this order; beside them each status that the release had on the way, and the
// Events, which are no more waited for than the manager waits for them. Deployments are played as they were. Nothing is
// decided, compared, cached or waited for. No manager may run.
func (s *station) floor(tb testing.TB, steps []v1alpha1.RolloutStatus, events int) time.Duration {
	tb.Helper()
	release := s.Release(tb)
	former := s.former(tb, release)
	gateways := s.All(tb)
	moves := make([][3]write, 0, len(gateways))
	for i := range gateways {
		moves = append(moves, movesOf(tb, &gateways[i], former, release.Status.Rollout.Attempt+1))
	}
	statuses, notes := make([]write, 0, len(steps)), make([]write, 0, events)
	for _, step := range steps {
		statuses = append(statuses, write{
			"PATCH", "/apis/gatehouse.dev/v1alpha1/gatewayreleases/" + s.Name + "/status", v1alpha1.FieldOwnerRelease,
			types.MergePatchType, asJSON(tb, map[string]any{"status": map[string]any{"rollout": step}}),
		})
	}
	for n := range events {
		notes = append(notes, eventOn(tb, &gateways[n%len(gateways)], n))
	}

	b := newBare(tb, s.Kubeconfig)
	written := s.deployments.written.Load()
	started := time.Now()
	said, noted := b.sendAll(tb, statuses), b.sendAll(tb, notes)
	each(tb, moves, func(ctx context.Context, move [3]write) error {
		for _, w := range move {
			if err := b.send(ctx, w); err != nil {
				return err
			}
		}
		return nil
	})
	if err := <-said; err != nil {
		tb.Fatal(err)
	}
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for s.deployments.written.Load() < written+int64(len(moves)) {
		if time.Since(started) > patience {
			tb.Fatalf("the Deployments were played %d times for %d gateways", s.deployments.written.Load()-written, len(moves))
		}
		<-ticker.C
	}
	took := time.Since(started)
	if err := <-noted; err != nil {
		tb.Fatal(err)
	}
	return took
}

// sendAll sends one after the other, beside whatever else is sent, and says how that ended.
func (b bare) sendAll(tb testing.TB, writes []write) <-chan error {
	ended := make(chan error, 1)
	go func() {
		for _, w := range writes {
			if err := b.send(tb.Context(), w); err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	return ended
}

// former is a revision of the release other than the present one.
func (s *station) former(tb testing.TB, release *v1alpha1.GatewayRelease) revision.Revision {
	tb.Helper()
	var stored appsv1.ControllerRevisionList
	if err := s.Client.List(tb.Context(), &stored, client.InNamespace(fleet.Namespace), client.MatchingLabels{v1alpha1.LabelRelease: s.Name}); err != nil {
		tb.Fatal(err)
	}
	for i := range stored.Items {
		if stored.Items[i].Name == release.Status.Revision {
			continue
		}
		found, err := revision.FromControllerRevision(&stored.Items[i])
		if err != nil {
			tb.Fatal(err)
		}
		return found
	}
	tb.Fatal("no revision to go back to")
	return revision.Revision{}
}

// movesOf are the three writes by which a gateway moves, as the manager sends them.
func movesOf(tb testing.TB, gateway *v1alpha1.GatewayInstance, to revision.Revision, attempt int64) [3]write {
	tb.Helper()
	now := gateway.Status.DeepCopy()
	given := v1alpha1.RecordedRevision{Release: now.Revision.Release, Attempt: attempt, Name: to.Name(), Image: to.Image.String()}
	waiting := []metav1.Condition{}
	for _, condition := range now.Conditions {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, v1alpha1.ReasonProgressing, "moving to "+to.Name()
		waiting = append(waiting, condition)
		condition.Type, condition.Status = v1alpha1.ConditionReconciling, metav1.ConditionTrue
		waiting = append(waiting, condition)
	}
	rendered, err := manifest.Render(gateway, to, given)
	if err != nil {
		tb.Fatal(err)
	}
	var deployment []byte
	for _, object := range rendered {
		if object.Kind == manifest.DeploymentKind {
			deployment = asJSON(tb, object.Configuration())
		}
	}
	status := fmt.Sprintf("/apis/gatehouse.dev/v1alpha1/namespaces/%s/gatewayinstances/%s/status", gateway.Namespace, gateway.Name)
	return [3]write{
		{"PATCH", status, v1alpha1.FieldOwnerGateway, types.MergePatchType, asJSON(tb, map[string]any{"status": map[string]any{
			"revision": given, "conditions": waiting, "phase": v1alpha1.GatewayProvisioning, "replicas": v1alpha1.GatewayReplicas{Desired: 1, Summary: "0/1"},
		}})},
		{
			"PATCH", fmt.Sprintf("/apis/apps/v1/namespaces/%s/deployments/%s", gateway.Namespace, gateway.Name),
			v1alpha1.FieldOwnerGateway, types.ApplyPatchType, deployment,
		},
		{"PATCH", status, v1alpha1.FieldOwnerGateway, types.MergePatchType, asJSON(tb, map[string]any{"status": map[string]any{
			"applied": now.Applied, "conditions": now.Conditions, "phase": now.Phase, "replicas": now.Replicas, "image": given.Image, "shortImage": now.ShortImage,
		}})},
	}
}

func eventOn(tb testing.TB, gateway *v1alpha1.GatewayInstance, n int) write {
	tb.Helper()
	return write{verb: "POST", path: "/api/v1/namespaces/" + gateway.Namespace + "/events", body: asJSON(tb, map[string]any{
		"apiVersion": "v1", "kind": "Event",
		"metadata":       map[string]any{"name": fmt.Sprintf("%s.floor-%d", gateway.Name, n), "namespace": gateway.Namespace},
		"firstTimestamp": metav1.Now(), "lastTimestamp": metav1.Now(), "count": 1, "type": "Normal", "reason": v1alpha1.ReasonReplicasAvailable,
		"message": "1 of 1 replicas run " + gateway.Status.Revision.Name, "source": map[string]any{"component": "gatehouse-bench", "host": "gatehouse-bench-0"}, "reportingComponent": "gatehouse-bench", "reportingInstance": "gatehouse-bench-0",
		"involvedObject": map[string]any{"apiVersion": v1alpha1.GroupVersion.String(), "kind": "GatewayInstance", "namespace": gateway.Namespace, "name": gateway.Name, "uid": gateway.UID},
	})}
}

func asJSON(tb testing.TB, v any) []byte {
	tb.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return text
}
