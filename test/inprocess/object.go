package inprocess

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gatehouse-dev/gatehouse/test/cluster"
	"github.com/gatehouse-dev/gatehouse/test/eventually"
)

// Create makes an object that goes when the test ends.
func Create(t testing.TB, c client.Client, object client.Object) {
	t.Helper()
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Delete(t, c, object) })
}

// Delete deletes an object, if it is there, also while a test ends.
func Delete(t testing.TB, c client.Client, object client.Object) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := client.IgnoreNotFound(c.Delete(ctx, object)); err != nil {
		t.Errorf("delete %T %s: %v", object, object.GetName(), err)
	}
}

// Edit changes an object as it is now, and sends only what differs: an update would rewrite durations as Go writes them.
func Edit[T client.Object](t testing.TB, c client.Client, within time.Duration, object T, change func(T)) {
	t.Helper()
	eventually.Succeeds(t, within, func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		before := object.DeepCopyObject().(T)
		change(object)
		return c.Patch(t.Context(), object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
}

// Example applies the first manifest that a page shows, whose kind is that of the two, and fills them: with what is
// written, and with what is stored of it.
func Example[T client.Object](t testing.TB, on *cluster.Cluster, page string, written, stored T) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, example, found := strings.Cut(string(text), "```yaml\n")
	example, _, closed := strings.Cut(example, "```")
	if !found || !closed {
		t.Fatalf("%s has no example", page)
	}
	if err := yaml.UnmarshalStrict([]byte(example), written); err != nil {
		t.Fatal(err)
	}
	c := Client(t, on.Config)
	t.Cleanup(func() { Delete(t, c, written) })
	if err := on.ApplyText(t.Context(), example); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(written), stored); err != nil {
		t.Fatal(err)
	}
}
