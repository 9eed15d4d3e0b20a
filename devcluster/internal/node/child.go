package node

import (
	"context"
	"io"
	"os"

	"github.com/spf13/pflag"
	"sigs.k8s.io/kwok/pkg/config"
	"sigs.k8s.io/kwok/pkg/kwok/cmd"
	"sigs.k8s.io/kwok/pkg/log"
)

// ChildCommand is the hidden first argument with which the binary becomes kwok.
const ChildCommand = "kwok"

// RunChild is kwok. It ends when its standard input does, which is when the
// process that started it is gone, however it went.
func RunChild(args []string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()

	// kwok reads the process's arguments in more than one place, and takes its
	// name from them for its user agent.
	os.Args = append([]string{"kwok"}, args...)
	flags := pflag.NewFlagSet("kwok", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.Usage = func() {}
	ctx, _ = log.InitFlags(ctx, flags)
	ctx, err := config.InitFlags(ctx, flags)
	if err != nil {
		return err
	}
	command := cmd.NewCommand(ctx)
	// Kubernetes defines a --version that is no bool, over which kwok's
	// command stumbles if it has a version of its own.
	command.Version = ""
	command.PersistentFlags().AddFlagSet(flags)
	return command.ExecuteContext(ctx)
}
