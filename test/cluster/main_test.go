package cluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"testing"
)

// shared is the cluster of these tests.
var shared *Cluster

// starterEnv makes this test binary a process that starts a cluster, says
// where, and waits: one that can be killed.
const starterEnv = "GATEHOUSE_TEST_STARTER"

func TestMain(m *testing.M) {
	if os.Getenv(starterEnv) != "" {
		os.Exit(startAndWait())
	}
	// These tests are about the clusters that they start.
	if err := os.Unsetenv(KubeconfigEnv); err != nil {
		panic(err)
	}
	Main(m, Options{Audit: true}, &shared)
}

func startAndWait() int {
	c, err := Start(context.Background(), Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(c.Dir)
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = c.Stop()
	return 0
}
