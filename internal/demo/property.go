package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

const (
	// demoLabel is on everything that the demo creates, for a person to find what a demo that was killed has left.
	demoLabel    = "gatehouse.dev/demo"
	removeWithin = 3 * time.Minute
)

// property is what the demo has created in a cluster. It never takes over an object that exists, and removes only what
// it has created itself.
type property struct {
	client  client.Client
	created []owned
}

type owned struct {
	object client.Object // kind, namespace and name
	uid    types.UID
}

// create creates an object that must be new, labelled as the demo's.
func (p *property) create(ctx context.Context, object client.Object) error {
	return p.createAs(ctx, p.client, object)
}

// createAs is create with the client of another user.
func (p *property) createAs(ctx context.Context, c client.Client, object client.Object) error {
	labels := map[string]string{demoLabel: "true"}
	for key, value := range object.GetLabels() {
		labels[key] = value
	}
	object.SetLabels(labels)
	gvk, err := apiutil.GVKForObject(object, p.client.Scheme())
	if err != nil {
		return err
	}
	what := strings.TrimSuffix(gvk.Kind+" "+object.GetNamespace()+"/"+object.GetName(), "/")
	// A kind that has just been defined may not be discovered yet.
	err = wait.PollUntilContextTimeout(ctx, probeEvery, servedWithin, true, func(ctx context.Context) (bool, error) {
		err := c.Create(ctx, object)
		if meta.IsNoMatchError(err) {
			return false, nil
		}
		return err == nil, err
	})
	switch {
	case apierrors.IsAlreadyExists(err):
		return fmt.Errorf("%s exists already, and the demo takes nothing over: Gatehouse is installed there, or a demo was killed there; what such a demo left is labelled %s=true", what, demoLabel)
	case err != nil:
		return fmt.Errorf("create %s: %w", what, err)
	}
	reference := &metav1.PartialObjectMetadata{}
	reference.SetGroupVersionKind(gvk)
	reference.SetNamespace(object.GetNamespace())
	reference.SetName(object.GetName())
	p.created = append(p.created, owned{object: reference, uid: object.GetUID()})
	return nil
}

// remove deletes what has been created since the mark, newest first, and waits until it is gone.
func (p *property) remove(ctx context.Context, since int) error {
	ctx, cancel := context.WithTimeout(ctx, removeWithin)
	defer cancel()
	mine := slices.Clone(p.created[since:])
	slices.Reverse(mine)
	p.created = p.created[:since]
	var errs []error
	for _, o := range mine {
		if err := p.delete(ctx, o); err != nil {
			errs = append(errs, fmt.Errorf("remove %s: %w", o, err))
		}
	}
	for _, o := range mine {
		if err := p.awaitGone(ctx, o); err != nil {
			errs = append(errs, fmt.Errorf("awaited that %s is gone: %w", o, err))
			break
		}
	}
	return errors.Join(errs...)
}

// delete asks for the removal of one object. The policies that were created here may protect it, and the API server goes
// on enforcing them for a moment after they are gone.
func (p *property) delete(ctx context.Context, o owned) error {
	var refused error
	err := wait.PollUntilContextTimeout(ctx, probeEvery, servedWithin, true, func(ctx context.Context) (bool, error) {
		err := p.client.Delete(ctx, o.object, client.Preconditions{UID: &o.uid}, client.PropagationPolicy("Background"))
		switch {
		// A conflict is another object of the same name: not the demo's any more.
		case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err), meta.IsNoMatchError(err):
			return true, nil
		case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
			refused = err
			return false, nil
		default:
			return false, err
		}
	})
	if refused != nil && wait.Interrupted(err) {
		return refused
	}
	return err
}

func (p *property) awaitGone(ctx context.Context, o owned) error {
	return wait.PollUntilContextCancel(ctx, probeEvery, true, func(ctx context.Context) (bool, error) {
		now := o.object.DeepCopyObject().(client.Object)
		switch err := p.client.Get(ctx, client.ObjectKeyFromObject(o.object), now); {
		case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
			return true, nil
		case err != nil:
			return false, err
		default:
			return now.GetUID() != o.uid, nil
		}
	})
}

func (o owned) String() string {
	return strings.Trim(o.object.GetObjectKind().GroupVersionKind().Kind+" "+o.object.GetNamespace()+"/"+o.object.GetName(), "/")
}
