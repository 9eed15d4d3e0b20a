package bench

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// figures are those of the benchmarks of this run.
var figures report

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	code := m.Run()
	if len(figures.results) > 0 {
		if err := errors.Join(figures.table(os.Stdout), figures.write()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}
