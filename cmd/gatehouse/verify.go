package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatehouse-dev/gatehouse/internal/executor"
	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/lint"
	"github.com/gatehouse-dev/gatehouse/internal/offline"
	"github.com/gatehouse-dev/gatehouse/internal/registry"
	"github.com/gatehouse-dev/gatehouse/internal/verify"
)

// statusUndecided is that of a question that could not be decided.
const statusUndecided = statusUsage

// verifyFlags are the flags of gatehouse verify.
type verifyFlags struct {
	files      []string
	secretDir  string
	layoutRoot string
	namespace  string
	own        string
	output     string
	reach      registry.Reach
}

func newVerifyCommand() *cobra.Command {
	var flags verifyFlags
	cmd := &cobra.Command{
		Use:   "verify IMAGE -f FILE...",
		Short: "Verify an image by Executors in files, without a cluster",
		Long: `Verify an image as Gatehouse would if the Executors in the files were those of the cluster: the most
specific scope decides which of them judge it, and all that enforce must pass. A tag is resolved first.

Secrets and ConfigMaps that an Executor names are looked for in the files, and in --secret-dir, as files
DIR/NAME/KEY. NamespacedExecutors take part with --namespace, or if all of them are in one.

The exit status is 0 if the image passed, 1 if it failed, and 2 if it could not be decided: a registry
did not answer, no Executor enforces for the image, or the command line or a file is wrong.`,
		Example: `  gatehouse verify -f executor.yaml --secret-dir ./secrets registry.example.com/team/app:1.4.2
  gatehouse verify -f executor.yaml -o json registry.example.com/team/app@sha256:… | jq .succeeded`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) != 1:
				return usageError("%d images are given; write one", len(args))
			case len(flags.files) == 0:
				return usageError("no Executor is given; name its file with -f")
			case flags.output != "text" && flags.output != "json":
				return usageError("--output is %q; write text or json", flags.output)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			subject, verdict, err := flags.verify(cmd, args[0])
			if cmd.Context().Err() != nil {
				err = errInterrupted
			}
			if err != nil {
				return undecided(err)
			}
			if err := printVerdict(cmd.OutOrStdout(), flags.output, subject, verdict); err != nil {
				return err
			}
			if verdict.Outcome == verify.Passed {
				return nil
			}
			cmd.SilenceErrors = true // the verdict was told
			if verdict.Outcome == verify.Failed {
				return &statusError{statusNegative, errors.New("the image failed")}
			}
			return undecided(errors.New("it could not be decided"))
		},
	}
	cmd.Flags().StringSliceVarP(&flags.files, "file", "f", nil, "file or folder with Executors, and the Secrets and ConfigMaps that they name; - is standard input")
	cmd.Flags().StringVar(&flags.secretDir, "secret-dir", "", "folder with the Secrets and ConfigMaps that Executors name, as files NAME/KEY")
	cmd.Flags().StringVar(&flags.layoutRoot, "oci-layout-root", "", "folder that stores of kind ociLayout are under")
	cmd.Flags().StringVarP(&flags.namespace, "namespace", "n", "", "namespace whose NamespacedExecutors take part; default: the only one that is in the files")
	cmd.Flags().StringVar(&flags.own, "gatehouse-namespace", "gatehouse-system", "namespace of the Secrets and ConfigMaps that Executors name")
	cmd.Flags().StringVarP(&flags.output, "output", "o", "text", "how to answer: text, a tree; or json")
	cmd.Flags().BoolVar(&flags.reach.Loopback, "registry-allow-loopback", false, "let registries be at loopback addresses")
	cmd.Flags().BoolVar(&flags.reach.Private, "registry-allow-private", true, "let registries be at addresses of private networks")
	return cmd
}

// undecided ends the process with the status of what could not be decided.
func undecided(err error) error {
	var withStatus *statusError
	if errors.As(err, &withStatus) {
		return err
	}
	return &statusError{statusUndecided, err}
}

