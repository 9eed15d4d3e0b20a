package executor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// Lately is for how long what was confirmed may be taken for so without asking again.
const Lately = 30 * time.Second

// Witness tells whether what this replica judges by is what there is. A cache that is behind does not say so: it may lack
// an Executor, hold one that was edited since, or not have told that a key was taken away. So nothing new moves by a
// verdict before the API server itself has been asked for what the verdict rests on.
type Witness struct {
	live      *Live
	from      client.Reader
	namespace string // Gatehouse's own
	clock     clock.PassiveClock
	reader    *reader
	queues    queues // of the controllers that compile

	flights singleflight.Group
	mu      sync.Mutex
	seen    map[string]time.Time // what was confirmed, and when it was asked for
}

// NewWitness makes the witness of a live set. It asks from, which must be the API server itself, and for all namespaces
// together not for more than so many Secrets and ConfigMaps per second.
func NewWitness(live *Live, from client.Reader, namespace string, reads float64, clock clock.PassiveClock) *Witness {
	return &Witness{
		live: live, from: from, namespace: namespace, clock: clock,
		reader: &reader{live: from, clock: clock, shares: newShares(reads)},
		seen:   map[string]time.Time{},
	}
}

// Confirm says why a verdict by these matches may not be acted on; nothing if it may: the Executors are those that the API
// server has, in the generation that was attempted, their builds were made of the Secrets and ConfigMaps as they are there,
// and they judge the images still. What was confirmed within a time is believed; without one, all is asked for. Where a
// build is out of date it is made anew. An error says that the API server did not answer.
func (w *Witness) Confirm(ctx context.Context, within time.Duration, by ...Match) (string, error) {
	namespaces, members := map[string]struct{}{}, map[*Served]struct{}{}
	for _, m := range by {
		namespaces[m.namespace] = struct{}{}
		if !m.own {
			namespaces[""] = struct{}{}
		}
		for _, s := range m.Enforced {
			members[s] = struct{}{}
		}
	}
	for namespace := range namespaces {
		why, err := w.lately(within, "of/"+namespace, func() (string, error) { return w.complete(ctx, namespace) })
		if why != "" || err != nil {
			return why, err
		}
	}
	for s := range members {
		if s.Compiled == nil {
			continue // it has vouched for nothing
		}
		key := fmt.Sprintf("%s@%s=%s", s.Name, s.UID, s.Compiled.key)
		why, err := w.lately(within, key, func() (string, error) { return w.current(ctx, s) })
		if why != "" || err != nil {
			return why, err
		}
	}
	for _, m := range by {
		if now := w.live.again(m); now.State != m.State || now.key != m.key {
			return "the Executors that judge " + m.ref.Repository() + " have changed meanwhile", nil
		}
	}
	return "", nil
}

// ConfirmRelease says why what a release demands of signatures may not be acted on; nothing if it may: the API server has
// it in this generation, or had within a time.
func (w *Witness) ConfirmRelease(ctx context.Context, within time.Duration, release *v1alpha1.GatewayRelease) (string, error) {
	key := fmt.Sprintf("release/%s@%d", release.UID, release.Generation)
	return w.lately(within, key, func() (string, error) {
		now := &metav1.PartialObjectMetadata{}
		now.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("GatewayRelease"))
		if err := w.from.Get(ctx, client.ObjectKeyFromObject(release), now); err != nil {
			return "", fmt.Errorf("read the release %s: %w", release.Name, err)
		}
		if now.UID != release.UID || now.Generation != release.Generation {
			return "release " + release.Name + " has been edited, and that is not seen yet", nil
		}
		return "", nil
	})
}

// again is a match as it is now.
func (l *Live) again(m Match) Match {
	if m.own {
		return l.MatchOwn(m.ref, m.namespace)
	}
	return l.Match(m.ref, m.namespace)
}

