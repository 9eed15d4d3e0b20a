package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Root is the directory of the product's go.mod, found upwards from the
// working directory, which in a test is the package's.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod above the working directory: run the tests from the source tree")
		}
		dir = parent
	}
}

// Binary is the path of devcluster: what GATEHOUSE_DEVCLUSTER names, or
// bin/devcluster of the source tree.
func Binary() (string, error) {
	if path := os.Getenv(BinaryEnv); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%s: %w", BinaryEnv, err)
		}
		return filepath.Abs(path)
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, "bin", "devcluster")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("no Kubernetes to test against: build it with `make bin/devcluster` (about ten minutes the first time on two cores), or name a cluster's kubeconfig in %s: %w", KubeconfigEnv, err)
	}
	return path, nil
}
