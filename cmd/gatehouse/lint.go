package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

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
input. Manifests of other kinds are passed over.

Each problem is one line: file:line: kind/name: field: message. With -o json it is one JSON object.

The exit status is 0 if nothing is wrong (there may be warnings), 1 if anything is, and 2 if the command
line is wrong or a file cannot be read.`,
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
			err = manifests(cmd.Context(), args, cmd.InOrStdin(), func(name string, data []byte) error {
				for _, problem := range linter.File(cmd.Context(), name, data) {
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

// manifests reads every file that the arguments stand for, in order.
func manifests(ctx context.Context, args []string, in io.Reader, next func(name string, data []byte) error) error {
	for _, arg := range args {
		if arg == "-" {
			data, err := interruptible(ctx, func() ([]byte, error) { return readBounded(in) })
			if err != nil {
				return usageError("read standard input: %w", err)
			}
			if err := next("<stdin>", data); err != nil {
				return err
			}
			continue
		}
		err := filepath.WalkDir(arg, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return usageError("%w", err)
			case entry.IsDir(), path != arg && !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)):
				return nil
			}
			if path != arg { // what is named can be a pipe; what is found must not make us wait
				if info, err := os.Stat(path); err != nil {
					return usageError("%w", err)
				} else if !info.Mode().IsRegular() {
					return usageError("%s is no regular file; name it to have it read, or remove it", path)
				}
			}
			data, err := interruptible(ctx, func() ([]byte, error) { return readManifest(path) })
			if err != nil {
				return usageError("%w", err)
			}
			return next(path, data)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func readManifest(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := readBounded(file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return data, nil
}

// readBounded reads a file that is as large as files of manifests are.
func readBounded(file io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(file, lint.MaxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > lint.MaxFile {
		return nil, fmt.Errorf("it is larger than %d MiB; split it", lint.MaxFile>>20)
	}
	return data, nil
}
