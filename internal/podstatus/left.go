package podstatus

import (
	"crypto/sha256"
	"encoding/json"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// left knows how this process has left each status, so that what somebody else makes of it is set right at once, and its
// own writes wake nobody. What is lost of it costs a wait for the resync, and nothing else.
type left struct {
	mu  sync.Mutex
	all map[types.NamespacedName]leaving
}

type leaving struct {
	from   string // the version that the status was made from
	status digest
}

// digest is that of a status as it is stored: a time in it has whole seconds.
type digest [sha256.Size]byte

func digestOf(object client.Object) digest {
	text, err := json.Marshal(statusOf(object))
	if err != nil {
		panic("a status has no JSON: " + err.Error()) // it is made of strings, numbers and times
	}
	return sha256.Sum256(text)
}

func newLeft() *left { return &left{all: map[types.NamespacedName]leaving{}} }

// leave takes in what a pass has made of a status, before it is written: the event may come before the answer does.
func (l *left) leave(object client.Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all[client.ObjectKeyFromObject(object)] = leaving{object.GetResourceVersion(), digestOf(object)}
}

// forget takes in that a status was not written, or is gone.
func (l *left) forget(name types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, name)
}

// changed reports whether somebody else has made something else of a status since this process left it.
func (l *left) changed(object client.Object) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was, known := l.all[client.ObjectKeyFromObject(object)]
	if !known {
		return false // its next pass lies ahead
	}
	order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), was.from)
	return (err != nil || order > 0) && digestOf(object) != was.status
}

// byOthers passes what others write into a status.
func (l *left) byOthers() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool { return l.changed(e.ObjectNew) },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}
