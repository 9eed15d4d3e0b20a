// Package inprocess is what tests share that run a controller in their own process, against a real API server: a manager
// that ends with the test, objects that go with it, and what was counted and sent. What a controller is, and what is to
// be expected of it, is its own test's.
package inprocess

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/gatehouse-dev/gatehouse/api/v1alpha1"
)

// Scheme has Kubernetes' kinds and Gatehouse's.
func Scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(s))
	utilruntime.Must(v1alpha1.AddToScheme(s))
	return s
}

// Client reads from the API server, and knows Gatehouse's kinds.
func Client(t testing.TB, config *rest.Config) client.WithWatch {
	t.Helper()
	c, err := client.NewWithWatch(config, client.Options{Scheme: Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Manager is one that the API server knows by an agent's name. Its metrics are not served, other managers may have
// controllers of the same names, and if it takes part in an election, it soon learns who won.
func Manager(t testing.TB, config *rest.Config, agent string, o manager.Options) manager.Manager {
	t.Helper()
	config = rest.CopyConfig(config)
	config.UserAgent = agent
	o.Scheme = Scheme()
	o.Logger = logr.Discard()
	o.Metrics = metricsserver.Options{BindAddress: "0"}
	o.Controller.SkipNameValidation = ptr.To(true)
	o.LeaderElectionID = "gatehouse"
	o.LeaderElectionReleaseOnCancel = true
	o.RetryPeriod = ptr.To(200 * time.Millisecond)
	mgr, err := ctrl.NewManager(config, o)
	if err != nil {
		t.Fatal(err)
	}
	return mgr
}

// Only has a cache hold some kinds of one namespace alone.
func Only(namespace string, kinds ...client.Object) cache.Options {
	o := cache.Options{ByObject: map[client.Object]cache.ByObject{}}
	for _, kind := range kinds {
		o.ByObject[kind] = cache.ByObject{Namespaces: map[string]cache.Config{namespace: {}}}
	}
	return o
}

// Run runs a manager until the test or stop ends it, which waits for its end.
func Run(t testing.TB, mgr manager.Manager) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil && !strings.Contains(err.Error(), "leader election lost") {
			t.Errorf("the manager ended: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}
