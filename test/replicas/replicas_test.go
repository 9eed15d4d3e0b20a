package replicas

import (
	"os"
	"slices"
	"testing"

	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/fleet"
)

var product *fleet.Installation

func TestMain(m *testing.M) {
	os.Exit(fleet.Main(m, cluster.Options{Audit: true}, &product, func() {}))
}

// What a test does to replicas is what a cluster does: those of the Deployment are replaced by a drain and an upgrade,
// scaled, and led by one whose successor is found when its pod goes.
func TestReplicasLiveAsInACluster(t *testing.T) {
	r := Start(t, product, Options{Proxied: func(string) bool { return true }})
	r.Deploy(t, 2)
	first := r.Ready(t, 2)
	leader := r.Led(t, "")
	if !slices.Contains(first, leader) {
		t.Fatalf("%s leads, which is none of %v", leader, first)
	}
	if r.Proxy(leader) == nil || r.Metrics(t, leader).Sum("go_info", nil) != 1 {
		t.Errorf("the proxy of %s is %v, or its metrics are not a process's", leader, r.Proxy(leader))
	}

	r.Kill(t, leader)
	if again := r.Ready(t, 2); !slices.Equal(again, first) {
		t.Errorf("a process was killed, and the pods are %v; they were %v", again, first)
	}

	r.Unschedulable(t, "waiting")
	r.Evict(t, leader)
	r.Gone(t, leader)
	r.Led(t, leader)
	second := r.Ready(t, 2)
	if slices.Contains(second, leader) {
		t.Errorf("%s was evicted, and is among %v", leader, second)
	}

	r.Upgrade(t)
	for _, name := range r.Ready(t, 2) {
		if slices.Contains(second, name) {
			t.Errorf("%s was not replaced by an upgrade", name)
		}
	}
	r.Scale(t, 1)
	r.Ready(t, 1)
	r.Add(t, "named")
	r.Ready(t, 2)
	r.Delete(t, "named")
	r.Gone(t, "named")
	r.Lose(t, r.Ready(t, 1)[0])
}
