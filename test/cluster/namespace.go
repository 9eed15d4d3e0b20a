package cluster

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gatehouse-dev/gatehouse/test/eventually"
)

// Namespace makes a namespace with a name of its own and returns the name when
// pods can be created in it. The test's end deletes it without waiting, which
// would take seconds.
func (c *Cluster) Namespace(t testing.TB, prefix string) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix + "-"}}
	if err := c.Client.Create(t.Context(), ns); err != nil {
		t.Fatalf("namespace %s-…: %v", prefix, err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := client.IgnoreNotFound(c.Client.Delete(ctx, ns)); err != nil {
			t.Errorf("namespace %s: %v", ns.Name, err)
		}
	})
	if c.options.APIServerOnly {
		return ns.Name // nobody creates service accounts
	}
	eventually.Succeeds(t, time.Minute, func() error {
		return c.Client.Get(t.Context(), client.ObjectKey{Namespace: ns.Name, Name: "default"}, &corev1.ServiceAccount{})
	})
	return ns.Name
}