// lately looks unless that was done within a time, and found nothing wrong. Those who look at the same time look once,
// unless they ask for what is so now.
func (w *Witness) lately(within time.Duration, key string, look func() (string, error)) (string, error) {
	looked := func() (any, error) {
		asked := w.clock.Now()
		why, err := look()
		if why == "" && err == nil {
			w.saw(key, asked)
		}
		return why, err
	}
	w.mu.Lock()
	last, known := w.seen[key]
	w.mu.Unlock()
	var why any
	var err error
	switch {
	case within <= 0:
		why, err = looked()
	case known && w.clock.Since(last) < within:
		return "", nil
	default:
		why, err, _ = w.flights.Do(key, looked)
	}
	text, _ := why.(string)
	return text, err
}

func (w *Witness) saw(key string, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.seen, func(_ string, at time.Time) bool { return w.clock.Since(at) >= Lately })
	w.seen[key] = at
}

// complete says which Executor of a namespace, or of the cluster, is not served as it is.
func (w *Witness) complete(ctx context.Context, namespace string) (string, error) {
	kind := "ExecutorList"
	if namespace != "" {
		kind = "NamespacedExecutorList"
	}
	present := &metav1.PartialObjectMetadataList{}
	present.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	if err := w.from.List(ctx, present, client.InNamespace(namespace)); err != nil {
		return "", fmt.Errorf("list the Executors: %w", err)
	}
	there := map[types.NamespacedName]bool{}
	for i := range present.Items {
		e := &present.Items[i]
		if !e.DeletionTimestamp.IsZero() {
			continue
		}
		name := client.ObjectKeyFromObject(e)
		there[name] = true
		if s := w.live.Served(name); s == nil || s.UID != e.UID || s.Attempted < e.Generation {
			return Describe(name) + " is not compiled yet", nil
		}
	}
	for _, name := range slices.SortedFunc(slices.Values(w.live.Names()), compareNames) {
		if name.Namespace == namespace && !there[name] {
			return Describe(name) + " is gone, and not taken out of service yet", nil
		}
	}
	return "", nil
}

// current says what a build was made of that is otherwise by now, and has the Executor compiled anew then. What cannot be
// read is as it was, for as long as the build may serve.
func (w *Witness) current(ctx context.Context, s *Served) (string, error) {
	refs := References(s.Compiled.spec)
	reads := len(refs)
	if s.instead != nil {
		reads += 1 + len(References(s.instead))
	}
	if !w.reader.shares.has(s.Name.Namespace, reads) {
		return "more than its share is read for namespace " + s.Name.Namespace + " at present", nil
	}
	if s.instead != nil {
		stored, err := w.reader.lastGood(ctx, s.Name.Namespace, w.namespace, s.UID, s.Attempted)
		if err != nil {
			return "", err
		}
		if stored != nil && stored.generation > s.Generation {
			w.queues.add(s.Name)
			return fmt.Sprintf("%s: generation %d, which was good last, is not compiled yet", s, stored.generation), nil
		}
	}
	namespace := s.Name.Namespace
	if namespace == "" {
		namespace = w.namespace
	}
	if s.instead != nil && w.differs(ctx, s, namespace) {
		w.queues.add(s.Name)
		return fmt.Sprintf("%s: what generation %d names has changed since it did not compile", s, s.Attempted), nil
	}
	found := w.reader.read(ctx, s.Name.Namespace, namespace, s.Compiled.spec, nil)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	for _, ref := range refs {
		now := found[ref]
		before, existed := s.Compiled.material[ref]
		why := ""
		switch {
		case !now.failing.IsZero() && s.Expires.IsZero():
			why = now.failure
		case now.failing.IsZero() && (now.exists != existed || !equality.Semantic.DeepEqual(now.object, before)):
			why = fmt.Sprintf("%s %s/%s has changed since it was compiled", ref.Kind, namespace, ref.Name)
		default:
			continue
		}
		w.queues.add(s.Name)
		return s.String() + ": " + why, nil
	}
	return "", nil
}

// differs says whether what the present spec names, in place of which another one's build serves, is otherwise than when it
// did not compile: it may compile by now.
func (w *Witness) differs(ctx context.Context, s *Served, namespace string) bool {
	material := Material{}
	for ref, now := range w.reader.read(ctx, s.Name.Namespace, namespace, s.instead, nil) {
		if !now.failing.IsZero() {
			return false // it cannot be read, and is as it was
		}
		if now.exists {
			material[ref] = now.object
		}
	}
	return fingerprint(s.instead, material) != s.insteadKey
}
