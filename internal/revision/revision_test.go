package revision_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/revision"
)

const digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func pinned(t *testing.T, repository string) image.Pinned {
	t.Helper()
	p, err := image.ParsePinned(repository + "@" + digest)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func profile(template string) v1alpha1.GatewayProfileSpec {
	return v1alpha1.GatewayProfileSpec{
		Template: runtime.RawExtension{Raw: []byte(template)},
		Config:   &v1alpha1.ConfigMount{MountPath: "/etc/gateway"},
		Ports:    []v1alpha1.ServicePort{{Name: "grpc", Port: 8080, Protocol: corev1.ProtocolTCP}},
	}
}

const template = `{"metadata":{"labels":{"app":"edge"}},"spec":{"hostNetwork":true,"containers":[{"name":"gateway","args":["<a&b>"]}]}}`

func TestNameIsThatOfTheContentAlone(t *testing.T) {
	base, err := revision.New("stable", pinned(t, "registry.example.com/a"), "1.0", profile(template))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(base.Name(), "stable-") || len(base.Name()) != len("stable-")+10 {
		t.Errorf("name %q: want stable-<10 characters>", base.Name())
	}
	with := func(change func(*v1alpha1.GatewayProfileSpec)) v1alpha1.GatewayProfileSpec {
		p := profile(template)
		change(&p)
		return p
	}
	for _, c := range []struct {
		name       string
		repository string
		tag        string
		profile    v1alpha1.GatewayProfileSpec
		same       bool
	}{
		{"the same again", "registry.example.com/a", "1.0", profile(template), true},
		{"another tag of the same digest", "registry.example.com/a", "1.1", profile(template), true},
		{"other key order and white space", "registry.example.com/a", "1.0", profile(`{ "spec": {"containers": [{"args": ["<a&b>"], "name": "gateway"}], "hostNetwork": true},
			"metadata": {"labels": {"app": "edge"}} }`), true},
		{"a null where nothing was", "registry.example.com/a", "1.0", profile(`{"metadata":{"creationTimestamp":null,"labels":{"app":"edge"}},"spec":{"hostNetwork":true,"containers":[{"name":"gateway","args":["<a&b>"],"command":null}]}}`), true},
		{"other allowed namespaces", "registry.example.com/a", "1.0", with(func(p *v1alpha1.GatewayProfileSpec) {
			p.AllowedNamespaces = &v1alpha1.AllowedNamespaces{Names: []string{"tenant-a"}}
		}), true},
		{"another repository with the same digest", "registry.example.com/b", "1.0", profile(template), false},
		{"another argument", "registry.example.com/a", "1.0", profile(strings.ReplaceAll(template, "<a&b>", "<a&c>")), false},
		{"another port", "registry.example.com/a", "1.0", with(func(p *v1alpha1.GatewayProfileSpec) { p.Ports[0].Port = 8081 }), false},
		{"a cluster role", "registry.example.com/a", "1.0", with(func(p *v1alpha1.GatewayProfileSpec) { p.ClusterRoles = []string{"view"} }), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := revision.New("stable", pinned(t, c.repository), c.tag, c.profile)
			if err != nil {
				t.Fatal(err)
			}
			if (got.Name() == base.Name()) != c.same {
				t.Errorf("name %s, that of the base %s: same should be %t", got.Name(), base.Name(), c.same)
			}
		})
	}
}

// The name of a revision that was stored by an earlier build is the name that this build computes: were it not, an
// upgrade would roll every fleet.
func TestNamesAreStableAcrossBuilds(t *testing.T) {
	r, err := revision.New("stable", pinned(t, "registry.example.com/a"), "1.0", profile(template))
	if err != nil {
		t.Fatal(err)
	}
	if want := "stable-2mn44admip"; r.Name() != want {
		t.Errorf("name %s, want %s", r.Name(), want)
	}
}

func TestControllerRevisionRoundTrip(t *testing.T) {
	owner := &v1alpha1.GatewayRelease{ObjectMeta: metav1.ObjectMeta{Name: "stable", UID: "u1"}}
	r, err := revision.New("stable", pinned(t, "registry.example.com/a"), "1.0", profile(template))
	if err != nil {
		t.Fatal(err)
	}
	stored := r.ControllerRevision("gatehouse-system", owner, 7)
	if stored.Name != r.Name() || stored.Namespace != "gatehouse-system" || stored.Revision != 7 || !metav1.IsControlledBy(stored, owner) {
		t.Errorf("stored as %+v", stored.ObjectMeta)
	}
	back, err := revision.FromControllerRevision(stored)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(back.Name(), r.Name()) || back.Image != r.Image || back.Tag != "1.0" || back.Release != "stable" {
		t.Errorf("read back %+v", back)
	}
	pod, err := back.Template()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := pod.Spec.Containers[0].Image, "registry.example.com/a@"+digest; got != want {
		t.Errorf("the container gateway runs %q, want %q", got, want)
	}
	if !pod.Spec.HostNetwork || pod.Labels["app"] != "edge" {
		t.Errorf("the template lost something: %+v", pod)
	}
}

