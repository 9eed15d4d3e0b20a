package demo_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/test/cluster"
)

// startUntil starts a demo and returns when it has printed a line that contains text. The rest is read and kept.
func startUntil(t *testing.T, cmd *exec.Cmd, text string) (output func() string) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var printed bytes.Buffer
	lines := bufio.NewReader(io.TeeReader(out, &printed))
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			_ = cmd.Wait()
			t.Fatalf("the demo ended before it printed %q:\n%s", text, printed.String())
		}
		if strings.Contains(line, text) {
			break
		}
	}
	rest := make(chan struct{})
	go func() {
		defer close(rest)
		_, _ = io.Copy(io.Discard, lines)
	}()
	return func() string { <-rest; return printed.String() }
}

// On a cluster that somebody has, the demo takes nothing over and removes all it has created, also when it is
// interrupted in the middle of a rollout.
func TestInterruptedOnSomebodysCluster(t *testing.T) {
	c := cluster.New(t, cluster.Options{})
	api := apiClient(t, c)
	before := inventory(t, api)

	cmd := command(t, "--kubeconfig", c.Kubeconfig)
	output := startUntil(t, cmd, "10 of 40 updated")
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	printed := output()
	if err := cmd.Wait(); err == nil {
		t.Errorf("an interrupted demo ended with status 0:\n%s", printed)
	}
	if !strings.Contains(printed, "interrupted") {
		t.Errorf("the demo does not say that it was interrupted:\n%s", printed)
	}
	assertEmpty(t, cmd)
	for name := range inventory(t, api) {
		if !before[name] {
			t.Errorf("%s is left", name)
		}
	}
}

// Where Gatehouse is installed the demo refuses, and touches nothing.
func TestRefusesWhereGatehouseIsInstalled(t *testing.T) {
	c := cluster.New(t, cluster.Options{})
	if err := c.Apply(t.Context(), "config/crd"); err != nil {
		t.Fatal(err)
	}
	api := apiClient(t, c)
	before, definitions := inventory(t, api), uids(t, api)

	out, err := command(t, "--kubeconfig", c.Kubeconfig).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "exists already") {
		t.Errorf("the demo was to refuse a cluster that has Gatehouse's definitions: %v\n%s", err, out)
	}
	for name, uid := range uids(t, api) {
		if definitions[name] != uid {
			t.Errorf("CustomResourceDefinition %s is another one than before", name)
		}
		delete(definitions, name)
	}
	for name := range definitions {
		t.Errorf("the demo has removed CustomResourceDefinition %s, which it had not created", name)
	}
	for name := range inventory(t, api) {
		if !before[name] {
			t.Errorf("%s is left", name)
		}
	}
}

func apiClient(t *testing.T, c *cluster.Cluster) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	api, err := client.New(c.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// inventory names what there is of the kinds that the demo creates in a cluster's own scope.
func inventory(t *testing.T, api client.Client) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, list := range []client.ObjectList{
		&corev1.NamespaceList{}, &rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{}, &apiextensionsv1.CustomResourceDefinitionList{},
		&admissionregistrationv1.ValidatingAdmissionPolicyList{}, &admissionregistrationv1.ValidatingAdmissionPolicyBindingList{},
	} {
		if err := api.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			found[fmt.Sprintf("%T %s", item, item.(client.Object).GetName())] = true
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

func uids(t *testing.T, api client.Client) map[string]string {
	t.Helper()
	var list apiextensionsv1.CustomResourceDefinitionList
	if err := api.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, definition := range list.Items {
		found[definition.Name] = string(definition.UID)
	}
	return found
}