func (f *verifyFlags) verify(cmd *cobra.Command, text string) (image.Pinned, executor.Verdict, error) {
	ref, err := image.Parse(text)
	if err != nil {
		return image.Pinned{}, executor.Verdict{}, err
	}
	if err := f.layouts(); err != nil {
		return image.Pinned{}, executor.Verdict{}, err
	}
	set, err := f.read(cmd)
	if err != nil {
		return image.Pinned{}, executor.Verdict{}, err
	}
	if namespaces := set.Namespaces(); f.namespace == "" && len(namespaces) == 1 {
		f.namespace = namespaces[0]
	}
	client := registry.New(registry.Options{Reach: f.reach})
	defer client.Close()
	judges, err := set.Compile(f.secretDir, f.own, executor.Tools{Registry: client, LayoutRoot: f.layoutRoot})
	if err != nil {
		return image.Pinned{}, executor.Verdict{}, err
	}
	subject, err := resolve(cmd.Context(), client, judges, ref, f.namespace)
	if err != nil {
		return image.Pinned{}, executor.Verdict{}, err
	}
	return subject, judges.Verify(cmd.Context(), subject, f.namespace), nil
}

// layouts says whether OCI layouts can be looked for where they are said to be.
func (f *verifyFlags) layouts() error {
	if f.layoutRoot == "" {
		return nil
	}
	switch info, err := os.Stat(f.layoutRoot); {
	case err != nil:
		return usageError("--oci-layout-root %w", unreadable(f.layoutRoot, err))
	case !info.IsDir():
		return usageError("--oci-layout-root %s: not a directory; name the folder that OCI layouts are under", f.layoutRoot)
	}
	return nil
}

// resolve finds the digest of a tag, at the registry as the Executors reach it.
func resolve(ctx context.Context, client *registry.Client, judges *offline.Judges, ref image.Reference, namespace string) (image.Pinned, error) {
	digest := ref.Digest()
	if digest.IsZero() {
		access, judged := judges.Access(ref, namespace)
		if !judged {
			return image.Pinned{}, fmt.Errorf("no Executor has %s in scope; add it to the scopes of one", ref.Repository())
		}
		var err error
		if digest, err = client.Resolve(ctx, ref, access); err != nil {
			return image.Pinned{}, err
		}
	}
	return ref.WithDigest(digest), nil
}

func (f *verifyFlags) read(cmd *cobra.Command) (*offline.Set, error) {
	linter, err := lint.New()
	if err != nil {
		return nil, err
	}
	set := &offline.Set{}
	batch := linter.Batch()
	wrong := false
	err = manifests(cmd.Context(), f.files, cmd.InOrStdin(), func(name string, data []byte) error {
		problems, err := set.Read(cmd.Context(), batch, name, data)
		for _, problem := range problems {
			wrong = true
			fmt.Fprintln(cmd.ErrOrStderr(), problem)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if wrong {
		return nil, usageError("not every manifest is well, and an image is verified by all of them or by none")
	}
	if set.Empty() {
		return nil, usageError("no manifest in %s is an Executor or a NamespacedExecutor of gatehouse.dev; name the file of one with -f", strings.Join(f.files, ", "))
	}
	return set, nil
}

// verdictAnswer is a verdict in JSON.
type verdictAnswer struct {
	Image     string          `json:"image"`
	Succeeded bool            `json:"succeeded"`
	Outcome   verify.Outcome  `json:"outcome"`
	Message   string          `json:"message"`
	Reports   []verify.Report `json:"reports"`
}

func printVerdict(out io.Writer, output string, subject image.Pinned, verdict executor.Verdict) error {
	if output == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		return encoder.Encode(verdictAnswer{
			Image: subject.String(), Succeeded: verdict.Outcome == verify.Passed, Outcome: verdict.Outcome,
			Message: verdict.Message, Reports: verdict.Reports,
		})
	}
	_, err := fmt.Fprintln(out, offline.Tree(subject, verdict))
	return err
}
