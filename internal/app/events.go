package app

import (
	"context"
	"errors"
	"hash/maphash"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
)

const (
	// eventSenders is how many Events are being sent at a time: one after the other, they fall behind a fleet that rolls.
	// What is about one object is sent in order.
	eventSenders = 4
	// eventsRemembered is of how many Events each sender knows that it has sent them, so that the same one again counts up
	// the first.
	eventsRemembered = 64
	// eventBurst and eventsPerSecond bound the Events of one kind, Normal or Warning, about one object.
	eventBurst, eventsPerSecond = 100, 1
	// eventTimeout is how long the API server may take for an Event, and no other about the same object is sent meanwhile.
	eventTimeout = 5 * time.Second
	// eventRetry is how long it is until an Event that could not be sent is tried again, eleven times at most. One that the
	// API server refuses is not.
	eventRetry = 2 * time.Second
)

// eventWriter writes Events into their namespaces.
type eventWriter interface {
	CreateWithEventNamespaceWithContext(ctx context.Context, event *corev1.Event) (*corev1.Event, error)
	PatchWithEventNamespaceWithContext(ctx context.Context, event *corev1.Event, patch []byte) (*corev1.Event, error)
}

// recorders send the Events of one manager. They remember few of them, and send nothing of their own accord: the
// library's recorder for events.k8s.io holds every Event for minutes, however many there are, and writes down later that
// a series has ended.
type recorders struct {
	senders []record.EventBroadcaster
	scheme  *runtime.Scheme
	host    string
	seed    maphash.Seed
	cancel  context.CancelFunc
}

// newRecorders begins to send; stop ends it.
func newRecorders(scheme *runtime.Scheme, writer eventWriter) *recorders {
	ctx, cancel := context.WithCancel(context.Background())
	host, _ := os.Hostname() // only told
	r := &recorders{scheme: scheme, host: host, seed: maphash.MakeSeed(), cancel: cancel}
	for range eventSenders {
		sender := record.NewBroadcaster(record.WithSleepDuration(eventRetry), record.WithCorrelatorOptions(record.CorrelatorOptions{
			LRUCacheSize: eventsRemembered,
			BurstSize:    eventBurst,
			QPS:          eventsPerSecond,
			KeyFunc:      byReasonAlone,
		}))
		sender.StartRecordingToSink(eventSink{ctx, writer})
		r.senders = append(r.senders, sender)
	}
	return r
}

// byReasonAlone leaves what different Events of one reason say as it is: many of them are not combined into one.
func byReasonAlone(event *corev1.Event) (aggregate, local string) {
	aggregate, _ = record.EventAggregatorByReasonFunc(event)
	return aggregate, ""
}

// stop ends what is being sent and drops what waits: status tells it as well.
func (r *recorders) stop() {
	r.cancel()
	for _, sender := range r.senders {
		sender.Shutdown()
	}
}

// named is a recorder for a controller.
func (r *recorders) named(controller string) events.EventRecorder {
	named := recorder{seed: r.seed}
	for _, sender := range r.senders {
		named.senders = append(named.senders, record.NewEventRecorderAdapter(
			sender.NewRecorder(r.scheme, corev1.EventSource{Component: controller, Host: r.host})))
	}
	return named
}

// recorder gives each object a sender.
type recorder struct {
	senders []events.EventRecorder
	seed    maphash.Seed
}

func (r recorder) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	sender := 0
	if object, err := meta.Accessor(regarding); err == nil {
		sender = int(maphash.String(r.seed, string(object.GetUID())) % uint64(len(r.senders)))
	}
	r.senders[sender].Eventf(regarding, related, kind, reason, action, note, args...)
}

// eventSink is where a sender writes until ctx ends.
type eventSink struct {
	ctx    context.Context
	writer eventWriter
}

func (s eventSink) Create(event *corev1.Event) (*corev1.Event, error) {
	ctx, cancel := context.WithTimeout(s.ctx, eventTimeout)
	defer cancel()
	return s.writer.CreateWithEventNamespaceWithContext(ctx, event)
}

func (s eventSink) Patch(event *corev1.Event, patch []byte) (*corev1.Event, error) {
	ctx, cancel := context.WithTimeout(s.ctx, eventTimeout)
	defer cancel()
	return s.writer.PatchWithEventNamespaceWithContext(ctx, event, patch)
}

// Update is part of what the library asks for, and not called.
func (s eventSink) Update(*corev1.Event) (*corev1.Event, error) {
	return nil, errors.ErrUnsupported
}
