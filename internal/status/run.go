package status

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Output is how a List is printed.
type Output string

// The outputs.
const (
	Table Output = ""
	Wide  Output = "wide"
	JSON  Output = "json"
	YAML  Output = "yaml"
)

// Options are those of a command line.
type Options struct {
	Question
	// Kubeconfig and Context choose the cluster; empty as kubectl chooses.
	Kubeconfig, Context string
	// RequestTimeout bounds each request; 0 is no bound.
	RequestTimeout time.Duration
	Output         Output
	// Watch goes on until the context ends, and prints what changes; on a Terminal, in place.
	Watch    bool
	Terminal bool
	In       io.Reader
	Out, Err io.Writer
	Clock    clock.PassiveClock
}

// Run asks, prints, and answers in short. An error is one of asking: there is no answer.
func Run(ctx context.Context, o Options) (Answer, error) {
	c, err := connect(o.Kubeconfig, o.Context)
	if err != nil {
		return CannotTell, err
	}
	return run(ctx, o, c)
}

func run(ctx context.Context, o Options, c client.WithWatch) (Answer, error) {
	o.Full = o.Output != Table
	r := o.ask(c, o.RequestTimeout)
	versions := r.read(ctx)
	list := Build(r.facts(ctx))
	heard := slices.ContainsFunc(r.asked, func(c *collection) bool { return versions[c] != "" })
	if !o.Watch || !heard { // a cluster that cannot be asked at all is not waited for
		return list.Answer(), o.print(list)
	}
	return o.watch(ctx, r, versions, list)
}

// print prints a list once.
func (o Options) print(list *List) error {
	switch o.Output {
	case JSON, YAML:
		return o.encode(list)
	default:
		if _, err := fmt.Fprint(o.Out, newTable(list, o.Output == Wide, o.Clock.Now())); err != nil {
			return err
		}
		return printRemarks(o.Err, remarks(list))
	}
}

func (o Options) encode(list *List) error {
	if o.Output == YAML {
		text, err := yaml.Marshal(list)
		if err != nil {
			return err
		}
		_, err = o.Out.Write(text)
		return err
	}
	encoder := json.NewEncoder(o.Out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(list)
}
