package truth

import (
	"os"
	"testing"
	"time"

	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
)

// product is the installation that the story is told to, on a cluster where nobody collects garbage.
var product *fleet.Installation

func TestMain(m *testing.M) {
	os.Exit(fleet.Main(m, cluster.Options{Audit: true, NoGC: true}, &product, func() {}, "config/manager/disruption.yaml"))
}

// fullEnv chooses the full size.
const fullEnv = "GATEHOUSE_TRUTH"

// size is how much of everything there is.
type size struct {
	replicas int32 // of the Deployment
	most     int32 // that it is scaled to
	subjects int   // Executors
	rounds   int   // of edits to all of them
	kills    int   // of leaders
	rest     time.Duration
}

func sizes() size {
	if os.Getenv(fullEnv) == "all" {
		return size{replicas: 5, most: 10, subjects: 20, rounds: 50, kills: 20, rest: time.Minute}
	}
	return size{replicas: 3, most: 5, subjects: 8, rounds: 10, kills: 4, rest: 20 * time.Second}
}
