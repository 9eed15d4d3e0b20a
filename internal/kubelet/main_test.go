package kubelet

import (
	"context"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gatehouse-dev/gatehouse/test/cluster"
)

var shared *cluster.Cluster

// stateEnv makes this test binary a process of a pod: it serves /readyz by whether a file is there, and says in others
// who it is and how it was asked to end.
const stateEnv = "KUBELET_TEST_STATE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(stateEnv); dir != "" {
		os.Exit(pretend(filepath.Join(dir, os.Getenv("POD_NAME"))))
	}
	cluster.Main(m, cluster.Options{APIServerOnly: true}, &shared)
}

func pretend(state string) int {
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	flags := map[string]string{}
	for _, argument := range os.Args[1:] {
		name, value, _ := strings.Cut(argument, "=")
		flags[name] = value
	}
	config, err := clientcmd.BuildConfigFromFlags("", flags["--kubeconfig"])
	if err != nil {
		return 2
	}
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		return 2
	}
	review, err := c.AuthenticationV1().SelfSubjectReviews().Create(stop, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return 2
	}
	said := strings.Join([]string{os.Args[1], flags["--more"], os.Getenv("POD_UID"), strings.Join(review.Status.UserInfo.Extra["authentication.kubernetes.io/pod-uid"], ",")}, " ")
	if os.WriteFile(state+".said", []byte(said), 0o600) != nil {
		return 2
	}
	go func() {
		_ = http.ListenAndServe(flags["--health-probe-bind-address"], http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if _, err := os.Stat(state + ".ready"); err != nil {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}))
	}()
	<-stop.Done()
	// Not before the test has seen the pod while it ends.
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for range ticker.C {
		if _, err := os.Stat(state + ".mayend"); err == nil {
			return 0
		}
	}
	return 2
}
