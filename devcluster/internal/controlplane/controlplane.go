package controlplane

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/gatehouse-dev/gatehouse/devcluster/internal/workdir"
)

// Options say what runs.
type Options struct {
	APIServerOnly bool
	Audit         bool
	NoGC          bool
}

// ControlPlane is a running control plane.
type ControlPlane struct {
	// Config is an administrator's.
	Config *rest.Config

	failed   chan error
	shutdown []func()
}

// stopTimeout bounds how long one component may take to stop. None keeps
// anything that would be lost.
const stopTimeout = 3 * time.Second

// Start returns when the API server is ready and the controllers are running.
// Unless it returns an error, Stop must be called.
func Start(ctx context.Context, dir *workdir.Dir, o Options) (_ *ControlPlane, err error) {
	c := &ControlPlane{failed: make(chan error, 3)} // one for each component, so that none blocks
	klog.OsExit = c.exit
	defer func() {
		if err != nil {
			c.Stop()
		}
	}()

	token, err := writeSecrets(dir)
	if err != nil {
		return nil, err
	}
	etcd, err := startEtcd(ctx, dir.File("etcd"), dir.Socket())
	if err != nil {
		return nil, err
	}
	c.shutdown = append(c.shutdown, etcd.Close)

	server, err := newAPIServer(ctx, dir, o.Audit)
	if err != nil {
		return nil, fmt.Errorf("kube-apiserver: %w", err)
	}
	if c.Config, err = writeKubeconfig(dir, server.url, token); err != nil {
		return nil, err
	}
	c.run("kube-apiserver", server.run)
	if err := c.While(ctx, func(ctx context.Context) error { return waitReady(ctx, c.Config) }); err != nil {
		return nil, err
	}
	if o.APIServerOnly {
		return c, nil
	}
	c.run("kube-controller-manager", func(ctx context.Context) error { return runControllerManager(ctx, dir, o.NoGC) })
	c.run("kube-scheduler", func(ctx context.Context) error { return runScheduler(ctx, dir) })
	return c, nil
}

// Failed delivers the error of a component that has ended by itself.
func (c *ControlPlane) Failed() <-chan error { return c.failed }

// Stop ends the components, last started first.
func (c *ControlPlane) Stop() {
	for i := len(c.shutdown) - 1; i >= 0; i-- {
		done := make(chan struct{})
		go func() { defer close(done); c.shutdown[i]() }()
		select {
		case <-done:
		case <-time.After(stopTimeout):
		}
	}
	c.shutdown = nil
}

// run starts a component under a context of its own, because the components
// must stop one after another and not all at once.
func (c *ControlPlane) run(name string, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := run(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("ended")
		}
		c.failed <- fmt.Errorf("%s: %w", name, err)
	}()
	c.shutdown = append(c.shutdown, func() { cancel(); <-done })
}

// exit stands in for os.Exit when a component's log ends the process, as they
// do when something they need is missing, and when they are stopped before
// they have started. The process must clean up first.
func (c *ControlPlane) exit(code int) {
	select {
	case c.failed <- fmt.Errorf("a component of Kubernetes gave up with exit status %d", code):
	default: // nobody listens any more
	}
	runtime.Goexit()
}

// While runs f and returns its error, or calls f off and returns the error of
// a component that has failed meanwhile.
func (c *ControlPlane) While(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	select {
	case err := <-done:
		return err
	case err := <-c.failed:
		cancel()
		<-done
		return err
	}
}
