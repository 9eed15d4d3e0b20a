package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Environment variables that choose the cluster.
const (
	KubeconfigEnv = "GATEHOUSE_TEST_KUBECONFIG" // use this cluster instead of starting one
	BinaryEnv     = "GATEHOUSE_DEVCLUSTER"      // start this binary instead of bin/devcluster
)

// UserAgent of Config, by which a test tells its own requests from others.
const UserAgent = "gatehouse-test"

// Options are those of devcluster up.
type Options struct {
	Audit         bool // needed by Mark and Writes
	APIServerOnly bool // no controllers, no node: the fastest start, for admission and storage
	NoGC          bool // owned objects outlive their owners; always starts a cluster
}

// Cluster is a running Kubernetes.
type Cluster struct {
	// Config is an administrator's, without a client-side rate limit.
	Config *rest.Config
	// Client reads from the API server; built-in kinds and unstructured objects.
	Client client.Client
	// Kubeconfig is the path of an administrator's kubeconfig.
	Kubeconfig string
	// Dir holds the cluster's logs, and kubeconfigs made by TokenFor. It is
	// removed when the cluster stops.
	Dir string

	options Options
	process *process // nil for a cluster that was running before
}

// Main runs the tests of a package against one cluster, which it puts into
// shared, and exits. Manifests are applied first, as Apply does. It is the body
// of a TestMain.
func Main(m *testing.M, o Options, shared **Cluster, manifests ...string) {
	// Without a logger controller-runtime prints a complaint and a stack. A
	// package that wants its logs sets one before.
	log.SetLogger(logr.Discard())
	c, err := Start(context.Background(), o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
	*shared = c
	code := 1
	if err := c.Apply(context.Background(), manifests...); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
	} else {
		code = m.Run()
	}
	if err := c.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// New starts a cluster for one test and stops it at its end.
func New(t testing.TB, o Options) *Cluster {
	t.Helper()
	c, err := Start(t.Context(), o)
	if err != nil {
		t.Fatalf("cluster: %v", err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Errorf("cluster: %v", err)
		}
	})
	return c
}

// Start returns a cluster that is ready. Stop must be called; if this process
// dies first, the cluster stops by itself.
func Start(ctx context.Context, o Options) (_ *Cluster, err error) {
	c := &Cluster{options: o}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()
	// No cluster that runs already is without a garbage collector.
	if path := os.Getenv(KubeconfigEnv); path != "" && !o.NoGC {
		if c.Kubeconfig, err = filepath.Abs(path); err != nil {
			return nil, err
		}
		if c.Dir, err = os.MkdirTemp("", "gatehouse-test-"); err != nil {
			return nil, err
		}
	} else {
		binary, err := Binary()
		if err != nil {
			return nil, err
		}
		if c.process, err = startProcess(ctx, binary, o); err != nil {
			return nil, err
		}
		c.Kubeconfig, c.Dir = c.process.kubeconfig, c.process.dir
	}
	if c.Config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig); err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", c.Kubeconfig, err)
	}
	c.Config.UserAgent = UserAgent
	c.Config.QPS = -1
	if c.Client, err = client.New(c.Config, client.Options{}); err != nil {
		return nil, err
	}
	return c, nil
}

// Stop ends the cluster that Start started and removes its files; a cluster
// that was running before goes on.
func (c *Cluster) Stop() error {
	switch {
	case c.process != nil:
		err := c.process.stop()
		c.process = nil
		return err
	case c.Dir != "":
		return os.RemoveAll(c.Dir)
	default:
		return nil
	}
}
