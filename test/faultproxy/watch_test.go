package faultproxy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/gatehouse-dev/gatehouse/test/eventually"
	"github.com/gatehouse-dev/gatehouse/test/faultproxy"
)

var configMaps = faultproxy.Of("", "configmaps")

// watching opens a watch through the proxy that begins now.
func (b *bench) watching() watch.Interface {
	b.t.Helper()
	list, err := b.admin.CoreV1().ConfigMaps(b.namespace).List(b.t.Context(), metav1.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	w, err := b.client.CoreV1().ConfigMaps(b.namespace).Watch(b.t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(w.Stop)
	return w
}

// names are those of the events up to the one of last.
func (b *bench) names(w watch.Interface, last string) []string {
	b.t.Helper()
	var got []string
	timeout := time.After(soon)
	for {
		select {
		case e, open := <-w.ResultChan():
			if !open {
				b.t.Fatalf("the watch has ended after %v", got)
			}
			object, err := meta.Accessor(e.Object)
			if err != nil {
				b.t.Fatalf("%v: %v", e, err)
			}
			if object.GetName() == last {
				return got
			}
			got = append(got, object.GetName())
		case <-timeout:
			b.t.Fatalf("no event of %s within %s, only of %v", last, soon, got)
		}
	}
}

func TestEveryEventTwice(t *testing.T) {
	b := newBench(t)
	b.proxy.Distort(faultproxy.Distortion{When: configMaps, Twice: 1})
	w := b.watching()
	b.make("a", "b")
	b.make("last")
	if got := b.names(w, "last"); !slices.Equal(got, []string{"a", "a", "b", "b"}) {
		t.Errorf("%v", got)
	}
}

// Which events are lost is the seed's doing: the same are lost again to a client that meets the same.
func TestOneInFiveIsLost(t *testing.T) {
	all := numbered(60)
	b := newBench(t)
	again := b.beside()
	lost := func(w watch.Interface) []string {
		missing := slices.Clone(all)
		for e := range w.ResultChan() {
			name := e.Object.(*corev1.ConfigMap).Name
			if strings.HasPrefix(name, "end") {
				break
			}
			missing = slices.DeleteFunc(missing, func(m string) bool { return m == name })
		}
		return missing
	}
	for _, one := range []*bench{b, again} {
		one.proxy.Distort(faultproxy.Distortion{When: configMaps, Lost: 0.2})
	}
	first, second := b.watching(), again.watching()
	b.make(all...)
	for i := range 20 { // of the end, too, one in five is lost
		b.make(fmt.Sprintf("end%02d", i))
	}
	got, repeated := lost(first), lost(second)
	if !slices.Equal(got, repeated) || len(got) < 3 || len(got) > 30 {
		t.Errorf("lost %v, and by the same seed %v", got, repeated)
	}
}

func TestLateEvents(t *testing.T) {
	b := newBench(t)
	const late = 400 * time.Millisecond
	b.proxy.Distort(faultproxy.Distortion{When: configMaps, Late: late})
	w := b.watching()
	began := time.Now()
	b.make("a", "b", "c")
	made := time.Since(began)
	b.make("last")
	if got := b.names(w, "last"); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("%v", got)
	}
	took := time.Since(began)
	if took < late {
		t.Errorf("all came within %s, want each after %s", took, late)
	}
	if took > made+3*late {
		t.Errorf("all came within %s: each waited for the one before it", took)
	}
}

// follow runs an informer through the proxy, as a controller does.
func (b *bench) follow() listers.ConfigMapNamespaceLister {
	b.t.Helper()
	factory := informers.NewSharedInformerFactoryWithOptions(b.client, 0, informers.WithNamespace(b.namespace))
	informer := factory.Core().V1().ConfigMaps()
	synced := informer.Informer().HasSynced
	factory.Start(b.t.Context().Done())
	if !cache.WaitForCacheSync(b.t.Context().Done(), synced) {
		b.t.Fatal("the informer did not begin")
	}
	return informer.Lister().ConfigMaps(b.namespace)
}

func (b *bench) sees(lister listers.ConfigMapNamespaceLister, want int) func() error {
	return func() error {
		found, err := lister.List(labels.Everything())
		if err == nil && len(found) != want {
			err = fmt.Errorf("the informer sees %d ConfigMaps, want %d", len(found), want)
		}
		return err
	}
}

// Clients of 1.37 have their lists streamed, in protobuf; through the proxy it is JSON, and still a stream.
func TestStreamedListsPassThrough(t *testing.T) {
	b := newBench(t)
	b.make(numbered(30)...)
	b.proxy.Distort(faultproxy.Distortion{Twice: 1, Lost: 0.9}) // what stands for a list is spared
	lister := b.follow()
	if err := b.sees(lister, 30)(); err != nil {
		t.Error(err)
	}
	if lists := b.proxy.Sent(faultproxy.Every(configMaps, faultproxy.Verb("list"))); lists != 0 {
		t.Errorf("the informer fell back to %d lists", lists)
	}
}

func TestHeldEventsComeWhenReleased(t *testing.T) {
	b := newBench(t)
	lister := b.follow()
	release := b.proxy.Hold(configMaps)
	b.make(numbered(3)...)
	eventually.Holds(t, 300*time.Millisecond, b.sees(lister, 0))
	release()
	eventually.Succeeds(t, soon, b.sees(lister, 3))
}

func TestLostEventsAreMadeUpForByARelist(t *testing.T) {
	b := newBench(t)
	lister := b.follow()
	b.proxy.Distort(faultproxy.Distortion{When: configMaps, Lost: 1})
	b.make(numbered(3)...)
	eventually.Holds(t, 300*time.Millisecond, b.sees(lister, 0))
	b.proxy.Distort()
	b.proxy.Relist(configMaps)
	eventually.Succeeds(t, soon, b.sees(lister, 3))
}

func TestAnOldListIsOfTheVersionNamed(t *testing.T) {
	b := newBench(t)
	b.make("before")
	version, err := faultproxy.Version(t.Context(), shared.Client)
	if err != nil {
		t.Fatal(err)
	}
	b.make("after")
	b.proxy.ListsOf(version, configMaps)
	list, err := b.client.CoreV1().ConfigMaps(b.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 || list.Items[0].Name != "before" || list.ResourceVersion != version {
		t.Errorf("the list of version %s: %v of version %s", version, names(list.Items), list.ResourceVersion)
	}
	// An informer begins there, and learns the rest by watching.
	release := b.proxy.Hold(configMaps)
	lister := b.follow()
	eventually.Holds(t, 200*time.Millisecond, b.sees(lister, 1))
	release()
	eventually.Succeeds(t, soon, b.sees(lister, 2))

	b.proxy.Present()
	if list, err = b.client.CoreV1().ConfigMaps(b.namespace).List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 2 {
		t.Errorf("the present: %v, %v", names(list.Items), err)
	}
}

func names(items []corev1.ConfigMap) []string {
	var out []string
	for _, item := range items {
		out = append(out, item.Name)
	}
	return out
}
