package truth

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
)

// product is the installation that the story is told to, on a cluster where nobody collects garbage.
var product *fleet.Installation

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	log.SetLogger(logr.Discard())
	ctx := context.Background()
	c, err := cluster.Start(ctx, cluster.Options{Audit: true, NoGC: true})
	if err == nil {
		defer func() {
			if err := c.Stop(); err != nil {
				fmt.Fprintln(os.Stderr, "cluster:", err)
				code = max(code, 1)
			}
		}()
		product, err = fleet.Install(ctx, c)
		err = errors.Join(err, c.Apply(ctx, "config/manager/disruption.yaml"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
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
