package node

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gatehouse-dev/gatehouse/devcluster/internal/workdir"
)

// Name of the node.
const Name = "devcluster"

// Node is the running pretence of a node.
type Node struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// Start creates the node and the stages that make its pods ready, and returns
// when the node takes pods. Unless it returns an error, Stop must be called.
func Start(ctx context.Context, dir *workdir.Dir, kubeconfig string, config *rest.Config) (*Node, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("kwok: %w", err)
	}
	if err := createStages(ctx, dyn); err != nil {
		return nil, err
	}
	if err := createNode(ctx, client); err != nil {
		return nil, err
	}
	childCtx, cancel := context.WithCancel(context.Background())
	n := &Node{cancel: cancel, done: make(chan struct{})}
	s := &supervisor{dir: dir, kubeconfig: kubeconfig, program: program}
	go func() { defer close(n.done); s.run(childCtx) }()
	if err := waitReady(ctx, client); err != nil {
		n.Stop()
		return nil, err
	}
	return n, nil
}

// Stop ends kwok.
func (n *Node) Stop() {
	n.cancel()
	<-n.done
}

func createNode(ctx context.Context, client kubernetes.Interface) error {
	// Room for fleets of thousands on the one node.
	room := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("10k"),
		corev1.ResourceMemory:           resource.MustParse("100Ti"),
		corev1.ResourceEphemeralStorage: resource.MustParse("100Ti"),
		corev1.ResourcePods:             resource.MustParse("20k"),
	}
	_, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: Name,
			Labels: map[string]string{
				corev1.LabelHostname:   Name,
				corev1.LabelOSStable:   "linux",
				corev1.LabelArchStable: "amd64",
			},
		},
		Status: corev1.NodeStatus{Capacity: room, Allocatable: room},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("node %s: %w", Name, err)
	}
	return nil
}

func waitReady(ctx context.Context, client kubernetes.Interface) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		node, err := client.CoreV1().Nodes().Get(ctx, Name, metav1.GetOptions{})
		last = err
		return err == nil && takesPods(node), nil
	})
	if err != nil {
		return fmt.Errorf("node %s is not ready: %w (last error: %v)", Name, err, last)
	}
	return nil
}

func takesPods(node *corev1.Node) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Effect != corev1.TaintEffectPreferNoSchedule {
			return false
		}
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
