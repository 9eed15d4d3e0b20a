package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

const (
	// staleAfter is how long a kind may fail to be listed or watched before the cache is not called current any more.
	staleAfter = time.Minute
	// recoveredAfter is longer than the longest wait between two attempts: a kind that has not failed for so long is
	// watched again, though nothing of it has been read since.
	recoveredAfter = 90 * time.Second
)

// watches tells when a kind cannot be read. Nothing else would: the cache keeps answering with what it last saw.
type watches struct {
	clock clock.PassiveClock
	log   logr.Logger
	total *prometheus.CounterVec

	mu      sync.Mutex
	failing map[reads]*failing
	rights  time.Time // when the remedy for missing rights was last told
}

// reads is who reads objects of a kind: a reflector. Only failure is reported; that it has read something shows in the
// version that it has got to.
type reads interface{ LastSyncResourceVersion() string }

// failing is who could not read, time after time.
type failing struct {
	kind              string
	since, last, told time.Time
	version           string // at the last failure
	err               error
}

func newWatches(c clock.PassiveClock, log logr.Logger) *watches {
	return &watches{
		clock: c,
		log:   log,
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gatehouse_watch_errors_total",
			Help: "Failed attempts to list or to watch, by kind.",
		}, []string{"kind"}),
		failing: map[reads]*failing{},
	}
}

// handle is the cache's watch error handler. That a watch ends is no failure: the server ends each after some minutes.
func (w *watches) handle(_ context.Context, r *toolscache.Reflector, err error) {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		return
	}
	description := r.TypeDescription() // "*v1.Pod"
	w.failed(r, description[strings.LastIndex(description, ".")+1:], err)
}

// begin forgets those who have read for a manager that has ended.
func (w *watches) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.failing)
}

// failed takes in that a kind could not be read, and says so once a minute.
func (w *watches) failed(by reads, kind string, err error) {
	w.total.WithLabelValues(kind).Inc()
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock.Now()
	f := w.failing[by]
	if f == nil || now.Sub(f.last) > recoveredAfter {
		f = &failing{kind: kind, since: now}
		w.failing[by] = f
	}
	f.last, f.version, f.err = now, by.LastSyncResourceVersion(), err
	if apierrors.IsForbidden(err) {
		if now.Sub(w.rights) >= time.Minute {
			w.rights = now
			w.log.Error(err, "the manager may not read what it needs; apply config/rbac, and run it as the ServiceAccount that is bound there", "kind", kind)
		}
		return
	}
	if now.Sub(f.told) >= time.Minute {
		f.told = now
		w.log.Error(err, "a kind cannot be read; what is known of it may be out of date until this ends", "kind", kind)
	}
}

// stale says which kinds have not been read for too long, and is empty if the cache is current.
func (w *watches) stale() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock.Now()
	var found []string
	for by, f := range w.failing {
		if now.Sub(f.last) <= recoveredAfter && f.last.Sub(f.since) >= staleAfter && by.LastSyncResourceVersion() == f.version {
			found = append(found, fmt.Sprintf("the cache of %s is not current: %v", f.kind, f.err))
		}
	}
	slices.Sort(found)
	return strings.Join(found, "\n")
}
