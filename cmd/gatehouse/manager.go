package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/gatehouse-dev/gatehouse/internal/app"
)

func newManagerCommand() *cobra.Command {
	config := app.Config{}
	command := &cobra.Command{
		Use:   "manager",
		Short: "Run the control plane",
		Long: `Run the control plane: resolve the images of releases, move their gateways in a window, and keep
what runs as it should be.

It needs the roles of config/rbac in the cluster. Out of a cluster, give it a kubeconfig. Traces are
exported when OTEL_EXPORTER_OTLP_ENDPOINT is set.`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			return app.Run(command.Context(), config, os.Stderr)
		},
	}
	config.AddFlags(command.Flags())
	return command
}
