package release_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// A cache that is behind this process's own write costs a moment, and no request that would be refused.
func TestAReleaseWaitsForItsOwnWriteToComeBack(t *testing.T) {
	b := newBench(t)
	digest := b.hub.PushImage(t, "team/gateway", "1.0")
	r := b.release(b.hub.Reference("team/gateway", "1.0"), b.profile().Name)
	for range 3 {
		b.gateway(r)
	}
	var mu sync.Mutex
	var old *v1alpha1.GatewayRelease // what the next read gets instead
	stale := 0
	b.start(func(next client.Client) client.Client {
		return interceptor.NewClient(next.(client.WithWatch), interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
				release, ok := object.(*v1alpha1.GatewayRelease)
				copied := client.GetOptions{}
				copied.ApplyOptions(options)
				if !ok || copied.UnsafeDisableDeepCopy != nil { // read for a pass, not for its window
					return c.Get(ctx, key, object, options...)
				}
				mu.Lock()
				defer mu.Unlock()
				if old != nil {
					old.DeepCopyInto(release)
					old = nil
					stale++
					return nil
				}
				return c.Get(ctx, key, object, options...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
				before := &v1alpha1.GatewayRelease{}
				if err := c.Get(ctx, client.ObjectKeyFromObject(object), before); err != nil {
					return err
				}
				err := c.SubResource(sub).Patch(ctx, object, patch, options...)
				if err == nil {
					mu.Lock()
					defer mu.Unlock()
					old = before
				}
				return err
			},
		})
	})
	mark := b.mark()
	b.reaches(r, complete(r, b.hub.Host+"/team/gateway@"+digest.String()))
	mu.Lock()
	defer mu.Unlock()
	if stale == 0 {
		t.Error("no pass had an old view")
	}
	for _, write := range b.writes(mark) {
		if strings.HasSuffix(write, ": 409") {
			t.Errorf("sent: %s", write)
		}
	}
}
