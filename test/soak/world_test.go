package soak

import (
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
	"github.com/gatehouse-dev/gatehouse/test/registry"
)

const (
	gateways = 200
	tenants  = 8
	profiles = 3
	// tags are those of each repository that work.
	tags = 6
)

// world is everything that people may edit. It remembers what is there so that the same edits come of the same seed;
// what was made of them it never remembers.
type world struct {
	product   *fleet.Installation
	seed      uint64
	workloads *workloads

	namespaces []string
	releases   []*release
	gateways   []client.ObjectKey // those that exist, in the order in which they were made
	serial     int                // of gateways, of values
	busy       int                // edits until the pace changes; negative in a quiet time
	done       map[string]int     // edits by name
}

// release is what the test knows of one: where its images are.
type release struct {
	name       string
	registry   *registry.Registry
	repository string
	private    bool
	gone       bool // deleted, to be made again
	digests    map[string]image.Digest
}

// bad is the tag of an image whose pods are never ready; rolling is one that is moved.
const (
	bad     = "bad"
	rolling = "rolling"
)

// Credentials of the private registry, and where they are kept.
const (
	user, password = "robot", "let-me-in"
	pullSecret     = "pull"
	authority      = "authority"
)

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	c := cluster.New(t, cluster.Options{APIServerOnly: true, Audit: true})
	product, err := fleet.Install(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{product: product, seed: seed, done: map[string]int{}}
	w.workloads = playKubernetes(t, product, seed)
	for n := range tenants {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("tenant-%d", n), Labels: allowed}}
		w.make(t, namespace)
		w.namespaces = append(w.namespaces, namespace.Name)
	}
	for n := range profiles {
		w.make(t, profile(n, 0))
	}
	public, private := registry.Start(t), registry.Start(t, registry.WithTLS(), registry.WithBasicAuth(user, password))
	w.make(t, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.Namespace, Name: authority},
		Data:       map[string]string{"ca.crt": string(private.CA)},
	})
	w.make(t, credentials(private, password))
	for n, r := range []*registry.Registry{public, public, private, private} {
		release := &release{name: fmt.Sprintf("release-%d", n), registry: r, repository: fmt.Sprintf("gateways/%d", n), private: r == private, digests: map[string]image.Digest{}}
		for tag := range tags {
			release.push(t, tagOf(tag))
		}
		release.push(t, bad)
		w.workloads.neverReady(release.digests[bad])
		release.digests[rolling] = release.digests[tagOf(0)]
		r.MoveTag(t, release.repository, rolling, release.digests[rolling])
		w.releases = append(w.releases, release)
		w.make(t, release.object(n%profiles, tagOf(0)))
	}
	for range gateways {
		w.make(t, w.newGateway(w.serial%tenants, w.serial%len(w.releases)))
	}
	return w
}

func (w *world) make(t *testing.T, object client.Object) {
	t.Helper()
	if err := w.product.Client.Create(t.Context(), object); err != nil {
		t.Fatalf("create %T %s: %v", object, client.ObjectKeyFromObject(object), err)
	}
}

func tagOf(n int) string { return fmt.Sprintf("v%d", n) }

func (r *release) push(t *testing.T, tag string) {
	t.Helper()
	r.digests[tag] = r.registry.PushImage(t, r.repository, tag)
}

func (r *release) image(tag string) string { return r.registry.Reference(r.repository, tag) }

// object is the release as it is first made, and made again.
func (r *release) object(profile int, tag string) *v1alpha1.GatewayRelease {
	access := &v1alpha1.RegistryAccess{PlainHTTP: true}
	if r.private {
		access = &v1alpha1.RegistryAccess{
			Credentials: &v1alpha1.RegistryCredentials{SecretRef: v1alpha1.LocalObjectReference{Name: pullSecret}},
			CABundle:    &v1alpha1.CABundle{ConfigMapRef: v1alpha1.KeyReference{Name: authority, Key: "ca.crt"}},
		}
	}
	return &v1alpha1.GatewayRelease{
		ObjectMeta: metav1.ObjectMeta{Name: r.name},
		Spec: v1alpha1.GatewayReleaseSpec{
			Image:        r.image(tag),
			ProfileRef:   v1alpha1.ProfileReference{Name: profileName(profile)},
			Verification: v1alpha1.VerificationDisabled,
			Registry:     access,
			// Tags are moved, and nobody says so.
			ResolveInterval: &metav1.Duration{Duration: 5 * time.Second},
			Rollout: v1alpha1.RolloutSpec{
				MaxUnavailable:   ptr.To(intstr.FromString("50%")),
				MinReadySeconds:  ptr.To[int32](0),
				ProgressDeadline: &metav1.Duration{Duration: 20 * time.Second},
				MaxFailures:      ptr.To(intstr.FromString("20%")),
			},
			RevisionHistoryLimit: ptr.To[int32](3),
		},
	}
}

// newGateway is one that does not exist yet.
func (w *world) newGateway(tenant, release int) *v1alpha1.GatewayInstance {
	key := client.ObjectKey{Namespace: w.namespaces[tenant], Name: fmt.Sprintf("gw-%d", w.serial)}
	w.serial++
	w.gateways = append(w.gateways, key)
	return gateway(key, w.releases[release].name)
}

func gateway(key client.ObjectKey, release string) *v1alpha1.GatewayInstance {
	return &v1alpha1.GatewayInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Spec: v1alpha1.GatewayInstanceSpec{
			ReleaseRef: v1alpha1.ReleaseReference{Name: release},
			Config:     map[string]v1alpha1.ConfigFile{"gateway.toml": "listen = 8080\n"},
		},
	}
}

// credentials are a Secret for a registry.
func credentials(r *registry.Registry, password string) *corev1.Secret {
	auth := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.Namespace, Name: pullSecret},
		Type:       corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{
			corev1.DockerConfigJsonKey: []byte(fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, r.Host, auth)),
		},
	}
}

var allowed = map[string]string{"gateways": "allowed"}

func profileName(n int) string { return fmt.Sprintf("profile-%d", n) }

// profile is one of the profiles, with a content for each version. The last admits namespaces by their label.
func profile(n, version int) *v1alpha1.GatewayProfile {
	p := &v1alpha1.GatewayProfile{ObjectMeta: metav1.ObjectMeta{Name: profileName(n)}}
	p.Spec.Template.Raw = []byte(fmt.Sprintf(
		`{"spec":{"containers":[{"name":"gateway","env":[{"name":"PROFILE","value":"%d of %d"}],"ports":[{"name":"http","containerPort":8080}]}]}}`, version, n))
	p.Spec.Config = &v1alpha1.ConfigMount{MountPath: "/etc/gateway"}
	if version%3 != 2 {
		p.Spec.Ports = []v1alpha1.ServicePort{{Name: "http", Port: int32(80 + version%2), Protocol: corev1.ProtocolTCP, TargetPort: ptr.To(intstr.FromString("http"))}}
	}
	if version%4 != 3 {
		p.Spec.NetworkPolicy = &v1alpha1.NetworkPolicy{Ingress: &[]v1alpha1.IngressRule{{Ports: []v1alpha1.PolicyPort{{Port: ptr.To(intstr.FromString("http"))}}}}}
	}
	if version%2 == 0 {
		p.Spec.ClusterRoles = []string{"gatehouse-gateway"}
	}
	if n == profiles-1 {
		p.Spec.AllowedNamespaces = &v1alpha1.AllowedNamespaces{Selector: &metav1.LabelSelector{MatchLabels: allowed}}
	}
	return p
}
