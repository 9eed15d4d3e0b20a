package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatehouse-dev/gatehouse/internal/lint"
)

func newLintCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "lint FILE...",
		Short: "Check manifests without a cluster",
		Long: `Check manifests of Gatehouse's kinds as the API server and the controllers would: schema, rules,
image references, pod templates, and that Executors compile. What is legal and weak is a warning.

A FILE is YAML or JSON; a folder stands for the .yaml, .yml and .json files in it and below; - is standard
input. They are checked as what is applied together: what they hold twice under one name is wrong. Manifests
of other kinds are passed over.

Each problem is one line: file:line: kind/name: field: message. With -o json it is one JSON object.

The exit status is 0 if nothing is wrong (there may be warnings), 1 if anything is, and 2 if the command
line is wrong, a file cannot be read, or no manifest is found.`,
		Example: `  gatehouse lint config/samples
  kustomize build . | gatehouse lint -`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError("no file is given; write one, a folder, or - for standard input")
			}
			if output != "text" && output != "json" {
				return usageError("--output is %q; write text or json", output)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			linter, err := lint.New()
			if err != nil {
				return err
			}
			wrong := false
			batch := linter.Batch()
			err = manifests(cmd.Context(), args, cmd.InOrStdin(), func(name string, data []byte) error {
				for _, problem := range batch.File(cmd.Context(), name, data) {
					wrong = wrong || !problem.Warning
					if err := printProblem(cmd.OutOrStdout(), output, problem); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
			if wrong {
				cmd.SilenceErrors = true // each was told already
				return &statusError{statusNegative, errors.New("not every manifest is well")}
			}
			if batch.Manifests == 0 {
				return usageError("no manifest is in %s; name files or folders that hold some", strings.Join(args, ", "))
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "how to answer: text, or json (one object per line)")
	return cmd
}

func printProblem(out io.Writer, output string, problem lint.Problem) error {
	if output == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		return encoder.Encode(problem)
	}
	_, err := fmt.Fprintln(out, problem)
	return err
}
