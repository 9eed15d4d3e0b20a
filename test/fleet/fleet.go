package fleet

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/test/registry"
)

// Profile is the spec of the profile that fleets use unless they are told another.
const Profile = `
template:
  spec:
    containers:
    - name: gateway
      ports: [{name: http, containerPort: 8080}]
config: {mountPath: /etc/gateway}
ports: [{name: http, port: 80, targetPort: http}]
networkPolicy: {ingress: [{ports: [{port: http}]}]}
clusterRoles: [gatehouse-gateway]
`

// Repository is that of a fleet's images.
const Repository = "gateways/demo"

// Options shape a fleet. The zero value is one gateway that moves at once.
type Options struct {
	Gateways   int // how many; 0 is 1
	Namespaces int // in how many namespaces; 0 is 1
	// Registry serves the images; nil starts one.
	Registry *registry.Registry
	// Profile is the spec as YAML; empty is Profile.
	Profile string
	// Release, Gateway and Namespace may change what is about to be created.
	Release   func(*v1alpha1.GatewayRelease)
	Gateway   func(int, *v1alpha1.GatewayInstance)
	Namespace func(*corev1.Namespace)
	// Keep leaves the fleet to end with its cluster.
	Keep bool
}

// Fleet is a release with its profile and gateways.
type Fleet struct {
	*Installation
	Registry *registry.Registry
	// Name is that of the release and of the profile.
	Name string
	// Namespaces are those of the gateways.
	Namespaces []string
	// Gateways are the names of all, in the order in which they were made.
	Gateways []client.ObjectKey
	// V1 is the digest of the first image.
	V1 image.Digest
}

var serial atomic.Int64

// New makes a fleet. It does not wait for it to be rolled out. The test's end deletes it without waiting.
func New(tb testing.TB, on *Installation, o Options) *Fleet {
	tb.Helper()
	f := &Fleet{Installation: on, Registry: o.Registry, Name: fmt.Sprintf("r%d", serial.Add(1))}
	if f.Registry == nil {
		f.Registry = registry.Start(tb)
	}
	f.V1 = f.Registry.PushImage(tb, Repository+"/"+f.Name, "v1")
	if !o.Keep {
		tb.Cleanup(func() { f.remove(tb) })
	}
	for range max(o.Namespaces, 1) {
		f.Namespaces = append(f.Namespaces, on.Namespace(tb, "tenant"))
	}

	profile := &v1alpha1.GatewayProfile{ObjectMeta: metav1.ObjectMeta{Name: f.Name}}
	text := o.Profile
	if text == "" {
		text = Profile
	}
	if err := yaml.UnmarshalStrict([]byte(text), &profile.Spec); err != nil {
		tb.Fatalf("profile: %v", err)
	}
	f.Make(tb, profile)

	release := &v1alpha1.GatewayRelease{
		ObjectMeta: metav1.ObjectMeta{Name: f.Name},
		Spec: v1alpha1.GatewayReleaseSpec{
			Image:        f.Image("v1"),
			ProfileRef:   v1alpha1.ProfileReference{Name: f.Name},
			Verification: v1alpha1.VerificationDisabled,
			Registry:     &v1alpha1.RegistryAccess{PlainHTTP: true},
			Rollout: v1alpha1.RolloutSpec{
				MaxUnavailable:   ptr.To(intstr.FromString("100%")),
				MinReadySeconds:  ptr.To[int32](0),
				ProgressDeadline: &metav1.Duration{Duration: 2 * time.Minute},
			},
		},
	}
	if o.Release != nil {
		o.Release(release)
	}
	f.Make(tb, release)
	for n := range max(o.Gateways, 1) {
		gateway := &v1alpha1.GatewayInstance{
			ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespaces[n%len(f.Namespaces)], Name: fmt.Sprintf("gw-%d", n)},
			Spec: v1alpha1.GatewayInstanceSpec{
				ReleaseRef: v1alpha1.ReleaseReference{Name: f.Name},
				Config:     map[string]v1alpha1.ConfigFile{"gateway.toml": "listen = 8080\n"},
			},
		}
		if o.Gateway != nil {
			o.Gateway(n, gateway)
		}
		f.Make(tb, gateway)
		f.Gateways = append(f.Gateways, client.ObjectKeyFromObject(gateway))
	}
	return f
}

// Image is a reference to a tag of the fleet's repository.
func (f *Fleet) Image(tag string) string { return f.Registry.Reference(Repository+"/"+f.Name, tag) }

// Pinned is what is deployed for a digest of the fleet's repository.
func (f *Fleet) Pinned(digest image.Digest) string {
	return f.Registry.Host + "/" + Repository + "/" + f.Name + "@" + digest.String()
}

// Push makes a new image under a tag of the fleet's repository.
func (f *Fleet) Push(tb testing.TB, tag string) image.Digest {
	tb.Helper()
	return f.Registry.PushImage(tb, Repository+"/"+f.Name, tag)
}

// Make creates an object.
func (f *Fleet) Make(tb testing.TB, object client.Object) {
	tb.Helper()
	if err := f.Client.Create(tb.Context(), object); err != nil {
		tb.Fatalf("create %T %s: %v", object, client.ObjectKeyFromObject(object), err)
	}
}

// remove takes the cluster-wide objects away; the gateways go with their namespaces.
func (f *Fleet) remove(tb testing.TB) {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	for _, namespace := range f.Namespaces {
		if err := f.Client.DeleteAllOf(ctx, &v1alpha1.GatewayInstance{}, client.InNamespace(namespace)); client.IgnoreNotFound(err) != nil {
			tb.Errorf("remove the gateways of %s: %v", namespace, err)
		}
	}
	for _, object := range []client.Object{
		&v1alpha1.GatewayRelease{ObjectMeta: metav1.ObjectMeta{Name: f.Name}},
		&v1alpha1.GatewayProfile{ObjectMeta: metav1.ObjectMeta{Name: f.Name}},
	} {
		if err := f.Client.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
			tb.Errorf("remove %s: %v", f.Name, err)
		}
	}
}
