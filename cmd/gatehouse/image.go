package main

import (
	"bufio"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/gatehouse-dev/gatehouse/internal/image"
	"github.com/gatehouse-dev/gatehouse/internal/registry"
)

// Bounds of what is read, in bytes.
const (
	maxImageLine = 64 << 10
	maxFlagFile  = 1 << 20
)

// imageAnswer is what is said of one reference. The first four fields are
// always there.
type imageAnswer struct {
	Input     string `json:"input"`
	OK        bool   `json:"ok"`
	Canonical string `json:"canonical"`
	Reason    string `json:"reason"`
	Digest    string `json:"digest,omitempty"`
}

// imageFlags are the flags of gatehouse image.
type imageFlags struct {
	output       string
	stdin        bool
	resolve      bool
	plainHTTP    bool
	caFile       string
	dockerConfig string
}

func newImageCommand() *cobra.Command {
	var flags imageFlags
	cmd := &cobra.Command{
		Use:   "image [REF...]",
		Short: "Say what an image reference means, or what is wrong with it",
		Long: `Print the canonical form of each reference, or the reason why it is none.

With --stdin, read one JSON string per line and answer each with one JSON object
per line: {"input":…,"ok":…,"canonical":…,"reason":…}. With --resolve, ask the
registry and add the digest.

The exit status is 0 if all are well, 1 if any is not, and 2 if the command line
is wrong.`,
		Example: `  gatehouse image nginx:1.27 registry.example.com/team/gateway:1.4.2
  gatehouse image --resolve --docker-config ~/.docker/config.json registry.example.com/team/gateway:1.4.2
  echo '"nginx:1.27"' | gatehouse image --stdin`,
		Args: func(_ *cobra.Command, args []string) error { return flags.check(args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			resolve, err := flags.resolver()
			if err != nil {
				return err
			}
			answers := imageAnswers{
				parse: func(input string) imageAnswer { return answerImage(cmd.Context(), input, resolve) },
				print: printer(cmd.OutOrStdout(), flags.stdin || flags.output == "json"),
			}
			if flags.stdin {
				_, err = interruptible(cmd.Context(), func() (struct{}, error) { return struct{}{}, answers.lines(cmd.InOrStdin()) })
			} else {
				err = answers.all(args)
			}
			if err == nil && answers.refused {
				cmd.SilenceErrors = true // each was told already
				err = &statusError{statusNegative, errors.New("not every reference is well")}
			}
			return err
		},
	}
	cmd.Flags().StringVarP(&flags.output, "output", "o", "text", "how to answer: text, or json (one object per line)")
	cmd.Flags().BoolVar(&flags.stdin, "stdin", false, "read JSON strings from standard input, one per line")
	cmd.Flags().BoolVar(&flags.resolve, "resolve", false, "ask the registry for the digest")
	cmd.Flags().BoolVar(&flags.plainHTTP, "plain-http", false, "with --resolve: ask without TLS")
	cmd.Flags().StringVar(&flags.caFile, "ca-file", "", "with --resolve: PEM file of authorities to trust besides those of the system")
	cmd.Flags().StringVar(&flags.dockerConfig, "docker-config", "", "with --resolve: file with credentials, as in a Secret of type kubernetes.io/dockerconfigjson")
	return cmd
}

func (f imageFlags) check(args []string) error {
	switch {
	case f.output != "text" && f.output != "json":
		return usageError("--output is %q; write text or json", f.output)
	case f.stdin && len(args) > 0:
		return usageError("references are given both as arguments and with --stdin; choose one")
	case !f.stdin && len(args) == 0:
		return usageError("no reference is given; write one, or --stdin")
	case !f.resolve && (f.plainHTTP || f.caFile != "" || f.dockerConfig != ""):
		return usageError("--plain-http, --ca-file and --docker-config say how to reach the registry; add --resolve")
	case f.plainHTTP && (f.caFile != "" || f.dockerConfig != ""):
		return usageError("--plain-http goes neither with --docker-config nor with --ca-file: credentials are sent over TLS alone")
	}
	return nil
}

// resolver is the question to the registries, or nil without --resolve.
func (f imageFlags) resolver() (func(context.Context, image.Reference) (image.Digest, error), error) {
	if !f.resolve {
		return nil, nil
	}
	access := registry.Access{PlainHTTP: f.plainHTTP}
	if f.caFile != "" {
		bundle, err := readFlagFile("--ca-file", f.caFile)
		if err != nil {
			return nil, err
		}
		if !x509.NewCertPool().AppendCertsFromPEM(bundle) {
			return nil, usageError("--ca-file %s: it holds no certificate; give PEM blocks of type CERTIFICATE", f.caFile)
		}
		access.CABundle = bundle
	}
	if f.dockerConfig != "" {
		data, err := readFlagFile("--docker-config", f.dockerConfig)
		if err != nil {
			return nil, err
		}
		if access.Credentials, err = registry.ParseDockerConfig(data); err != nil {
			return nil, usageError("--docker-config %s: %w", f.dockerConfig, err)
		}
	}
	// Whoever types a reference may reach whatever his own machine does.
	client := registry.New(registry.Options{Reach: registry.Reach{Loopback: true, Private: true}})
	return func(ctx context.Context, ref image.Reference) (image.Digest, error) {
		return client.Resolve(ctx, ref, access)
	}, nil
}

func readFlagFile(flag, path string) ([]byte, error) {
	data, err := readFile(path, func(file io.Reader) ([]byte, error) {
		return readUpTo(maxFlagFile, "keep to what is needed", file)
	})
	if err != nil {
		return nil, usageError("%s %w", flag, err)
	}
	return data, nil
}

// answerImage says what a reference means.
func answerImage(ctx context.Context, input string, resolve func(context.Context, image.Reference) (image.Digest, error)) imageAnswer {
	answer := imageAnswer{Input: input}
	ref, err := image.Parse(input)
	if err != nil {
		answer.Reason = err.Error()
		return answer
	}
	answer.Canonical = ref.String()
	if resolve != nil {
		digest, err := resolve(ctx, ref)
		if err != nil {
			answer.Reason = err.Error()
			return answer
		}
		answer.Digest = digest.String()
	}
	answer.OK = true
	return answer
}

// imageAnswers answers one reference after the other.
type imageAnswers struct {
	parse   func(string) imageAnswer
	print   func(imageAnswer) error
	refused bool // one of them was
}

func (a *imageAnswers) tell(answer imageAnswer) error {
	a.refused = a.refused || !answer.OK
	return a.print(answer)
}

func (a *imageAnswers) all(inputs []string) error {
	for _, input := range inputs {
		if err := a.tell(a.parse(input)); err != nil {
			return err
		}
	}
	return nil
}

// lines answers a JSON string per line. A line that is none is answered too,
// and the next one is read.
func (a *imageAnswers) lines(in io.Reader) error {
	reader := bufio.NewReaderSize(in, maxImageLine)
	for {
		line, err := reader.ReadSlice('\n')
		tooLong := errors.Is(err, bufio.ErrBufferFull)
		answer := a.line(strings.TrimRight(string(line), "\r\n"), tooLong)
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = reader.ReadSlice('\n')
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read standard input: %w", err)
		}
		if len(line) > 0 {
			if err := a.tell(answer); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

func (a *imageAnswers) line(line string, tooLong bool) imageAnswer {
	if tooLong {
		return imageAnswer{Input: strings.ToValidUTF8(line[:256], "\ufffd"), Reason: "the line is longer than " + strconv.Itoa(maxImageLine) + " bytes"}
	}
	if !utf8.ValidString(line) {
		return imageAnswer{Input: line, Reason: "the line is not valid UTF-8, as JSON is"}
	}
	var input *string
	if err := json.Unmarshal([]byte(line), &input); err != nil || input == nil {
		return imageAnswer{Input: line, Reason: `the line is not a JSON string; write "host/repository:tag" with its quotation marks`}
	}
	return a.parse(*input)
}

// printer writes answers, each as one line.
func printer(out io.Writer, asJSON bool) func(imageAnswer) error {
	if asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		return func(answer imageAnswer) error { return encoder.Encode(answer) }
	}
	return func(answer imageAnswer) error {
		text := answer.Canonical
		switch {
		case !answer.OK:
			text = "invalid: " + answer.Reason
			if answer.Canonical != "" {
				text = answer.Canonical + ": not resolved: " + answer.Reason
			}
		case answer.Digest != "" && !strings.Contains(text, "@"):
			text += "@" + answer.Digest
		}
		_, err := fmt.Fprintln(out, text)
		return err
	}
}
