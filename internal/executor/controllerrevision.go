package executor

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// The last spec of an Executor that built whole is stored, so that a replica which starts while a broken one stands
// serves what the others serve. Only the leader writes; every write says by itself what it is about (a name that no two
// specs share, a UID to delete), so one that has lost the lease without knowing undoes nothing. What is deleted can be
// needed by nobody again, however long ago that was decided: an older spec of the same Executor, or one of an Executor that
// is gone.

// good is a spec that built whole.
type good struct {
	generation int64
	spec       v1alpha1.ExecutorSpec
}

// history reads and writes stored specs.
type history struct {
	client    client.Client
	live      client.Reader
	namespace string // Gatehouse's own
}

func (h *history) list(ctx context.Context, name types.NamespacedName) ([]appsv1.ControllerRevision, error) {
	stored := &appsv1.ControllerRevisionList{}
	if err := h.client.List(ctx, stored, client.InNamespace(h.namespace), client.MatchingFields{indexRevisions: name.String()}); err != nil {
		return nil, fmt.Errorf("list the stored specs of %s: %w", Describe(name), err)
	}
	return stored.Items, nil
}

// keep stores the present spec, and then deletes what it takes the place of.
func (h *history) keep(ctx context.Context, e *executor) error {
	stored, err := h.list(ctx, e.name())
	if err != nil {
		return err
	}
	wanted := h.revision(e)
	there := false
	var old, others []appsv1.ControllerRevision
	for i := range stored {
		switch {
		case stored[i].Name == wanted.Name:
			there = true
		case stored[i].Labels[v1alpha1.LabelExecutorUID] != string(e.UID):
			others = append(others, stored[i])
		case stored[i].Revision < e.Generation:
			old = append(old, stored[i])
		}
	}
	if !there {
		if err := h.client.Create(ctx, wanted, client.FieldOwner(v1alpha1.FieldOwnerExecutor)); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("store the spec of %s: %w", Describe(e.name()), err)
		}
	}
	if err := h.delete(ctx, old); err != nil {
		return err
	}
	return h.deleteOrphans(ctx, others)
}

// forget deletes what is stored of an Executor that is gone, but not what another leader may have stored of one that was
// created anew since.
func (h *history) forget(ctx context.Context, name types.NamespacedName) error {
	stored, err := h.list(ctx, name)
	if err != nil {
		return err
	}
	return h.deleteOrphans(ctx, stored)
}

// deleteOrphans deletes stored specs whose Executor is gone, or has been created anew since. It asks the API server itself:
// what a cache does not have yet is not gone, and what it still has may be.
func (h *history) deleteOrphans(ctx context.Context, stored []appsv1.ControllerRevision) error {
	var gone []appsv1.ControllerRevision
	for _, s := range stored {
		namespace, name, _ := strings.Cut(s.Annotations[v1alpha1.AnnotationExecutor], "/")
		owner, err := get(ctx, h.live, types.NamespacedName{Namespace: namespace, Name: name})
		if err != nil {
			return fmt.Errorf("see whether the owner of ControllerRevision %s/%s is gone: %w", s.Namespace, s.Name, err)
		}
		if owner == nil || string(owner.UID) != s.Labels[v1alpha1.LabelExecutorUID] {
			gone = append(gone, s)
		}
	}
	return h.delete(ctx, gone)
}

func (h *history) delete(ctx context.Context, stored []appsv1.ControllerRevision) error {
	for i := range stored {
		err := h.client.Delete(ctx, &stored[i], client.Preconditions{UID: &stored[i].UID})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete ControllerRevision %s/%s: %w", stored[i].Namespace, stored[i].Name, err)
		}
	}
	return nil
}

// revision is the stored form of the present spec. That of a NamespacedExecutor has no owner, which would have to be in
// its namespace: it is deleted by hand.
func (h *history) revision(e *executor) *appsv1.ControllerRevision {
	data, err := json.Marshal(e.Spec)
	if err != nil {
		panic("a spec that was decoded from JSON is not encoded to it: " + err.Error())
	}
	sum := sha256.Sum256([]byte(string(e.UID)))
	stored := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name:      fmt.Sprintf("executor-%s-%d", strings.ToLower(base32.StdEncoding.EncodeToString(sum[:10])), e.Generation),
			Namespace: h.namespace,
			Labels: map[string]string{
				v1alpha1.LabelManagedBy:   v1alpha1.ManagedBy,
				v1alpha1.LabelExecutorUID: string(e.UID),
			},
			Annotations: map[string]string{v1alpha1.AnnotationExecutor: e.name().String()},
		},
		Data:     runtime.RawExtension{Raw: data},
		Revision: e.Generation,
	}
	if e.Namespace == "" {
		yes := true
		stored.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "Executor", Name: e.Name, UID: e.UID, Controller: &yes,
		}}
	}
	return stored
}
