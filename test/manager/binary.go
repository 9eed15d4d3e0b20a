package manager

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gatehouse-dev/gatehouse/test/cluster"
)

// BinaryEnv names a binary to run instead of one built from the source tree.
const BinaryEnv = "GATEHOUSE_BINARY"

// buildTimeout is for a machine on which nothing is compiled yet.
const buildTimeout = 10 * time.Minute

// Binary is the path of the product's binary. It is built as the Makefile does, which does nothing when it is up to
// date; test packages that come at the same time wait for each other.
func Binary(ctx context.Context) (string, error) {
	if path := os.Getenv(BinaryEnv); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%s: %w", BinaryEnv, err)
		}
		return filepath.Abs(path)
	}
	root, err := cluster.Root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, "bin", "gatehouse")
	return path, Build(ctx, path)
}

// Build compiles the product to a path, with more arguments of go build if need be.
func Build(ctx context.Context, path string, arguments ...string) (err error) {
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	ctx, cancel := context.WithTimeout(ctx, buildTimeout)
	defer cancel()
	arguments = append([]string{"build", "-trimpath", "-ldflags", "-s -w", "-o", path}, append(arguments, "./cmd/gatehouse")...)
	command := exec.CommandContext(ctx, "go", arguments...)
	command.Dir = root
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build the manager: %w\n%s", err, out)
	}
	return nil
}
