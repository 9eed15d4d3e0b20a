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
	// watched again. Success is not reported, only failure.
	recoveredAfter = 90 * time.Second
)

// watches tells when a kind cannot be read. Nothing else would: the cache keeps answering with what it last saw.
type watches struct {
	clock clock.PassiveClock
	log   logr.Logger
	total *prometheus.CounterVec

	mu      sync.Mutex
	failing map[string]*failing
	rights  time.Time // when the remedy for missing rights was last told
}

// failing is a kind that could not be read, time after time.
type failing struct {
	since, last, told time.Time
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
		failing: map[string]*failing{},
	}
}

// handle is the cache's watch error handler. That a watch ends is no failure: the server ends each after some minutes.
func (w *watches) handle(_ context.Context, r *toolscache.Reflector, err error) {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		return
	}
	description := r.TypeDescription() // "*v1.Pod"
	w.failed(description[strings.LastIndex(description, ".")+1:], err)
}

// failed takes in that a kind could not be read, and says so once a minute.
func (w *watches) failed(kind string, err error) {
	w.total.WithLabelValues(kind).Inc()
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock.Now()
	f := w.failing[kind]
	if f == nil || now.Sub(f.last) > recoveredAfter {
		f = &failing{since: now}
		w.failing[kind] = f
	}
	f.last, f.err = now, err
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
	for kind, f := range w.failing {
		if now.Sub(f.last) <= recoveredAfter && f.last.Sub(f.since) >= staleAfter {
			found = append(found, fmt.Sprintf("the cache of %s is not current: %v", kind, f.err))
		}
	}
	slices.Sort(found)
	return strings.Join(found, "\n")
}
