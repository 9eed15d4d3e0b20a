package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfigOf names a server that answers every list of Executors so, and every other with nothing.
func kubeconfigOf(t *testing.T, code int, executors string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/executors") {
			w.WriteHeader(code)
			fmt.Fprint(w, executors)
			return
		}
		fmt.Fprint(w, `{"apiVersion":"v1","kind":"List","items":[]}`)
	}))
	t.Cleanup(server.Close)
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: server.URL}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c"}
	config.CurrentContext = "c"
	path := filepath.Join(t.TempDir(), "config")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestStatus(t *testing.T) {
	list := func(status string) string {
		return `{"apiVersion":"gatehouse.dev/v1alpha1","kind":"ExecutorList","items":[{"metadata":{"name":"production","uid":"u","generation":2},
			"status":{"observedGeneration":2,"replicas":{"expected":1,"ready":1,"summary":"1/1"},"conditions":[{"type":"Ready","status":"` + status + `","observedGeneration":2}]}}]}`
	}
	ready, broken := kubeconfigOf(t, http.StatusOK, list("True")), kubeconfigOf(t, http.StatusOK, list("False"))
	forbidden := kubeconfigOf(t, http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"no \u001b[31m"}`)
	tests := []struct {
		name   string
		args   []string
		status int
		want   string
	}{
		{"all are Ready", []string{"--kubeconfig", ready}, 0, "production   1/1     2"},
		{"one is not Ready", []string{"--kubeconfig", broken}, statusNegative, "production   1/1     2"},
		{"wide", []string{"--kubeconfig", ready, "--wide"}, 0, "MODE"},
		{"as JSON", []string{"--kubeconfig", ready, "-o", "json"}, 0, `"kind": "ExecutorReplicasList"`},
		{"as YAML", []string{"--kubeconfig", broken, "-o", "yaml"}, statusNegative, "ready: false"},
		{"a name that is not there", []string{"--kubeconfig", ready, "staging"}, statusUndecided, `error: Executor "staging" not found`},
		{"what may not be read", []string{"--kubeconfig", forbidden}, statusUndecided, `error: executors.gatehouse.dev cannot be read: no \u001b[31m`},
		{"no cluster", []string{"--kubeconfig", filepath.Join(t.TempDir(), "gone")}, statusUndecided, "gone"},
		{"no such context", []string{"--kubeconfig", ready, "--context", "other"}, statusUndecided, "other"},
		{"no such output", []string{"-o", "xml"}, statusUsage, "write wide, json or yaml"},
		{"wide and JSON", []string{"--wide", "-o", "json"}, statusUsage, "leave one of them out"},
		{"one namespace and all", []string{"-A", "-n", "a"}, statusUsage, "leave one of them out"},
		{"a name with its namespace", []string{"tenant-a/own"}, statusUsage, "write own alone, and for a NamespacedExecutor --namespace besides"},
		{"a timeout before now", []string{"--request-timeout", "-1s"}, statusUsage, "write a duration such as 30s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, status := run(t, "", append([]string{"status"}, tt.args...)...)
			if status != tt.status || !strings.Contains(out, tt.want) {
				t.Errorf("exit status %d, want %d; printed\n%s\nwant %s", status, tt.status, out, tt.want)
			}
		})
	}
}

func TestHelpOfStatus(t *testing.T) {
	out, status := run(t, "", "status", "--help")
	if status != 0 {
		t.Fatalf("exit status %d", status)
	}
	for _, part := range []string{
		"gatehouse status [NAME...] [flags]", "  gatehouse status -n tenant-a --watch", "The exit status is 0 if all", "and 2 if it cannot be told",
		"-n, --namespace", "-A, --all-namespaces", "-w, --watch", "-o, --output", "--wide", "--kubeconfig", "--context", "--request-timeout", "--gatehouse-namespace",
	} {
		if !strings.Contains(out, part) {
			t.Errorf("%q is not in\n%s", part, out)
		}
	}
}

// kubectl finds the binary under the plugin's name, and its users are told what they have to write.
func TestAKubectlPlugin(t *testing.T) {
	for program, want := range map[string]string{
		"/usr/local/bin/kubectl-gatehouse": "kubectl gatehouse",
		"kubectl-gatehouse.exe":            "kubectl gatehouse",
		"/usr/local/bin/gatehouse":         "gatehouse",
	} {
		for _, command := range []string{"status", "verify"} {
			root := calledAs(newRootCommand(), program)
			var out bytes.Buffer
			root.SetOut(&out)
			root.SetArgs([]string{command, "--help"})
			if err := root.ExecuteContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			usage, examples := "\n  "+want+" "+command+" ", strings.Count(out.String(), "\n  "+want+" ")
			if !strings.Contains(out.String(), usage) || examples < 2 || want != "gatehouse" && strings.Contains(out.String(), "\n  gatehouse ") {
				t.Errorf("%s %s: %d lines begin with %q in\n%s", program, command, examples, want, out.String())
			}
		}
	}
}

// The binary looks at the name that it was called by.
func TestTheBinaryUnderThePluginsName(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, plugin)
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), link, "status", "--help")
	command.Env = append(os.Environ(), asGatehouse+"=1")
	out, err := command.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "\n  kubectl gatehouse status [NAME...] [flags]\n") {
		t.Errorf("%v, printed\n%s", err, out)
	}
}

// asGatehouse makes this test binary the product.
const asGatehouse = "GATEHOUSE_TEST_AS_GATEHOUSE"

func TestMain(m *testing.M) {
	if os.Getenv(asGatehouse) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}
