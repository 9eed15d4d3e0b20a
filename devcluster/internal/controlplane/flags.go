package controlplane

import (
	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"
)

func init() {
	// Every component applies the logging configuration of its own flags; in
	// one process the second would be an error.
	logsapi.ReapplyHandling = logsapi.ReapplyHandlingIgnoreUnchanged
}

// parse sets a component's flags as its command line would.
func parse(sets cliflag.NamedFlagSets, args ...string) error {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, set := range sets.FlagSets {
		fs.AddFlagSet(set)
	}
	return fs.Parse(args)
}
