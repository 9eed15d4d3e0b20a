package manifest

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/revision"
)

const repository = "registry.example.com/gateways/openshell@sha256:"

var (
	imageOne = repository + strings.Repeat("1", 64)
	imageTwo = repository + strings.Repeat("2", 64)
)

func TestTheSamplesRenderAsRecorded(t *testing.T) {
	for profile, gateway := range map[string]string{
		"profile-openshell.yaml": "gateway-openshell.yaml",
		"profile-envoy.yaml":     "gateway-envoy.yaml",
	} {
		t.Run(profile, func(t *testing.T) {
			var p v1alpha1.GatewayProfile
			var g v1alpha1.GatewayInstance
			read(t, profile, &p)
			read(t, gateway, &g)
			g.UID = "11111111-2222-3333-4444-555555555555"
			objects, err := render(t, &g, p.Spec, imageOne)
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			for _, object := range objects {
				raw, err := yaml.Marshal(object.Configuration().Object)
				if err != nil {
					t.Fatal(err)
				}
				out.WriteString("---\n" + string(raw))
			}
			golden := filepath.Join("testdata", strings.Replace(profile, "profile-", "", 1))
			if os.Getenv("UPDATE_GOLDEN") != "" {
				if err := os.WriteFile(golden, []byte(out.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if out.String() != string(want) {
				t.Errorf("rendered differently from %s (UPDATE_GOLDEN=1 writes it anew):\n%s", golden, out.String())
			}
		})
	}
}

func TestRenderingTwiceGivesTheSame(t *testing.T) {
	one, err := render(t, gateway(), profile(), imageOne)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		two, err := render(t, gateway(), profile(), imageOne)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(one, two) {
			t.Fatalf("first %v, then %v", one, two)
		}
	}
}

func TestAConfigurationIsMadeAfreshAtEveryCall(t *testing.T) {
	objects, err := render(t, gateway(), profile(), imageOne)
	if err != nil {
		t.Fatal(err)
	}
	objects[0].Configuration().SetName("claimed")
	if got := objects[0].Configuration().GetName(); got != "edge" {
		t.Errorf("what the server answered into one configuration shows in the next: %q", got)
	}
}

// The inputs of an object change with what it is made of and with nothing else, so that an edit sends only what it
// concerns.
func TestAnEditConcernsTheObjectsThatAreMadeOfIt(t *testing.T) {
	for name, tc := range map[string]struct {
		edit  func(*v1alpha1.GatewayInstance, *v1alpha1.GatewayProfileSpec)
		image string
		want  []string
	}{
		"nothing":       {},
		"image":         {image: imageTwo, want: []string{"Deployment"}},
		"replicas":      {edit: func(g *v1alpha1.GatewayInstance, _ *v1alpha1.GatewayProfileSpec) { g.Spec.Replicas = ptr.To[int32](3) }, want: []string{"Deployment"}},
		"configuration": {edit: func(g *v1alpha1.GatewayInstance, _ *v1alpha1.GatewayProfileSpec) { g.Spec.Config["gateway.toml"] = "b" }, want: []string{"ConfigMap", "Deployment"}},
		"a label": {edit: func(g *v1alpha1.GatewayInstance, _ *v1alpha1.GatewayProfileSpec) {
			g.Labels = map[string]string{"a": "b"}
		}},
		"a port": {edit: func(_ *v1alpha1.GatewayInstance, p *v1alpha1.GatewayProfileSpec) { p.Ports[0].Port = 81 }, want: []string{"Deployment", "Service"}},
		"roles":  {edit: func(_ *v1alpha1.GatewayInstance, p *v1alpha1.GatewayProfileSpec) { p.ClusterRoles = []string{"edit"} }, want: []string{"Deployment", "RoleBinding"}},
		"network": {edit: func(_ *v1alpha1.GatewayInstance, p *v1alpha1.GatewayProfileSpec) {
			p.NetworkPolicy.Egress = &[]v1alpha1.EgressRule{}
		}, want: []string{"Deployment", "NetworkPolicy"}},
		"another gateway": {edit: func(g *v1alpha1.GatewayInstance, _ *v1alpha1.GatewayProfileSpec) { g.UID = "other" }, want: []string{"ConfigMap", "Deployment", "NetworkPolicy", "PodDisruptionBudget", "RoleBinding", "Service", "ServiceAccount"}},
	} {
		t.Run(name, func(t *testing.T) {
			g, p := gateway(), profile()
			before, err := render(t, g, p, imageOne)
			if err != nil {
				t.Fatal(err)
			}
			if tc.edit != nil {
				tc.edit(g, &p)
			}
			if tc.image == "" {
				tc.image = imageOne
			}
			after, err := render(t, g, p, tc.image)
			if err != nil {
				t.Fatal(err)
			}
			was := map[string]string{}
			for _, object := range before {
				was[object.Kind.Kind] = object.Inputs
			}
			var changed []string
			for _, kind := range []string{"ConfigMap", "Deployment", "NetworkPolicy", "PodDisruptionBudget", "RoleBinding", "Service", "ServiceAccount"} {
				for _, object := range after {
					if object.Kind.Kind == kind && object.Inputs != was[kind] {
						changed = append(changed, kind)
					}
				}
			}
			if !reflect.DeepEqual(changed, tc.want) {
				t.Errorf("changed inputs: %v, want %v", changed, tc.want)
			}
		})
	}
}

func TestANewAttemptIsNoInput(t *testing.T) {
	given := accepted(t, profile(), imageOne)
	inputs := func(attempt int64) (out []string) {
		objects, err := Render(gateway(), given, v1alpha1.RecordedRevision{Release: "stable", Name: given.Name(), Image: imageOne, Attempt: attempt})
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range objects {
			out = append(out, object.Inputs)
		}
		return out
	}
	if one, two := inputs(1), inputs(2); !reflect.DeepEqual(one, two) {
		t.Errorf("the same revision in another attempt has other inputs: %v, then %v", one, two)
	}
}

func TestWhatIsNotAskedForIsNotRendered(t *testing.T) {
	g, p := gateway(), profile()
	g.Spec.Config, g.Spec.Replicas = nil, nil
	p.Ports, p.NetworkPolicy, p.ClusterRoles = nil, &v1alpha1.NetworkPolicy{}, nil
	objects, err := render(t, g, p, imageOne)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, object := range objects {
		kinds = append(kinds, object.Kind.Kind)
	}
	if want := []string{"ServiceAccount", "Deployment"}; !reflect.DeepEqual(kinds, want) {
		t.Errorf("rendered %v, want %v", kinds, want)
	}
}

func TestTheDeploymentNeverGoesBelowItsReplicas(t *testing.T) {
	d := deployment(t, gateway(), profile())
	if got := d.Spec.Strategy.RollingUpdate.MaxUnavailable.String(); got != "0" {
		t.Errorf("maxUnavailable is %s", got)
	}
	if got := d.Spec.Strategy.RollingUpdate.MaxSurge.String(); got != "25%" {
		t.Errorf("maxSurge is %s", got)
	}
}

func TestMarksAreOnTheDeploymentAndNotOnItsPods(t *testing.T) {
	d := deployment(t, gateway(), profile())
	for _, mark := range []string{v1alpha1.AnnotationRevision, v1alpha1.AnnotationRevisionRelease, v1alpha1.AnnotationAttempt, v1alpha1.AnnotationImage, v1alpha1.AnnotationTag} {
		if d.Annotations[mark] == "" {
			t.Errorf("the Deployment has no mark %s", mark)
		}
		if _, found := d.Spec.Template.Annotations[mark]; found {
			t.Errorf("the pod template has the mark %s: its change would roll the pods", mark)
		}
	}
}

func TestTheTenantsWishesReachTheContainerGateway(t *testing.T) {
	g := gateway()
	g.Spec.Env = []v1alpha1.EnvVar{
		{Name: "PRICE", Value: ptr.To("$(HOME) $5")},
		{Name: "TOKEN", SecretKeyRef: &v1alpha1.KeyReference{Name: "s", Key: "k"}},
		{Name: "MODE", ConfigMapKeyRef: &v1alpha1.KeyReference{Name: "c", Key: "k"}},
	}
	g.Spec.EnvFrom = []v1alpha1.EnvFrom{{SecretRef: &v1alpha1.LocalObjectReference{Name: "s"}, Prefix: "S_"}}
	g.Spec.Volumes = []v1alpha1.Volume{{Name: "tls", MountPath: "/tls", SecretRef: &v1alpha1.LocalObjectReference{Name: "tls"}}}
	g.Spec.Resources = &v1alpha1.Resources{Limits: corev1.ResourceList{"memory": resource.MustParse("1Gi")}}
	d := deployment(t, g, profile())
	sidecar, c := d.Spec.Template.Spec.Containers[0], d.Spec.Template.Spec.Containers[1]

	if c.Image != imageOne {
		t.Errorf("image %q", c.Image)
	}
	if got := c.Env[1].Value; got != "$$(HOME) $$5" {
		t.Errorf("the value would be expanded: %q", got)
	}
	if c.Env[2].ValueFrom.SecretKeyRef.Name != "s" || c.Env[3].ValueFrom.ConfigMapKeyRef.Name != "c" || c.EnvFrom[0].SecretRef.Name != "s" || c.EnvFrom[0].Prefix != "S_" {
		t.Errorf("references are lost: %v %v", c.Env, c.EnvFrom)
	}
	want := []corev1.VolumeMount{
		{Name: v1alpha1.ConfigVolume, MountPath: "/etc/gateway", ReadOnly: true},
		{Name: "tls", MountPath: "/tls", ReadOnly: true},
	}
	if !reflect.DeepEqual(c.VolumeMounts, want) {
		t.Errorf("mounts %v, want %v", c.VolumeMounts, want)
	}
	if len(c.Resources.Requests) != 0 || c.Resources.Limits.Memory().String() != "1Gi" {
		t.Errorf("resources %v are not the tenant's", c.Resources)
	}
	if len(sidecar.Env)+len(sidecar.VolumeMounts)+len(sidecar.Resources.Limits) != 0 {
		t.Errorf("the sidecar got what is the gateway's: %v", sidecar)
	}
	if *d.Spec.Template.Spec.AutomountServiceAccountToken || d.Spec.Template.Spec.ServiceAccountName != "edge" {
		t.Error("the pods do not run as the gateway's own ServiceAccount without its token")
	}
}

func TestWhatDoesNotFitTheProfileNamesTheField(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(*v1alpha1.GatewayInstance, *v1alpha1.GatewayProfileSpec)
		want string
	}{
		"a variable of the profile": {
			func(g *v1alpha1.GatewayInstance, _ *v1alpha1.GatewayProfileSpec) {
				g.Spec.Env = []v1alpha1.EnvVar{{Name: "PROFILE", Value: ptr.To("x")}}
			},
			"spec.env[PROFILE]: the profile of release stable sets this variable; remove it or choose another name",
		},
		"a volume of the profile": {
			func(g *v1alpha1.GatewayInstance, _ *v1alpha1.GatewayProfileSpec) {
				g.Spec.Volumes = []v1alpha1.Volume{{Name: "tmp", MountPath: "/x", SecretRef: &v1alpha1.LocalObjectReference{Name: "s"}}}
			},
			"spec.volumes[tmp].name: the profile of release stable has a volume of this name; choose another",
		},
		"a path that is taken": {
			func(g *v1alpha1.GatewayInstance, _ *v1alpha1.GatewayProfileSpec) {
				g.Spec.Volumes = []v1alpha1.Volume{{Name: "x", MountPath: "/etc/gateway/", SecretRef: &v1alpha1.LocalObjectReference{Name: "s"}}}
			},
			`spec.volumes[x].mountPath: "/etc/gateway/" is mounted already; choose another path`,
		},
		"files that have no place": {
			func(_ *v1alpha1.GatewayInstance, p *v1alpha1.GatewayProfileSpec) { p.Config = nil },
			"spec.config: the profile of release stable has no place for files; remove spec.config, or have spec.config.mountPath set in the profile",
		},
		"too many bytes": {
			func(g *v1alpha1.GatewayInstance, _ *v1alpha1.GatewayProfileSpec) {
				g.Spec.Config["big"] = v1alpha1.ConfigFile(strings.Repeat("x", maxConfig))
			},
			"spec.config: the files have 1048577 bytes together; shorten them to 1048576",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, p := gateway(), profile()
			tc.edit(g, &p)
			_, err := render(t, g, p, imageOne)
			var wrong *SpecError
			if !errors.As(err, &wrong) || err.Error() != tc.want {
				t.Errorf("got %v\nwant %s", err, tc.want)
			}
		})
	}
}

