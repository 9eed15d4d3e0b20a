package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"k8s.io/klog/v2"

	"github.com/gatehouse-dev/gatehouse/devcluster/internal/workdir"
)

const (
	// A kwok that panics does so again with the next pod event, for as long as
	// the Stage at fault is there.
	firstPause = 100 * time.Millisecond
	maxPause   = 2 * time.Second
	// A run this long is no crash loop.
	settled = 10 * time.Second
)

// supervisor keeps one kwok running.
type supervisor struct {
	dir        *workdir.Dir
	kubeconfig string
	program    string
}

// run starts kwok again whenever it ends, until ctx is done.
func (s *supervisor) run(ctx context.Context) {
	pause := firstPause
	for ctx.Err() == nil {
		started := time.Now()
		err := s.once(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(started) > settled {
			pause = firstPause
		}
		klog.ErrorS(err, "kwok ended and is started again; see kwok.log", "pause", pause)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, maxPause)
	}
}

// once runs kwok until it ends or ctx is done.
func (s *supervisor) once(ctx context.Context) error {
	log, err := os.OpenFile(s.dir.File("kwok.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.CommandContext(ctx, s.program, ChildCommand,
		"--kubeconfig="+s.kubeconfig,
		"--manage-all-nodes=true",
		// Without a lease on the node: a kwok that has one passes over the pods
		// that it sees before its cache has the lease, and does not look again.
		"--node-lease-duration-seconds=0",
		"--cidr=10.1.0.0/16",
		"--enable-crds=Stage",
	)
	cmd.Stdout, cmd.Stderr = log, log
	// Somebody's own kwok configuration is not for this cluster.
	cmd.Env = append(os.Environ(), "KWOK_WORKDIR="+s.dir.File("kwok"))
	// Ctrl-C in a terminal goes to the whole group; the order of stopping is ours.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	alive, err := cmd.StdinPipe() // never written to; its end is the child's end
	if err != nil {
		return err
	}
	defer func() { _ = alive.Close() }()
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("kwok: %w", err)
	}
	return errors.New("kwok ended")
}
