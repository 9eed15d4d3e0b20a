package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gatehouse-dev/gatehouse/internal/child"
)

const (
	// devcluster gives up by itself after three minutes.
	clusterReadyWithin = 4 * time.Minute
	clusterStopWithin  = 30 * time.Second
)

// kubernetes is the cluster that the demo runs on.
type kubernetes struct {
	config     *rest.Config
	kubeconfig string
	auditLog   string // empty if the server's audit log cannot be read
	own        bool   // somebody's own cluster: leave nothing behind
	runsPods   bool   // nodes run containers, and do not only pretend to

	process *child.Process
	alive   io.Closer // devcluster's standard input, whose end is its end
}

// connect uses the cluster of a kubeconfig.
func connect(kubeconfig string) (*kubernetes, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig %s: %w; name that of the cluster to run on, or leave it out to run on one of the demo's own", kubeconfig, err)
	}
	return &kubernetes{config: tuned(config), kubeconfig: kubeconfig, own: true}, nil
}

// startDevcluster runs a control plane of the demo's own in dir.
func startDevcluster(ctx context.Context, binary, gatehouse, dir string) (*kubernetes, error) {
	binary, err := findDevcluster(binary, gatehouse)
	if err != nil {
		return nil, err
	}
	clusterDir := filepath.Join(dir, "cluster")
	cmd := exec.Command(binary, "up", "--dir", clusterDir, "--audit", "--until-stdin-closes")
	stderr := filepath.Join(dir, "devcluster.err")
	errs, err := os.Create(stderr)
	if err != nil {
		return nil, err
	}
	defer func() { _ = errs.Close() }()
	cmd.Stderr = errs
	// Not StdinPipe and StdoutPipe, which Wait closes while they are in use.
	stdin, alive, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, stdout, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, stdin.Close(), alive.Close())
	}
	cmd.Stdin, cmd.Stdout = stdin, stdout
	process, err := child.Launch("devcluster", cmd)
	// At once: as long as this end of the child's standard output is open here too, the child's end is not its end.
	_, _ = stdin.Close(), stdout.Close()
	if err != nil {
		return nil, errors.Join(err, alive.Close(), out.Close())
	}
	k := &kubernetes{process: process, alive: alive, auditLog: filepath.Join(clusterDir, "audit.log")}

	first := make(chan string, 1)
	go func() {
		defer func() { _ = out.Close() }()
		line, _ := bufio.NewReader(io.LimitReader(out, 64<<10)).ReadString('\n')
		first <- strings.TrimSpace(line)
		_, _ = io.Copy(io.Discard, out)
	}()
	ctx, cancel := context.WithTimeout(ctx, clusterReadyWithin)
	defer cancel()
	select {
	case line := <-first:
		kubeconfig, ok := strings.CutPrefix(line, "ready ")
		if !ok {
			err := errors.Join(fmt.Errorf("devcluster ended before it was ready"), k.stop(ctx))
			return nil, fmt.Errorf("%w\n%s", err, child.Tail(stderr, 20))
		}
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("kubeconfig of devcluster: %w", err), k.stop(ctx))
		}
		k.config, k.kubeconfig = tuned(config), kubeconfig
		return k, nil
	case <-ctx.Done():
		return nil, errors.Join(fmt.Errorf("devcluster was not ready within %s: %w", clusterReadyWithin, ctx.Err()), k.stop(context.WithoutCancel(ctx)))
	}
}

// stop ends a cluster of the demo's own, with all that is in it.
func (k *kubernetes) stop(ctx context.Context) error {
	if k.process == nil {
		return nil
	}
	err := k.process.Stop(ctx, clusterStopWithin)
	return errors.Join(err, k.alive.Close())
}

func findDevcluster(named, gatehouse string) (string, error) {
	if named != "" {
		if _, err := os.Stat(named); err != nil {
			return "", fmt.Errorf("--devcluster: %w; name the binary, or build one with `make bin/devcluster`", err)
		}
		return named, nil
	}
	beside := filepath.Join(filepath.Dir(gatehouse), "devcluster")
	if _, err := os.Stat(beside); err == nil {
		return beside, nil
	}
	if found, err := exec.LookPath("devcluster"); err == nil {
		return found, nil
	}
	return "", fmt.Errorf("the demo needs a Kubernetes: build one with `make bin/devcluster` (some minutes the first time; it is looked for at %s and in PATH), name it with --devcluster, or run on a cluster that you have with --kubeconfig", beside)
}

// tuned marks the demo's own requests, does not let a fleet wait for a client's rate limit, and keeps the server's
// warnings out of the story.
func tuned(config *rest.Config) *rest.Config {
	config.UserAgent = "gatehouse-demo"
	config.WarningHandlerWithContext = rest.NoWarnings{}
	config.QPS, config.Burst = 200, 400
	return config
}
