package child

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

// Process is a child that runs, or has run.
type Process struct {
	name   string
	cmd    *exec.Cmd
	exited chan struct{}
	err    error // of the exit; read after exited is closed
}

// Launch starts a command of which Stdin, Stdout and Stderr may have been set. The name is for errors.
func Launch(name string, cmd *exec.Cmd) (*Process, error) {
	// A process group of its own: Ctrl-C in the terminal reaches the parent alone, which ends its children in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	c := &Process{name: name, cmd: cmd, exited: make(chan struct{})}
	go func() {
		c.err = cmd.Wait()
		close(c.exited)
	}()
	return c, nil
}

// Stop asks the process to end and insists when it has not ended within the grace. It returns nil if the process ended
// by itself with status 0. Stopping a child that has ended only says how it ended.
func (c *Process) Stop(ctx context.Context, grace time.Duration) error {
	if err := c.Signal(syscall.SIGTERM); err != nil {
		return err
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
	if err := c.Kill(); err != nil {
		return err
	}
	return fmt.Errorf("%s did not stop within %s of SIGTERM and was killed", c.name, grace)
}

// Running says whether the process has not ended.
func (c *Process) Running() bool {
	select {
	case <-c.exited:
		return false
	default:
		return true
	}
}

// Exited is closed when the process has ended.
func (c *Process) Exited() <-chan struct{} { return c.exited }

// How says how a process that has ended did so.
func (c *Process) How() string {
	if c.err == nil {
		return "exit status 0"
	}
	return c.err.Error()
}

// PID is that of the process.
func (c *Process) PID() int { return c.cmd.Process.Pid }

// Signal sends a signal; to a process that has ended it sends none, and that is no error.
func (c *Process) Signal(s syscall.Signal) error {
	if err := c.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %s to %s: %w", s, c.name, err)
	}
	return nil
}

// Kill ends the process as a power cut would, and waits until it is gone.
func (c *Process) Kill() error {
	if err := c.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-c.exited
	return nil
}

// Tail returns the last lines of a log file, for the report of a failure.
func Tail(path string, lines int) string {
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
