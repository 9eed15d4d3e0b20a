package podstatus

import (
	"testing"
	"time"

	"github.com/gatehouse-dev/gatehouse/test/cluster"
)

// within is how long anything may take that should happen at once.
const within = 30 * time.Second

var shared *cluster.Cluster

func TestMain(m *testing.M) {
	cluster.Main(m, cluster.Options{Audit: true, APIServerOnly: true}, &shared, "config/crd")
}