func TestBindingsOfTwoGatewaysNeverMeet(t *testing.T) {
	if a, b := bindingName("a", "b.c"), bindingName("a-b", "c"); a == b {
		t.Errorf("both are named %s", a)
	}
	long := bindingName(strings.Repeat("g", 63), strings.Repeat("r", 250))
	if len(long) > maxName {
		t.Errorf("%d characters", len(long))
	}
	if long == bindingName(strings.Repeat("g", 63), strings.Repeat("r", 249)+"s") {
		t.Error("two long roles share a binding")
	}
}

func TestANetworkPolicyNamesTheDirectionsThatTheProfileGives(t *testing.T) {
	rules := &[]v1alpha1.IngressRule{{}}
	for name, tc := range map[string]struct {
		policy v1alpha1.NetworkPolicy
		want   []networkingv1.PolicyType
	}{
		"ingress":             {v1alpha1.NetworkPolicy{Ingress: rules}, []networkingv1.PolicyType{"Ingress"}},
		"no egress is egress": {v1alpha1.NetworkPolicy{Egress: &[]v1alpha1.EgressRule{}}, []networkingv1.PolicyType{"Egress"}},
		"both":                {v1alpha1.NetworkPolicy{Ingress: rules, Egress: &[]v1alpha1.EgressRule{}}, []networkingv1.PolicyType{"Ingress", "Egress"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := networkPolicyFor("edge", &tc.policy).Spec.PolicyTypes; !reflect.DeepEqual(got, tc.want) {
				t.Errorf("policyTypes %v, want %v", got, tc.want)
			}
		})
	}
}

