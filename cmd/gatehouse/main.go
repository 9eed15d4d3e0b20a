// Command gatehouse ships images to fleets of gateways, and tells the truth about it.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	_ "golang.org/x/crypto/x509roots/fallback" // certificate authorities, where the system has none
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := calledAs(newRootCommand(), os.Args[0]).ExecuteContext(ctx); err != nil {
		os.Exit(exitStatus(err))
	}
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:          "gatehouse",
		Short:        "Ship images to fleets of gateways, and tell the truth about it",
		SilenceUsage: true,
		Args:         noArguments,
		RunE:         func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		SuggestionsMinimumDistance: 2,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError("%w", err) })
	root.AddCommand(
		newDemoCommand(),
		newImageCommand(),
		newImportCommand(),
		newLintCommand(),
		newManagerCommand(),
		newStatusCommand(),
		newVerifyCommand(),
	)
	return root
}
