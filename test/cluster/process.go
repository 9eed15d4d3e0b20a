package cluster

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// devcluster itself gives up after three minutes.
	readyTimeout = 4 * time.Minute
	stopTimeout  = 30 * time.Second
)

// process is a devcluster that runs as a child.
type process struct {
	cmd        *exec.Cmd
	alive      io.Closer // standard input; its end is the child's end
	dir        string
	kubeconfig string
	stderr     strings.Builder // read after exited is closed
	exited     chan struct{}
	err        error // of the exit; read after exited is closed
}

func startProcess(ctx context.Context, binary string, o Options) (*process, error) {
	// A directory that does not exist yet: devcluster makes it and, however
	// this process ends, takes it away again.
	suffix := make([]byte, 6)
	if _, err := rand.Read(suffix); err != nil {
		return nil, err
	}
	dir := filepath.Join(os.TempDir(), "gatehouse-"+hex.EncodeToString(suffix))
	args := []string{"up", "--dir", dir, "--until-stdin-closes"}
	for flag, set := range map[string]bool{"--audit": o.Audit, "--apiserver-only": o.APIServerOnly, "--no-gc": o.NoGC} {
		if set {
			args = append(args, flag)
		}
	}
	cmd := exec.Command(binary, args...)
	// Ctrl-C ends the tests, and they the cluster, in that order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p := &process{cmd: cmd, dir: dir, exited: make(chan struct{})}
	cmd.Stderr = &p.stderr
	var err error
	if p.alive, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", binary, err)
	}
	line := make(chan string, 1)
	go func() {
		first, _ := bufio.NewReader(io.LimitReader(stdout, 64<<10)).ReadString('\n')
		line <- strings.TrimSpace(first)
		_, _ = io.Copy(io.Discard, stdout)
		// Wait closes the pipe, so it comes after the last read.
		p.err = cmd.Wait()
		close(p.exited)
	}()

	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	select {
	case first := <-line:
		if path, ok := strings.CutPrefix(first, "ready "); ok {
			p.kubeconfig = path
			return p, nil
		}
		err = fmt.Errorf("%s ended before it was ready", binary)
	case <-ctx.Done():
		err = fmt.Errorf("%s is not ready in time: %w", binary, ctx.Err())
	}
	return nil, errors.Join(err, p.stop())
}

// stop asks the child to end, and insists after a while.
func (p *process) stop() error {
	defer func() { _ = p.alive.Close() }()
	// A suspended process sees SIGTERM only when it goes on.
	for _, s := range []os.Signal{syscall.SIGTERM, syscall.SIGCONT} {
		if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
	}
	select {
	case <-p.exited:
		if p.err != nil {
			// It has crashed and could not clean up.
			err := fmt.Errorf("devcluster: %w\n%s\n%s", p.err, p.stderr.String(), p.logTail())
			return errors.Join(err, os.RemoveAll(p.dir))
		}
		return nil
	case <-time.After(stopTimeout):
	}
	err := fmt.Errorf("devcluster did not stop within %s and was killed", stopTimeout)
	if kerr := p.cmd.Process.Kill(); kerr != nil {
		return errors.Join(err, kerr)
	}
	<-p.exited
	return errors.Join(err, os.RemoveAll(p.dir))
}

// logTail is the end of the log of a cluster that has crashed.
func (p *process) logTail() string {
	const limit = 8 << 10
	log, err := os.ReadFile(filepath.Join(p.dir, "devcluster.log"))
	if err != nil {
		return "" // it has cleaned up after all, and said why on standard error
	}
	return string(log[max(0, len(log)-limit):])
}
