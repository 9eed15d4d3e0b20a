package status

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Bounds of what is read.
const (
	pageSize   = 250    // objects in an answer
	maxObjects = 50_000 // of a kind
	maxRestart = 3      // of a list whose pages the server has forgotten meanwhile
)

// collection is what was read of one kind.
type collection struct {
	resource string // as people name it
	fresh    func() client.ObjectList
	options  []client.ListOption
	keep     func(client.Object) bool
	// timeout bounds each request; 0 leaves it to the caller's context.
	timeout time.Duration

	mu      sync.Mutex
	objects map[client.ObjectKey]client.Object
	trouble error // why objects are not there, or not current
}

// all are the objects that are there, and why they are not current if they are not.
func (c *collection) all() ([]client.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.objects)), c.trouble
}

// read lists everything anew, and returns the version that a watch goes on from.
func (c *collection) read(ctx context.Context, reader client.Reader) (version string, err error) {
	objects, version, err := c.list(ctx, reader)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trouble = err
	if err == nil {
		c.objects = objects
	}
	return version, err
}

// list reads page after page. A list whose pages the server no longer has is begun again.
func (c *collection) list(ctx context.Context, reader client.Reader) (map[client.ObjectKey]client.Object, string, error) {
	var err error
	for range maxRestart {
		var objects map[client.ObjectKey]client.Object
		var version string
		if objects, version, err = c.pages(ctx, reader); !apierrors.IsResourceExpired(err) {
			return objects, version, err
		}
	}
	return nil, "", err
}

func (c *collection) pages(ctx context.Context, reader client.Reader) (map[client.ObjectKey]client.Object, string, error) {
	objects := map[client.ObjectKey]client.Object{}
	for token := ""; ; {
		page := c.fresh()
		if err := c.page(ctx, reader, page, token); err != nil {
			return nil, "", err
		}
		err := meta.EachListItem(page, func(item runtime.Object) error {
			if o, ok := item.(client.Object); ok && c.keep(o) {
				objects[client.ObjectKeyFromObject(o)] = slim(o)
			}
			return nil
		})
		if err != nil {
			return nil, "", err
		}
		if len(objects) > maxObjects {
			return nil, "", fmt.Errorf("there are more than %d; ask for a namespace, or for names", maxObjects)
		}
		if token = page.GetContinue(); token == "" {
			return objects, page.GetResourceVersion(), nil
		}
	}
}

func (c *collection) page(ctx context.Context, reader client.Reader, into client.ObjectList, token string) error {
	if c.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("no answer within %s (--request-timeout)", c.timeout))
		defer cancel()
	}
	err := reader.List(ctx, into, append(slices.Clone(c.options), client.Limit(pageSize), client.Continue(token))...)
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// slim drops what is not told.
func slim(o client.Object) client.Object {
	o.SetManagedFields(nil)
	o.SetAnnotations(nil)
	return o
}

// explain says what a failed read means for whoever asked.
func explain(resource string, err error) string {
	if apierrors.IsNotFound(err) {
		return resource + " are not served by this cluster; is Gatehouse installed here? (kubectl apply --server-side -k config/default)"
	}
	return fmt.Sprintf("%s cannot be read: %v", resource, err)
}
