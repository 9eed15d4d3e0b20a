package truth

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
	"github.com/gatehouse-dev/gatehouse/test/replicas"
	"github.com/gatehouse-dev/gatehouse/test/signatures/cosign"
)

// patience is for what has to come true and has no time of its own, on a slow machine.
const patience = 90 * time.Second

// keySecret holds the key that some of the Executors trust.
var keySecret = client.ObjectKey{Namespace: fleet.Namespace, Name: "truth-key"}

const keyFile = "cosign.pub"

// world is the replicas and what they serve.
type world struct {
	size
	replicas *replicas.Replicas
	watcher  *watcher
	subjects []*subject
	tenant   string
}

// subject is an Executor of either kind, and what has to be said of it.
type subject struct {
	types.NamespacedName
	identity   v1alpha1.ExecutorIdentity
	generation int64
	good       bool  // the generation can be built
	lastGood   int64 // the last one that could; 0 if none
	turns      int
	bySecret   bool // its key is in the Secret
}

// object is an empty one of the subject's kind and name.
func (s *subject) object() client.Object {
	at := metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name}
	if s.Namespace == "" {
		return &v1alpha1.Executor{ObjectMeta: at}
	}
	return &v1alpha1.NamespacedExecutor{ObjectMeta: at}
}

var goodKey = func() string {
	key, err := cosign.NewKey(cosign.ECDSAP256)
	if err != nil {
		panic(err)
	}
	return string(key.PublicPEM())
}()

// spec is that of a subject's next generation.
func (s *subject) spec(good bool) v1alpha1.VerificationSpec {
	s.turns++
	source := v1alpha1.PEMSource{Material: v1alpha1.Material{SecretRef: &v1alpha1.KeyReference{Name: keySecret.Name, Key: keyFile}}}
	if !s.bySecret || !good {
		source = v1alpha1.PEMSource{Material: v1alpha1.Material{Inline: goodKey}}
	}
	if !good {
		source.Inline, _, _ = strings.Cut(goodKey, "\n") // the first line of it, as it is pasted
	}
	name, _, _ := strings.Cut(s.Name, "-")
	return v1alpha1.VerificationSpec{
		Scopes: []v1alpha1.Scope{v1alpha1.Scope(fmt.Sprintf("truth.test/%s/turn-%d/*", name, s.turns))},
		Verifiers: []v1alpha1.Verifier{{Name: "builders", Cosign: &v1alpha1.CosignVerifier{
			TransparencyLog: v1alpha1.Ignored,
			Keys:            []v1alpha1.CosignKey{{Name: "k1", PEMSource: source}},
		}}},
	}
}

// create makes a subject.
func (w *world) create(t *testing.T, s *subject, good bool) {
	t.Helper()
	object := s.object()
	switch o := object.(type) {
	case *v1alpha1.Executor:
		o.Spec.VerificationSpec = s.spec(good)
	case *v1alpha1.NamespacedExecutor:
		o.Spec.VerificationSpec = s.spec(good)
	}
	if err := product.Client.Create(t.Context(), object); err != nil {
		t.Fatalf("create %s: %v", short(s.NamespacedName), err)
	}
	now, _ := executorOf(object)
	s.identity, s.lastGood = now.identity, 0
	s.is(now.generation, good)
}

func (s *subject) is(generation int64, good bool) {
	s.generation, s.good = generation, good
	if good {
		s.lastGood = generation
	}
}

// edit changes the spec, in one request.
func (w *world) edit(t *testing.T, s *subject, good bool) {
	t.Helper()
	spec := s.spec(good)
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"scopes": spec.Scopes, "verifiers": spec.Verifiers}})
	if err != nil {
		t.Fatal(err)
	}
	object := s.object()
	if err := product.Client.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, patch)); err != nil {
		t.Fatalf("edit %s: %v", short(s.NamespacedName), err)
	}
	s.is(object.GetGeneration(), good)
}

// remove deletes a subject, and waits for nothing.
func (w *world) remove(t *testing.T, s *subject) {
	t.Helper()
	if err := product.Client.Delete(t.Context(), s.object()); err != nil {
		t.Fatalf("delete %s: %v", short(s.NamespacedName), err)
	}
}

// rotate replaces the key in the Secret.
func (w *world) rotate(t *testing.T) {
	t.Helper()
	key, err := cosign.NewKey(cosign.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: keySecret.Namespace, Name: keySecret.Name}, Data: map[string][]byte{keyFile: key.PublicPEM()}}
	if err := product.Client.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
}

// right waits until every status is what it has to be by what the replicas that serve now report.
func (w *world) right(t *testing.T) {
	t.Helper()
	eventually.Succeeds(t, patience, w.wrong)
}

// wrong says of which subjects something else is said than has to be.
func (w *world) wrong() error {
	w.watcher.mu.Lock()
	defer w.watcher.mu.Unlock()
	var errs []error
	for _, s := range w.subjects {
		if err := w.watcher.wrong(s); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", short(s.NamespacedName), err))
		}
	}
	if len(errs) > 3 {
		errs = append(errs[:3], fmt.Errorf("and %d more", len(errs)-3))
	}
	return errors.Join(errs...)
}

// wrong says what is not as it has to be of one. It knows what the status is made of, and not how.
func (w *watcher) wrong(s *subject) error {
	e, there := w.executors[s.NamespacedName]
	switch {
	case !there || e.identity != s.identity:
		return fmt.Errorf("what is there has the UID %q, not %s", e.identity.UID, s.identity.UID)
	case e.generation != s.generation || e.status.ObservedGeneration != s.generation:
		return fmt.Errorf("generation %d is observed of %d; the last edit made %d", e.status.ObservedGeneration, e.generation, s.generation)
	}
	counts, trusted := v1alpha1.ReplicaCounts{}, ""
	for name, pod := range w.pods {
		if !serving(pod) {
			counts.NotServing++
			continue
		}
		counts.Expected++
		report := w.reportOf(pod, s.identity)
		if report == nil {
			return fmt.Errorf("%s serves and has not reported", name)
		}
		counts.Reported++
		r := report.Status
		if r.ObservedGeneration != s.generation || r.ServingGeneration != s.lastGood || r.Succeeded != s.good {
			return fmt.Errorf("%s reports of generation %d, which serves there: %v, and generation %d: %v; want %d", name, r.ObservedGeneration, r.Succeeded, r.ServingGeneration, r.Error, s.lastGood)
		}
		if s.good {
			counts.Ready++
		} else {
			counts.Failed++
		}
		if trusted == "" {
			trusted = r.Inputs
		}
		at := slices.IndexFunc(e.status.ByPod, func(p v1alpha1.ReplicaStatus) bool { return p.ID == name })
		if at < 0 {
			return fmt.Errorf("nothing is said of %s", name)
		}
		p := e.status.ByPod[at]
		if p.PodUID != pod.UID || p.ObservedGeneration != r.ObservedGeneration || p.ServingGeneration != r.ServingGeneration || p.Inputs != r.Inputs || p.Inputs != trusted || p.Succeeded != s.good {
			return fmt.Errorf("%+v is said of %s (UID %s), which reports %+v", p, name, pod.UID, r)
		}
	}
	counts.Summary = fmt.Sprintf("%d/%d", counts.Ready, counts.Expected)
	if counts != e.status.Replicas || len(e.status.ByPod) != int(counts.Expected) || e.status.Succeeded != s.good || e.ready() != s.good {
		return fmt.Errorf("%+v is said, succeeded: %v, Ready: %v, with %d entries; there are %+v", e.status.Replicas, e.status.Succeeded, e.ready(), len(e.status.ByPod), counts)
	}
	return nil
}
