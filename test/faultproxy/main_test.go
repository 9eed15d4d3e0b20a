package faultproxy_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/faultproxy"
)

var shared *cluster.Cluster

func TestMain(m *testing.M) {
	if os.Getenv(victimEnv) != "" {
		os.Exit(victim())
	}
	cluster.Main(m, cluster.Options{APIServerOnly: true, Audit: true}, &shared)
}

// bench is a service account that may do anything with ConfigMaps in a namespace, and whose way to the API server is
// through a proxy.
type bench struct {
	t         *testing.T
	options   faultproxy.Options
	proxy     *faultproxy.Proxy
	namespace string
	client    *kubernetes.Clientset // the service account's, through the proxy
	admin     *kubernetes.Clientset // past it
}

const account = "behind"

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, namespace: shared.Namespace(t, "proxied")}
	for _, err := range []error{
		shared.Client.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: b.named(account)}),
		shared.Client.Create(t.Context(), &rbacv1.Role{ObjectMeta: b.named(account), Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"*"}},
		}}),
		shared.Client.Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: b.named(account),
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: account, Namespace: b.namespace}},
		}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	kubeconfig, err := shared.TokenFor(t.Context(), b.namespace, account)
	if err != nil {
		t.Fatal(err)
	}
	b.options = faultproxy.Options{Kubeconfig: kubeconfig, Seed: faultproxy.Seed(t)}
	b.proxy = faultproxy.Start(t, b.options)
	b.client = clientset(t, b.config())
	b.admin = clientset(t, shared.Config)
	return b
}

// beside is the same bench by way of another proxy.
func (b *bench) beside() *bench {
	b.t.Helper()
	other := *b
	other.proxy = faultproxy.Start(b.t, b.options)
	other.client = clientset(b.t, other.config())
	return &other
}

func (b *bench) config() *rest.Config {
	b.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", b.proxy.Kubeconfig)
	if err != nil {
		b.t.Fatal(err)
	}
	config.QPS = -1
	config.ContentType = "application/vnd.kubernetes.protobuf" // as controllers do
	return config
}

func clientset(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (b *bench) named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: b.namespace, Name: name}
}

// create makes a ConfigMap through the proxy.
func (b *bench) create(name string) error {
	_, err := b.client.CoreV1().ConfigMaps(b.namespace).Create(b.t.Context(), &corev1.ConfigMap{ObjectMeta: b.named(name)}, metav1.CreateOptions{})
	return err
}

// make makes a ConfigMap past the proxy.
func (b *bench) make(names ...string) {
	b.t.Helper()
	for _, name := range names {
		if _, err := b.admin.CoreV1().ConfigMaps(b.namespace).Create(b.t.Context(), &corev1.ConfigMap{ObjectMeta: b.named(name)}, metav1.CreateOptions{}); err != nil {
			b.t.Fatal(err)
		}
	}
}

// stored are the ConfigMaps that exist.
func (b *bench) stored() []string {
	b.t.Helper()
	list, err := b.admin.CoreV1().ConfigMaps(b.namespace).List(b.t.Context(), metav1.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	var names []string
	for _, item := range list.Items {
		names = append(names, item.Name)
	}
	return names
}

func numbered(n int) []string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("c%02d", i))
	}
	return names
}

const soon = 20 * time.Second
