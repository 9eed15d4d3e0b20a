package release_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
	testregistry "github.com/gatehouse-dev/gatehouse/test/registry"
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

// A profile of a while ago beside a release of now: the version of the release does not give it away. Fails when it takes
// the fleet back to where it came from, or when people are told that there is none or that it is wrong.
func TestAProfileOfAWhileAgoTakesNothingBack(t *testing.T) {
	b := newBench(t)
	digest := b.hub.PushImage(t, "team/gateway", "1.0")
	profile := b.profile()
	r := b.release(b.hub.Reference("team/gateway", "1.0"), profile.Name)
	b.gateway(r)
	var mu sync.Mutex
	var lie func(*v1alpha1.GatewayProfile) error
	lied := 0
	b.start(func(next client.Client) client.Client {
		return interceptor.NewClient(next.(client.WithWatch), interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
				if err := c.Get(ctx, key, object, options...); err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				if seen, ok := object.(*v1alpha1.GatewayProfile); ok && lie != nil {
					lied++
					return lie(seen)
				}
				return nil
			},
		})
	})
	image := b.hub.Host + "/team/gateway@" + digest.String()
	b.reaches(r, complete(r, image))
	first, old := r.Status.Revision, profile.DeepCopy()
	edit(b, profile, func(p *v1alpha1.GatewayProfile) {
		p.Spec.Template.Raw = []byte(`{"spec":{"containers":[{"name":"gateway","args":["serve","--quickly"]}]}}`)
	})
	b.reaches(r, all(complete(r, image), func() error {
		if r.Status.Revision == first {
			return errors.New("the edit of the profile has made no revision yet")
		}
		return nil
	}))
	moved, attempt := r.Status.Revision, r.Status.Rollout.Attempt

	for name, told := range map[string]func(*v1alpha1.GatewayProfile) error{
		"as it was": func(p *v1alpha1.GatewayProfile) error { old.DeepCopyInto(p); return nil },
		"not there": func(*v1alpha1.GatewayProfile) error {
			return apierrors.NewNotFound(schema.GroupResource{}, profile.Name)
		},
		"not usable": func(p *v1alpha1.GatewayProfile) error { p.Spec.Template.Raw = []byte(`{"spec":{}}`); return nil },
	} {
		mu.Lock()
		lie, lied = told, 0
		mu.Unlock()
		edit(b, r, func(r *v1alpha1.GatewayRelease) {
			r.Annotations = map[string]string{v1alpha1.AnnotationReconcileRequestedAt: name}
		})
		eventually.Succeeds(t, within, func() error {
			mu.Lock()
			defer mu.Unlock()
			if lied == 0 {
				return errors.New("no pass has read the profile")
			}
			return nil
		})
		eventually.Holds(t, 500*time.Millisecond, func() error {
			if err := b.is(r, complete(r, image)); err != nil {
				return err
			}
			if r.Status.Revision != moved || r.Status.Rollout.Attempt != attempt {
				return fmt.Errorf("a profile that is %s in the cache moves the fleet from %s to %s, attempt %d", name, moved, r.Status.Revision, r.Status.Rollout.Attempt)
			}
			return nil
		})
	}
}

// Fails when a Secret or a ConfigMap that a cache has not met yet is called missing.
func TestWhatReachesTheRegistryIsNotMissedInACacheThatIsBehind(t *testing.T) {
	b := newBench(t)
	hub := testregistry.Start(t, testregistry.WithTLS(), testregistry.WithBasicAuth("robot", "hunter2"))
	digest := hub.PushImage(t, "team/gateway", "1.0")
	auth := base64.StdEncoding.EncodeToString([]byte("robot:hunter2"))
	b.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "pull"}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, hub.Host, auth)},
	})
	b.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "corp-ca"}, Data: map[string]string{"ca.crt": string(hub.CA)}})
	r := b.release(hub.Reference("team/gateway", "1.0"), b.profile().Name, func(r *v1alpha1.GatewayRelease) {
		r.Spec.Registry = &v1alpha1.RegistryAccess{
			Credentials: &v1alpha1.RegistryCredentials{SecretRef: v1alpha1.LocalObjectReference{Name: "pull"}},
			CABundle:    &v1alpha1.CABundle{ConfigMapRef: v1alpha1.KeyReference{Name: "corp-ca", Key: "ca.crt"}},
		}
	})
	b.start(func(next client.Client) client.Client {
		return interceptor.NewClient(next.(client.WithWatch), interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
				switch object.(type) {
				case *corev1.Secret, *corev1.ConfigMap:
					return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
				}
				return c.Get(ctx, key, object, options...)
			},
		})
	})
	b.reaches(r, complete(r, hub.Host+"/team/gateway@"+digest.String()))
}
