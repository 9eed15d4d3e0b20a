package workdir

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Streams are the process's own standard streams, kept apart from what
// components print.
type Streams struct {
	out, err *os.File
}

// Say prints one line on the original standard output.
func (s Streams) Say(line string) error {
	_, err := fmt.Fprintln(s.out, line)
	return err
}

// Restore gives the descriptor of standard error back, for a last word.
func (s Streams) Restore() {
	_ = unix.Dup2(int(s.err.Fd()), int(os.Stderr.Fd()))
}

// Divert points the file descriptors of standard output and standard error at
// the file name in the directory and returns the original streams. Components
// of Kubernetes write to the descriptors in many ways (klog, zap, a panic's
// trace); taking the descriptors away catches them all.
func (d *Dir) Divert(name string) (Streams, error) {
	log, err := os.OpenFile(d.File(name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return Streams{}, fmt.Errorf("log: %w", err)
	}
	defer func() { _ = log.Close() }()
	var kept [2]*os.File
	for i, f := range []*os.File{os.Stdout, os.Stderr} {
		fd, err := unix.Dup(int(f.Fd()))
		if err != nil {
			return Streams{}, fmt.Errorf("keep %s: %w", f.Name(), err)
		}
		// A child must not hold the streams open after this process is gone.
		unix.CloseOnExec(fd)
		kept[i] = os.NewFile(uintptr(fd), f.Name())
		if err := unix.Dup2(int(log.Fd()), int(f.Fd())); err != nil {
			return Streams{}, fmt.Errorf("divert %s: %w", f.Name(), err)
		}
	}
	return Streams{out: kept[0], err: kept[1]}, nil
}

// Tail returns at most the last n bytes of a file in the directory, from the
// start of a line.
func (d *Dir) Tail(name string, n int64) string {
	f, err := os.Open(d.File(name))
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return ""
	}
	from := max(size-n, 0)
	b := make([]byte, size-from)
	if _, err := f.ReadAt(b, from); err != nil && err != io.EOF {
		return ""
	}
	if from > 0 {
		for i, c := range b {
			if c == '\n' {
				return string(b[i+1:])
			}
		}
	}
	return string(b)
}
