// Package workdir owns the directory a cluster keeps its files in: it makes
// it, holds it against a second cluster, sends what the components print to a
// log in it, and takes away at the end what was put there.
package workdir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// socketLimit is what fits in a sockaddr_un on every system we run on (macOS
// has the smallest, 104 bytes with the terminating zero).
const socketLimit = 103

// Dir is an absolute working directory, held by this process until Remove.
type Dir struct {
	path    string
	created bool
	lock    *os.File
}

// Open makes path if it does not exist and holds it. A directory that another
// cluster holds is refused; what a killed cluster left in it is removed.
func Open(path string) (*Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("working directory %q: %w", path, err)
	}
	d := &Dir{path: path}
	if n := len(d.Socket()); n > socketLimit {
		return nil, fmt.Errorf("working directory %q is too long: its path must be at least %d bytes shorter to hold a socket", path, n-socketLimit)
	}
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		d.created = true
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("working directory: %w", err)
	}
	lock, err := os.OpenFile(d.File("lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("working directory: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("working directory %q is in use by another devcluster: stop it or choose another --dir", path)
	}
	d.lock = lock
	if err := d.clear(func(name string) bool { return name != "lock" }); err != nil {
		return nil, err
	}
	return d, nil
}

// Path is the absolute path of the directory.
func (d *Dir) Path() string { return d.path }

// File is the absolute path of a file in the directory.
func (d *Dir) File(name string) string { return filepath.Join(d.path, name) }

// Socket is where etcd listens.
func (d *Dir) Socket() string { return d.File("etcd.sock") }

// names of everything a cluster writes, and "users", where whoever starts it
// may keep further kubeconfigs for as long as it runs. Removing by name rather than the whole
// directory keeps a --dir that a person has chosen, and has files in, safe.
var names = []string{"etcd", "etcd.sock", "pki", "kwok", "kubeconfig", "users", "tokens.csv", "sa.key", "audit-policy.yaml", "lock", "devcluster.log", "kwok.log", "audit.log"}

// Remove takes the cluster's files away and lets go of the directory. A
// directory that Open made goes with them; in one that was there before, the
// logs stay.
func (d *Dir) Remove() error {
	defer func() { _ = d.lock.Close() }()
	err := d.clear(func(name string) bool { return d.created || !strings.HasSuffix(name, ".log") })
	if d.created {
		// Not RemoveAll: what others have put there meanwhile is theirs.
		if rerr := os.Remove(d.path); rerr != nil && !errors.Is(rerr, os.ErrNotExist) && !errors.Is(rerr, unix.ENOTEMPTY) {
			err = errors.Join(err, rerr)
		}
	}
	return err
}

func (d *Dir) clear(chosen func(name string) bool) error {
	var errs []error
	for _, name := range names {
		if chosen(name) {
			errs = append(errs, os.RemoveAll(d.File(name)))
		}
	}
	return errors.Join(errs...)
}
