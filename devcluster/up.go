package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gatehouse-dev/gatehouse/devcluster/internal/controlplane"
	"github.com/gatehouse-dev/gatehouse/devcluster/internal/node"
	"github.com/gatehouse-dev/gatehouse/devcluster/internal/workdir"
)

type options struct {
	dir              string
	apiServerOnly    bool
	audit            bool
	noGC             bool
	untilStdinCloses bool
}

const (
	// A start takes about three seconds; a machine that is busy with much else
	// has been seen to need thirty.
	startTimeout = 3 * time.Minute
	logFile      = "devcluster.log"
	logTail      = 4 << 10
)

// up runs a cluster until ctx is done or a component fails.
func up(ctx context.Context, o options) (err error) {
	dir, err := workdir.Open(o.dir)
	if err != nil {
		return err
	}
	streams, err := dir.Divert(logFile)
	if err != nil {
		return errors.Join(err, dir.Remove())
	}
	defer func() {
		if err != nil {
			// The log may be about to go with its directory.
			err = fmt.Errorf("%w\n--- end of %s:\n%s", err, logFile, dir.Tail(logFile, logTail))
		}
		err = errors.Join(err, dir.Remove())
		streams.Restore()
	}()

	startCtx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	plane, err := controlplane.Start(startCtx, dir, controlplane.Options{
		APIServerOnly: o.apiServerOnly,
		Audit:         o.audit,
		NoGC:          o.noGC,
	})
	if err != nil {
		return stopped(ctx, err)
	}
	defer plane.Stop()
	kubeconfig := dir.File(controlplane.KubeconfigFile)
	if !o.apiServerOnly {
		var n *node.Node
		err := plane.While(startCtx, func(ctx context.Context) (err error) {
			n, err = node.Start(ctx, dir, kubeconfig, plane.Config)
			return err
		})
		if n != nil {
			defer n.Stop()
		}
		if err != nil {
			return stopped(ctx, err)
		}
	}
	if err := streams.Say("ready " + kubeconfig); err != nil {
		return fmt.Errorf("standard output: %w", err)
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-plane.Failed():
		return err
	}
}

// stopped tells a start that was called off, which is no failure, from one
// that failed.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
