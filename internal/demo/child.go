package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// child is a process of the demo's own. It does not outlive the demo: it is stopped, and where the operating system
// can do so killed when the demo is killed.
type child struct {
	name   string
	cmd    *exec.Cmd
	exited chan struct{}
	err    error // of the exit; read after exited is closed
}

// launch starts a command of which Stdin, Stdout and Stderr may have been set.
func launch(name string, cmd *exec.Cmd) (*child, error) {
	// A process group of its own: Ctrl-C in the terminal reaches the demo alone, which ends its children in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	c := &child{name: name, cmd: cmd, exited: make(chan struct{})}
	go func() {
		c.err = cmd.Wait()
		close(c.exited)
	}()
	return c, nil
}

// stop asks the process to end and insists when it has not ended within the grace. It returns nil if the process ended
// by itself with status 0. Stopping a stopped child does nothing.
func (c *child) stop(ctx context.Context, grace time.Duration) error {
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", c.name, err)
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-c.exited:
		if c.err != nil {
			return fmt.Errorf("%s ended with an error: %w", c.name, c.err)
		}
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", c.name, err)
	}
	<-c.exited
	return fmt.Errorf("%s did not stop within %s of SIGTERM and was killed", c.name, grace)
}

func (c *child) running() bool {
	select {
	case <-c.exited:
		return false
	default:
		return true
	}
}

// tail returns the last lines of a log file, for the report of a failure.
func tail(path string, lines int) string {
	const most = 64 << 10
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	if size, err := f.Seek(0, io.SeekEnd); err == nil {
		_, _ = f.Seek(max(0, size-most), io.SeekStart)
	}
	content, _ := io.ReadAll(io.LimitReader(f, most))
	all := bytes.Split(bytes.TrimRight(content, "\n"), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}