func TestStoredContentThatIsNotItsNameIsRefused(t *testing.T) {
	r, err := revision.New("stable", pinned(t, "registry.example.com/a"), "1.0", profile(template))
	if err != nil {
		t.Fatal(err)
	}
	stored := r.ControllerRevision("gatehouse-system", &v1alpha1.GatewayRelease{}, 1)
	stored.Data.Raw = []byte(strings.ReplaceAll(string(stored.Data.Raw), "edge", "evil"))
	if _, err := revision.FromControllerRevision(stored); err == nil || !strings.Contains(err.Error(), "its content belongs to the name") {
		t.Errorf("got %v", err)
	}
	stored = r.ControllerRevision("gatehouse-system", &v1alpha1.GatewayRelease{}, 1)
	stored.Labels = nil
	if _, err := revision.FromControllerRevision(stored); err == nil {
		t.Error("a ControllerRevision without the label of a release was read")
	}
}

func TestProfilesThatCouldNotRunAreRefused(t *testing.T) {
	container := func(fields string) string {
		return `{"spec":{"containers":[{"name":"gateway"` + fields + `}]}}`
	}
	for _, c := range []struct {
		name     string
		template string
		want     []string
	}{
		{"nothing", ``, []string{`spec.template: is missing; write a pod template with a container "gateway"`}},
		{"no JSON", `{`, []string{`spec.template: unexpected end of JSON input; correct the value`}},
		{"unknown fields, all of them", `{"spek":{},"spec":{"containers":[{"name":"gateway","imagee":"x"}]}}`, []string{
			`spec.template.spek: unknown field; correct its spelling or remove it`,
			`spec.template.spec.containers[0].imagee: unknown field; correct its spelling or remove it`}},
		{"wrong case", `{"Spec":{}}`, []string{`spec.template.Spec: unknown field`}},
		{"repeated field", container(`,"args":[],"args":["b"]`), []string{`spec.template.spec.containers[0].args: duplicate field`}},
		{"wrong type", container(`,"ports":"8080"`), []string{`spec.template: `, `ports`, `; correct the value`}},
		{"no container gateway", `{"spec":{"containers":[{"name":"proxy","image":"a@` + digest + `"}]}}`, []string{
			`spec.template.spec.containers: no container is named "gateway"; name the one that runs the release's image so`}},
		{"two of them", `{"spec":{"containers":[{"name":"gateway"},{"name":"gateway"}]}}`, []string{
			`spec.template.spec.containers: 2 containers are named "gateway"; keep one`}},
		{"as an init container", `{"spec":{"initContainers":[{"name":"gateway"}],"containers":[{"name":"gateway"}]}}`, []string{
			`spec.template.spec.initContainers[0].name: "gateway" is the container in spec.containers`}},
		{"with an image", container(`,"image":"a:1"`), []string{
			`spec.template.spec.containers[0].image: the container "gateway" gets the image of its release; remove it`}},
		{"a sidecar by tag", `{"spec":{"containers":[{"name":"gateway"},{"name":"log","image":"fluentd:1.2"}]}}`, []string{
			`spec.template.spec.containers[1].image: image "docker.io/library/fluentd:1.2" is not pinned; write it with its digest: docker.io/library/fluentd:1.2@sha256:…`}},
		{"a sidecar that is malformed", `{"spec":{"containers":[{"name":"gateway"},{"name":"log","image":"Fluentd:1.2"}]}}`, []string{
			`spec.template.spec.containers[1].image: image repository "Fluentd": upper case "F"; a repository is written in lower case`}},
		{"an init container by tag", `{"spec":{"initContainers":[{"name":"init","image":"busybox:1"}],"containers":[{"name":"gateway"}]}}`, []string{
			`spec.template.spec.initContainers[0].image: image "docker.io/library/busybox:1" is not pinned`}},
		{"an image volume by tag", `{"spec":{"volumes":[{"name":"v","image":{"reference":"models:1"}}],"containers":[{"name":"gateway"}]}}`, []string{
			`spec.template.spec.volumes[0].image.reference: image "docker.io/library/models:1" is not pinned`}},
		{"an ephemeral container", `{"spec":{"ephemeralContainers":[{"name":"d","image":"a:1"}],"containers":[{"name":"gateway"}]}}`, []string{
			`spec.template.spec.ephemeralContainers: are for debugging a running pod; remove them`}},
		{"labels of Gatehouse", `{"metadata":{"labels":{"gatehouse.dev/gateway":"x","app.kubernetes.io/managed-by":"helm"}},"spec":{"containers":[{"name":"gateway"}]}}`, []string{
			`spec.template.metadata.labels[app.kubernetes.io/managed-by]: this label is set by Gatehouse; remove it`,
			`spec.template.metadata.labels[gatehouse.dev/gateway]: this label is set by Gatehouse; remove it`}},
		{"annotations of Gatehouse", `{"metadata":{"annotations":{"gatehouse.dev/config-hash":"x"}},"spec":{"containers":[{"name":"gateway"}]}}`, []string{
			`spec.template.metadata.annotations[gatehouse.dev/config-hash]: this annotation is set by Gatehouse; remove it`}},
		{"names of pods", `{"metadata":{"name":"a","namespace":"b"},"spec":{"containers":[{"name":"gateway"}]}}`, []string{
			`spec.template.metadata.name: pods are named by Kubernetes`, `spec.template.metadata.namespace: a pod runs in the namespace of its gateway`}},
		{"a service account", `{"spec":{"serviceAccountName":"admin","automountServiceAccountToken":true,"containers":[{"name":"gateway"}]}}`, []string{
			`spec.template.spec.serviceAccountName: every gateway has a ServiceAccount of its own`,
			`spec.template.spec.automountServiceAccountToken: use spec.serviceAccount.automountToken`}},
		{"a job's fields", `{"spec":{"restartPolicy":"Never","activeDeadlineSeconds":5,"containers":[{"name":"gateway"}]}}`, []string{
			`spec.template.spec.restartPolicy: "Never" is not possible in a Deployment`, `spec.template.spec.activeDeadlineSeconds`}},
		{"the configuration's volume", `{"spec":{"volumes":[{"name":"gatehouse-config","emptyDir":{}}],"containers":[{"name":"gateway"}]}}`, []string{
			`spec.template.spec.volumes[0].name: "gatehouse-config" is taken by the gateway's own configuration; choose another name`}},
		{"the configuration's folder", `{"spec":{"volumes":[{"name":"v","emptyDir":{}}],"containers":[{"name":"gateway","volumeMounts":[{"name":"v","mountPath":"/etc/gateway/"}]}]}}`, []string{
			`spec.template.spec.containers[0].volumeMounts[0].mountPath: "/etc/gateway/" is where spec.config.mountPath puts the gateway's configuration; choose another path`}},
		{"a variable twice", container(`,"env":[{"name":"A","value":"1"},{"name":"B"},{"name":"A","value":"2"}]`), []string{
			`spec.template.spec.containers[0].env[2]: has the name A of entry 0; keep one`}},
		{"a port twice", container(`,"ports":[{"name":"a","containerPort":80},{"name":"b","containerPort":80,"protocol":"TCP"}]`), []string{
			`spec.template.spec.containers[0].ports[1]: has the port 80/TCP of entry 0; keep one`}},
		{"too much", container(`,"args":["` + strings.Repeat("a", 600<<10) + `"]`), []string{`spec.template: has 600 KiB; shorten it to 512 KiB`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := revision.New("stable", pinned(t, "registry.example.com/a"), "1.0", profile(c.template))
			var profileError *revision.ProfileError
			if !errors.As(err, &profileError) {
				t.Fatalf("got %v, want a ProfileError", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q\ndoes not say %q", err, want)
				}
			}
		})
	}
}

func TestAnErrorListsSoManyProblemsAndCountsTheRest(t *testing.T) {
	var containers []string
	for range 12 {
		containers = append(containers, `{"name":"s","image":"a:1"}`)
	}
	_, err := revision.New("stable", pinned(t, "registry.example.com/a"), "", profile(`{"spec":{"containers":[{"name":"gateway"},`+strings.Join(containers, ",")+`]}}`))
	if err == nil || !strings.HasSuffix(err.Error(), "; and 4 more") {
		t.Errorf("got %v", err)
	}
}