func gateway() *v1alpha1.GatewayInstance {
	return &v1alpha1.GatewayInstance{
		ObjectMeta: metav1.ObjectMeta{Name: "edge", Namespace: "tenant-a", UID: "uid"},
		Spec: v1alpha1.GatewayInstanceSpec{
			ReleaseRef: v1alpha1.ReleaseReference{Name: "stable"},
			Replicas:   ptr.To[int32](2),
			Config:     map[string]v1alpha1.ConfigFile{"gateway.toml": "a"},
		},
	}
}

func profile() v1alpha1.GatewayProfileSpec {
	var spec v1alpha1.GatewayProfileSpec
	err := yaml.UnmarshalStrict([]byte(`
template:
  spec:
    containers:
    - {name: sidecar, image: "example.com/sidecar@sha256:`+strings.Repeat("a", 64)+`"}
    - {name: gateway, env: [{name: PROFILE, value: x}], resources: {requests: {cpu: 1}}}
    volumes:
    - {name: tmp, emptyDir: {}}
config: {mountPath: /etc/gateway}
ports: [{name: http, port: 80}]
networkPolicy: {ingress: [{}]}
clusterRoles: [view]
`), &spec)
	if err != nil {
		panic(err)
	}
	return spec
}

func accepted(t *testing.T, profile v1alpha1.GatewayProfileSpec, pinned string) revision.Revision {
	t.Helper()
	ref, err := image.ParsePinned(pinned)
	if err != nil {
		t.Fatal(err)
	}
	given, err := revision.New("stable", ref, "1.4.2", profile)
	if err != nil {
		t.Fatal(err)
	}
	return given
}

func render(t *testing.T, g *v1alpha1.GatewayInstance, p v1alpha1.GatewayProfileSpec, pinned string) ([]Object, error) {
	t.Helper()
	given := accepted(t, p, pinned)
	return Render(g, given, v1alpha1.RecordedRevision{Release: "stable", Attempt: 7, Name: given.Name(), Image: pinned})
}

func deployment(t *testing.T, g *v1alpha1.GatewayInstance, p v1alpha1.GatewayProfileSpec) *appsv1.Deployment {
	t.Helper()
	objects, err := render(t, g, p, imageOne)
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		if object.Kind == DeploymentKind {
			var out appsv1.Deployment
			if err := object.Typed(&out); err != nil {
				t.Fatal(err)
			}
			return &out
		}
	}
	t.Fatal("no Deployment")
	return nil
}

func read(t *testing.T, sample string, into any) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "samples", sample))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(raw, into); err != nil {
		t.Fatal(err)
	}
}
