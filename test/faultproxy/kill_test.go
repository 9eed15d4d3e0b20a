package faultproxy_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/faultproxy"
)

// victimEnv makes this test binary a process that creates ConfigMaps until it is killed: with one hand, or with many.
const (
	victimEnv      = "GATEHOUSE_TEST_VICTIM" // its kubeconfig
	victimSpaceEnv = "GATEHOUSE_TEST_VICTIM_NAMESPACE"
	victimHandsEnv = "GATEHOUSE_TEST_VICTIM_HANDS"
)

func victim() int {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv(victimEnv))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	config.QPS = -1
	client := kubernetes.NewForConfigOrDie(config)
	hands := len(os.Getenv(victimHandsEnv))
	work := make(chan string)
	var working sync.WaitGroup
	for range hands {
		working.Go(func() {
			for name := range work {
				object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
				_, _ = client.CoreV1().ConfigMaps(os.Getenv(victimSpaceEnv)).Create(context.Background(), object, metav1.CreateOptions{})
			}
		})
	}
	for _, name := range numbered(40) {
		work <- name
	}
	close(work)
	working.Wait()
	return 0
}

func TestTheClientIsKilledAtTheWriteThatWasChosen(t *testing.T) {
	for _, test := range []struct {
		name  string
		hands string // one mark each
		at    int
		after bool
		want  int // writes that were made
	}{
		{"before the first", "|", 1, false, 0},
		{"after the first", "|", 1, true, 1},
		{"before the fourth", "|", 4, false, 3},
		{"after the fourth", "|", 4, true, 4},
		{"before the tenth of many at once", "||||||||", 10, false, 9},
		{"after the tenth of many at once", "||||||||", 10, true, 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t)
			process := exec.Command(os.Args[0])
			process.Env = append(os.Environ(), victimEnv+"="+b.proxy.Kubeconfig, victimSpaceEnv+"="+b.namespace, victimHandsEnv+"="+test.hands)
			process.Stderr = os.Stderr
			started, ended := make(chan struct{}), make(chan struct{})
			kill := func() {
				<-started
				if err := process.Process.Kill(); err != nil {
					t.Error(err)
				}
				<-ended
			}
			if test.after {
				b.proxy.KillAfter(test.at, kill)
			} else {
				b.proxy.KillBefore(test.at, kill)
			}
			if err := process.Start(); err != nil {
				t.Fatal(err)
			}
			close(started)
			_ = process.Wait() // it was killed
			close(ended)
			if state := process.ProcessState.String(); state != "signal: killed" {
				t.Fatalf("the client ended by %s", state)
			}
			// What was on its way before the chosen write is still made.
			eventually.Succeeds(t, soon, func() error {
				if stored := b.stored(); len(stored) < test.want || !b.proxy.Killed() {
					return fmt.Errorf("%d writes were made, want %d; killed: %v", len(stored), test.want, b.proxy.Killed())
				}
				if writes := b.proxy.Writes(); !slices.ContainsFunc(writes, func(w faultproxy.Written) bool {
					return w.Number == test.at && w.Outcome == faultproxy.OutcomeKilled && w.Committed == test.after
				}) {
					return fmt.Errorf("the chosen write is not on record: %+v", writes)
				}
				return nil
			})
			if stored := b.stored(); len(stored) != test.want || test.hands == "|" && !slices.Equal(stored, numbered(test.want)) {
				t.Errorf("made %v, want %d", stored, test.want)
			}
		})
	}
}
