// Command gatehouse ships verified images to fleets of gateways, and tells the truth about it.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{
		Use:          "gatehouse",
		Short:        "Ship verified images to fleets of gateways, and tell the truth about it",
		SilenceUsage: true,
	}
	root.AddCommand(
		newDemoCommand(),
		newImageCommand(),
		newManagerCommand(),
	)
	if err := root.ExecuteContext(ctx); err != nil {
		os.Exit(exitStatus(err))
	}
}
