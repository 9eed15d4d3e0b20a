// Command gatehouse ships verified images to fleets of gateways.
package main

import (
	"os"

	"github.com/spf13/cobra"
)

func main() {
	root := &cobra.Command{
		Use:          "gatehouse",
		Short:        "Ship verified images to fleets of gateways, and tell the truth about it",
		SilenceUsage: true,
	}
	root.AddCommand(newImageCommand())
	if err := root.Execute(); err != nil {
		os.Exit(exitStatus(err))
	}
}
