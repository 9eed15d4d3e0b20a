package demo

import (
	"errors"
	"io"
)

// Options says where and how the demo runs.
type Options struct {
	// JSON puts the progress on Err and one line of JSON, the last, on Out.
	JSON bool
	// Keep leaves everything running after the last step until the context ends.
	Keep bool

	// Devcluster is the path of the devcluster binary; empty looks beside Gatehouse, then in PATH.
	Devcluster string
	// Kubeconfig names a cluster to run on instead of a devcluster.
	Kubeconfig string
	// Registry is where images are pushed to, HOST[:PORT]/PATH, when the nodes of that cluster really run pods.
	Registry string
	// PlainHTTP reaches Registry without TLS.
	PlainHTTP bool
	// BaseImage is what the images are made from when the nodes really run them.
	BaseImage string

	// Gatehouse is the path of the binary whose manager is run.
	Gatehouse string
	// Out gets the story and the summary, or the JSON.
	Out io.Writer
	// Err gets the progress when Out gets JSON.
	Err io.Writer
	// Terminal tells the story in place, on a terminal, rather than line by line.
	Terminal bool
}

// DefaultBaseImage does nothing, is small, and exists for every platform.
const DefaultBaseImage = "registry.k8s.io/pause:3.10.1"

// ErrNotHeld is returned when a step was not seen to hold. What was awaited has been printed.
var ErrNotHeld = errors.New("the demo did not hold")

// ErrInterrupted is returned when the context ended before the last step did.
var ErrInterrupted = errors.New("interrupted")

func (o Options) validate() error {
	if o.Kubeconfig == "" && (o.Registry != "" || o.PlainHTTP) {
		return errors.New("--registry and --registry-plain-http go with --kubeconfig: without it the demo brings its own cluster and registry")
	}
	if o.Kubeconfig != "" && o.Devcluster != "" {
		return errors.New("--devcluster and --kubeconfig exclude each other: the demo runs on one cluster")
	}
	if o.PlainHTTP && o.Registry == "" {
		return errors.New("--registry-plain-http goes with --registry: name the registry")
	}
	return nil
}
