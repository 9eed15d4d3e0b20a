package demo_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// gatehouse is the binary, built from the sources that are tested.
var gatehouse string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctrllog.SetLogger(logr.Discard())
	dir, err := os.MkdirTemp("", "gatehouse-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	gatehouse = filepath.Join(dir, "gatehouse")
	build := exec.Command("go", "build", "-o", gatehouse, "../../cmd/gatehouse")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build gatehouse: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}
