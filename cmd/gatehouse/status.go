package main

import (
	"errors"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gatehouse-dev/gatehouse/internal/status"
)

func newStatusCommand() *cobra.Command {
	options := status.Options{Clock: clock.RealClock{}}
	var output string
	var wide bool
	cmd := &cobra.Command{
		Use:   "status [NAME...]",
		Short: "Show what each replica serves of each Executor",
		Long: `Show what each replica of Gatehouse serves of each Executor: of which generation, trusting what (INPUTS),
since when, and what is wrong; and which replicas do not serve.

It shows the cluster's Executors; with -n the NamespacedExecutors of a namespace; with -A all of both. It
needs the right to list them. With the right to list the pods and the executorpodstatuses of Gatehouse's
namespace it names replicas that do not serve, and tells errors in full; without, it says so.

With --watch it goes on, and shows what changes: on a terminal in place (q ends it), elsewhere by printing
the rows that are other than before.

The exit status is 0 if all that were asked about are Ready, 1 if any is not, and 2 if it cannot be told:
the cluster does not answer, a name is not there, a right is missing, or the command line is wrong. With
--watch it is that of what was shown last.`,
		Example: `  gatehouse status
  gatehouse status production -o wide
  gatehouse status -n tenant-a --watch
  gatehouse status -A -o json | jq -r '.items[] | select(.ready | not) | .name'`,
		Args: func(_ *cobra.Command, names []string) error {
			switch options.Output = status.Output(output); options.Output {
			case status.Table, status.Wide, status.JSON, status.YAML:
			default:
				return usageError("--output is %q; write wide, json or yaml, or leave it out", output)
			}
			switch {
			case wide && options.Output != status.Table && options.Output != status.Wide:
				return usageError("--wide is of the table, and --output is %s; leave one of them out", output)
			case wide:
				options.Output = status.Wide
			}
			if options.Namespace != "" && options.AllNamespaces {
				return usageError("--namespace and --all-namespaces contradict each other; leave one of them out")
			}
			for _, name := range names {
				if _, alone, found := strings.Cut(name, "/"); found {
					return usageError("%q is no name; write %s alone, and for a NamespacedExecutor --namespace besides", name, alone)
				}
			}
			if options.RequestTimeout < 0 {
				return usageError("--request-timeout is %s; write a duration such as 30s, or 0 for none", options.RequestTimeout)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			// What goes wrong is told in the answer, not in a library's log beside it.
			ctrllog.SetLogger(logr.Discard())
			klog.SetLogger(logr.Discard())
			options.Names = args
			options.In, options.Out, options.Err = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
			options.Terminal = options.Out == os.Stdout && term.IsTerminal(int(os.Stdout.Fd())) && term.IsTerminal(int(os.Stdin.Fd()))
			answer, err := status.Run(cmd.Context(), options)
			return statusOf(cmd, answer, err)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&options.Namespace, "namespace", "n", "", "show the NamespacedExecutors of this namespace instead of the cluster's Executors")
	flags.BoolVarP(&options.AllNamespaces, "all-namespaces", "A", false, "show the cluster's Executors and the NamespacedExecutors of all namespaces")
	flags.StringVarP(&output, "output", "o", "", "how to answer: wide, json or yaml (default: a table)")
	flags.BoolVar(&wide, "wide", false, "the same as -o wide: more columns, and errors in full")
	flags.BoolVarP(&options.Watch, "watch", "w", false, "go on, and show what changes")
	flags.StringVar(&options.Kubeconfig, "kubeconfig", "", "path of the cluster's kubeconfig (default: as kubectl finds it)")
	flags.StringVar(&options.Context, "context", "", "context of the kubeconfig (default: its current one)")
	flags.DurationVar(&options.RequestTimeout, "request-timeout", 30*time.Second, "how long to wait for each answer of the cluster; 0 for ever")
	flags.StringVar(&options.Home, "gatehouse-namespace", "gatehouse-system", "namespace that Gatehouse is installed in")
	return cmd
}

// statusOf ends the process with the status of an answer that has been printed, or of a question that could not be asked.
func statusOf(cmd *cobra.Command, answer status.Answer, err error) error {
	switch {
	case err != nil:
		return &statusError{statusUndecided, err}
	case answer == status.CannotTell:
		cmd.SilenceErrors = true
		return undecided(errors.New("it cannot be told"))
	case answer == status.NotReady:
		cmd.SilenceErrors = true
		return &statusError{statusNegative, errors.New("not every Executor is Ready")}
	default:
		return nil
	}
}
