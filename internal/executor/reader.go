package executor

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

const (
	// readDeadline bounds the reading of one Secret or ConfigMap.
	readDeadline = 10 * time.Second
	// readsAtOnce bounds how many one Executor reads at a time.
	readsAtOnce = 8
)

// known is what was last read under a reference.
type known struct {
	object Object
	exists bool
	// read says that there was an answer once: the object, or that there is none.
	read bool
	// failing is since when there has been no answer; zero if the last question was answered.
	failing time.Time
	// failure is why, in words that are the same for the same trouble.
	failure string
	// away says that the API server did not answer, rather than refuse.
	away bool
}

// reader reads Secrets and ConfigMaps from the API server itself: what a cache holds may be out of date without saying
// so, and a key that was taken away must not stay trusted for that.
type reader struct {
	live   client.Reader
	clock  clock.PassiveClock
	shares *shares
}

// read asks for everything that a spec names, once each; for the Executor of a tenant as the tenant's share allows. What
// cannot be read stays as it was remembered, since when is noted.
func (r *reader) read(ctx context.Context, tenant, namespace string, spec *v1alpha1.ExecutorSpec, remembered map[Ref]known) map[Ref]known {
	wanted := map[Ref][]string{}
	for _, key := range references(spec) {
		wanted[key.Ref] = append(wanted[key.Ref], key.key)
	}
	found := make(map[Ref]known, len(wanted))
	var mu sync.Mutex
	var readers sync.WaitGroup
	slots := make(chan struct{}, readsAtOnce)
	for ref, keys := range wanted {
		slots <- struct{}{}
		readers.Go(func() {
			defer func() { <-slots }()
			_ = r.shares.wait(ctx, tenant) // it fails when ctx has ended, and then what follows does
			answer := r.one(ctx, namespace, ref, keys, remembered[ref])
			mu.Lock()
			defer mu.Unlock()
			found[ref] = answer
		})
	}
	readers.Wait()
	return found
}

func (r *reader) one(ctx context.Context, namespace string, ref Ref, keys []string, before known) known {
	ctx, cancel := context.WithTimeout(ctx, readDeadline)
	defer cancel()
	object, err := r.get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, ref.Kind, keys)
	switch {
	case err == nil:
		return known{object: object, exists: true, read: true}
	case apierrors.IsNotFound(err):
		return known{read: true}
	case apierrors.IsForbidden(err):
		before.away, before.failure = false, fmt.Sprintf("%s %s/%s may not be read; let Gatehouse's ServiceAccount get it there, by a Role and a RoleBinding", ref.Kind, namespace, ref.Name)
	default:
		before.away, before.failure = true, fmt.Sprintf("%s %s/%s cannot be read from the API server", ref.Kind, namespace, ref.Name)
	}
	if before.failing.IsZero() {
		before.failing = r.clock.Now()
	}
	return before
}

// get keeps of an object only the keys that are named: the rest is none of our business.
func (r *reader) get(ctx context.Context, key client.ObjectKey, kind RefKind, keys []string) (Object, error) {
	if kind == ConfigMap {
		found := &corev1.ConfigMap{}
		if err := r.live.Get(ctx, key, found); err != nil {
			return Object{}, err
		}
		object := Object{Data: map[string][]byte{}}
		for _, k := range keys {
			if text, ok := found.Data[k]; ok {
				object.Data[k] = []byte(text)
			} else if binary, ok := found.BinaryData[k]; ok {
				object.Data[k] = binary
			}
		}
		return object, nil
	}
	found := &corev1.Secret{}
	if err := r.live.Get(ctx, key, found); err != nil {
		return Object{}, err
	}
	object := Object{Type: found.Type, Data: map[string][]byte{}}
	for _, k := range keys {
		if value, ok := found.Data[k]; ok {
			object.Data[k] = value
		}
	}
	return object, nil
}

// lastGood asks for the newest stored spec of an Executor, of a generation or before; nil if there is none. A cache may be
// behind, and what another replica has built since then is what serves everywhere.
func (r *reader) lastGood(ctx context.Context, tenant, own string, uid types.UID, until int64) (*good, error) {
	ctx, cancel := context.WithTimeout(ctx, readDeadline)
	defer cancel()
	_ = r.shares.wait(ctx, tenant) // as in read
	stored := &appsv1.ControllerRevisionList{}
	if err := r.live.List(ctx, stored, client.InNamespace(own), client.MatchingLabels{v1alpha1.LabelExecutorUID: string(uid)}); err != nil {
		return nil, fmt.Errorf("list the stored specs: %w", err)
	}
	var newest *appsv1.ControllerRevision
	for i := range stored.Items {
		if one := &stored.Items[i]; one.Revision <= until && (newest == nil || one.Revision > newest.Revision) {
			newest = one
		}
	}
	if newest == nil {
		return nil, nil
	}
	found := &good{generation: newest.Revision}
	if err := json.Unmarshal(newest.Data.Raw, &found.spec); err != nil {
		return nil, fmt.Errorf("ControllerRevision %s/%s: its data is no spec of an Executor: %w", newest.Namespace, newest.Name, err)
	}
	return found, nil
}
