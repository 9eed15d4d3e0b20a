package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatehouse-dev/gatehouse/internal/lint"
	"github.com/gatehouse-dev/gatehouse/internal/ratify"
)

func newImportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Turn the manifests of other projects into Gatehouse's",
		Args:  noArguments,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newImportRatifyCommand())
	return cmd
}

func newImportRatifyCommand() *cobra.Command {
	options := ratify.Options{}
	cmd := &cobra.Command{
		Use:   "ratify FILE...",
		Short: "Turn Ratify's Executors into Gatehouse's",
		Long: `Turn Executors and NamespacedExecutors of Ratify (config.ratify.sh/v2alpha1, config.ratify.dev/v2alpha1)
into Gatehouse's, with the Secrets that they need, and write them to standard output as YAML.

Nothing that was refused before is let through after. What cannot be carried over is a warning; if it would
loosen what is required it is an error, and then nothing is written. Both go to standard error, as
file:line: kind/name: field: message. Manifests of other kinds are passed over.

The exit status is 0 if everything was turned (there may be warnings), 1 if anything was not, and 2 if the
command line is wrong or a file cannot be read.`,
		Example: `  gatehouse import ratify executor.yaml > gatehouse.yaml
  kubectl get executors.config.ratify.dev -o yaml | gatehouse import ratify -`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError("no file is given; write one, a folder, or - for standard input")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			linter, err := lint.New()
			if err != nil {
				return err
			}
			i := importer{options: options, batch: linter.Batch()}
			err = manifests(cmd.Context(), args, cmd.InOrStdin(), func(name string, data []byte) error {
				return i.file(cmd.Context(), name, data)
			})
			if err != nil {
				return err
			}
			if i.read == 0 && !i.failed {
				return usageError("no manifest in %s is an Executor or a NamespacedExecutor of Ratify's v2alpha1; name files that hold some", strings.Join(args, ", "))
			}
			for _, problem := range i.problems {
				fmt.Fprintln(cmd.ErrOrStderr(), problem)
			}
			if i.failed {
				cmd.SilenceErrors = true // each was told already
				return &statusError{statusNegative, errors.New("not every manifest could be turned")}
			}
			_, err = cmd.OutOrStdout().Write(i.out.Bytes())
			return err
		},
	}
	cmd.Flags().StringVar(&options.Namespace, "namespace", "gatehouse-system", "the namespace that Gatehouse runs in, for the Secrets of Executors")
	return cmd
}

// importer turns manifest after manifest.
type importer struct {
	options  ratify.Options
	batch    *lint.Batch // what has come out
	read     int
	failed   bool
	problems []lint.Problem
	out      bytes.Buffer
}

func (i *importer) tell(problem lint.Problem) {
	i.failed = i.failed || !problem.Warning
	i.problems = append(i.problems, problem)
}

func (i *importer) file(ctx context.Context, name string, data []byte) error {
	documents, faults := lint.ReadDocuments(data)
	for _, fault := range faults {
		fault.File = name
		i.tell(fault)
	}
	for _, d := range documents {
		apiVersion, _ := d.Object["apiVersion"].(string)
		kind, _ := d.Object["kind"].(string)
		if !ratify.Known(apiVersion, kind) {
			continue
		}
		i.read++
		if err := i.document(ctx, name, kind, d); err != nil {
			return err
		}
	}
	return nil
}

func (i *importer) document(ctx context.Context, file, kind string, d lint.Document) error {
	metadata, _ := d.Object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	result := ratify.Convert(d.Object, i.options)
	for _, note := range result.Notes {
		i.tell(lint.Problem{File: file, Line: d.Line(note.Field), Kind: kind, Name: name, Field: note.Field, Message: note.Message, Warning: note.Warning})
	}
	if result.Failed() {
		return nil
	}
	text, err := result.Encode()
	if err != nil {
		return err
	}
	// What comes out is put to the same rules as what a person writes. Two manifests may come to one name, as those of
	// Ratify's two groups do.
	for _, problem := range i.batch.Made(ctx, file, d.Line(""), text) {
		if !problem.Warning {
			problem.Message = "what comes out would be refused: " + problem.Message
			i.tell(problem)
		}
	}
	i.out.Write(text)
	return nil
}
