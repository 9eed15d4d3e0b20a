package cluster

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// silence is how long a request may be unanswered before the server is taken
// for suspended.
const silence = 500 * time.Millisecond

// Suspend stops the API server in its tracks and returns when it has stopped:
// connections stay open and nothing is answered. It is for tests of an API
// server that goes away.
func (c *Cluster) Suspend(ctx context.Context) error {
	if err := c.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	// The signal reaches the threads of the process one after another.
	for {
		asked, cancel := context.WithTimeout(ctx, silence)
		err := c.Client.Get(asked, client.ObjectKey{Name: "default"}, &corev1.Namespace{})
		cancel()
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("the API server still answers: %w", ctx.Err())
		case errors.Is(err, context.DeadlineExceeded):
			return nil
		}
	}
}

// Resume lets the API server go on.
func (c *Cluster) Resume() error { return c.signal(syscall.SIGCONT) }

func (c *Cluster) signal(s syscall.Signal) error {
	if c.process == nil {
		return fmt.Errorf("%s is set: only a cluster that the test has started can be suspended", KubeconfigEnv)
	}
	return c.process.cmd.Process.Signal(s)
}
