package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/gatehouse-dev/gatehouse/devcluster/internal/node"
)

const usage = `devcluster runs a real Kubernetes control plane with one pretended node.

Usage:
  devcluster up --dir DIR [flags]

It prints "ready KUBECONFIG" when the node is Ready and serves until it gets
SIGTERM or SIGINT. Logs are in DIR/*.log.

Flags of up:
`

func main() {
	if len(os.Args) > 1 && os.Args[1] == node.ChildCommand {
		if err := node.RunChild(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "devcluster: kwok:", err)
			os.Exit(1)
		}
		return
	}
	err := run(os.Args[1:])
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, "devcluster:", err)
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "devcluster:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("see devcluster up --help")

func run(args []string) error {
	var o options
	fs := flag.NewFlagSet("devcluster up", flag.ContinueOnError)
	fs.SetOutput(os.Stderr)
	fs.Usage = func() { fmt.Fprint(os.Stderr, usage); fs.PrintDefaults() }
	fs.StringVar(&o.dir, "dir", "", "working `DIR`; made, and removed at the end, if it does not exist")
	fs.BoolVar(&o.apiServerOnly, "apiserver-only", false, "no controllers, no scheduler, no node: ready when /readyz is ok")
	fs.BoolVar(&o.audit, "audit", false, "write every mutating request to DIR/audit.log")
	fs.BoolVar(&o.noGC, "no-gc", false, "without the garbage collector: objects outlive their owners")
	fs.BoolVar(&o.untilStdinCloses, "until-stdin-closes", false, "stop as well when standard input ends, so that a starter that is killed leaves nothing behind")
	if len(args) == 0 || args[0] != "up" {
		fs.Usage()
		if len(args) > 0 && (args[0] == "-h" || args[0] == "--help" || args[0] == "help") {
			return nil
		}
		return fmt.Errorf("the command must be up; %w", errUsage)
	}
	if err := fs.Parse(args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return fmt.Errorf("%w; %w", err, errUsage)
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; %w", fs.Arg(0), errUsage)
	}
	if o.dir == "" {
		return fmt.Errorf("--dir is missing: name a directory for the cluster's files; %w", errUsage)
	}

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if o.untilStdinCloses {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		go func() {
			// The kernel closes the other end however the starter dies, so this
			// needs neither polling nor an operating system's own mechanism.
			_, _ = io.Copy(io.Discard, os.Stdin)
			cancel()
		}()
	}
	return up(ctx, o)
}
