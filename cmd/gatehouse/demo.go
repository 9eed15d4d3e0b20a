package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gatehouse-dev/gatehouse/internal/demo"
)

func newDemoCommand() *cobra.Command {
	options := demo.Options{Out: os.Stdout, Err: os.Stderr}
	var output string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch edits of one release reach forty gateways on a real Kubernetes",
		Long: `Watch edits of one release reach forty gateways on a real Kubernetes.

Without flags the demo brings everything with it: a Kubernetes control plane
(devcluster), a registry, images, and three replicas of the manager as
processes with the rights of its ServiceAccount. It walks through a first
rollout, edits, a malformed image, a bad image, an Executor that does not
build, and replicas that die, multiply and restart, checks what it shows, and exits with status 0
only if every step was seen to hold. It lives in a temporary directory and
leaves nothing behind.

With --kubeconfig it runs on a cluster that you have, on which Gatehouse is not
installed: as an administrator it creates CRDs, roles, policies, the namespace
gatehouse-system, and namespaces gatehouse-demo-tenant-a to -d with forty small
pods, takes over nothing that exists, and removes in the end what it has
created. The replicas run on this machine. If the nodes really run pods, they
pull the images, made from --base-image, from the registry that --registry
names: you can push to it, and it can be read without credentials by the nodes
and from here.`,
		Example: `  gatehouse demo
  gatehouse demo --keep
  gatehouse demo --output json 2>/dev/null | jq .steps
  gatehouse demo --kubeconfig ~/.kube/config --registry registry.example.com/scratch`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch output {
			case "text":
				options.Terminal = term.IsTerminal(int(os.Stdout.Fd()))
			case "json":
				options.JSON = true
			default:
				return usageError("--output is %q; write text or json", output)
			}
			var err error
			if options.Gatehouse, err = os.Executable(); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGHUP)
			defer stop()
			// The first signal ends the demo in order; another one, at once.
			context.AfterFunc(ctx, func() { signal.Reset(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP) })
			// The story is told by the demo alone; what goes wrong reaches it as errors.
			ctrllog.SetLogger(logr.Discard())
			klog.SetLogger(logr.Discard())
			cmd.SilenceErrors = true // said below, unless it has been said in the story
			err = demo.Run(ctx, options)
			if err != nil && !errors.Is(err, demo.ErrNotHeld) {
				fmt.Fprintln(os.Stderr, "gatehouse demo:", err)
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&output, "output", "o", "text", "text, or json: progress on stderr, one last line of JSON on stdout")
	flags.BoolVar(&options.Keep, "keep", false, "leave everything running after the last step, until Ctrl-C, and print how to look around")
	flags.StringVar(&options.Devcluster, "devcluster", "", "path of the devcluster binary (default: beside gatehouse, then in PATH)")
	flags.StringVar(&options.Kubeconfig, "kubeconfig", "", "run on the cluster of this kubeconfig")
	flags.StringVar(&options.Registry, "registry", "", "where to push images with --kubeconfig: HOST[:PORT]/PATH")
	flags.BoolVar(&options.PlainHTTP, "registry-plain-http", false, "reach --registry without TLS")
	flags.StringVar(&options.BaseImage, "base-image", demo.DefaultBaseImage, "what images for --registry are made from")
	return cmd
}
