package verification

import (
	"os"
	"testing"

	"github.com/gatehouse-dev/gatehouse/test/benchreport"
)

// figures are those of the benchmarks of this run.
var figures benchreport.Report

func TestMain(m *testing.M) { os.Exit(benchreport.Main(m, &figures)) }
