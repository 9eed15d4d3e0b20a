package bench

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gatehouse-dev/gatehouse/test/benchreport"
)

// figures are those of the benchmarks of this run.
var figures benchreport.Report

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(benchreport.Main(m, &figures))
}
