package faultproxy

import (
	"context"
	"sort"
	"strconv"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// historyStep is how far apart the moments of a history are.
	historyStep = 100 * time.Millisecond
	// historySpan is how far back a history reaches; the API server itself remembers five minutes.
	historySpan = 4 * time.Minute
)

// History says which version of everything was stored when.
type History struct {
	mu      sync.Mutex
	moments []moment
}

type moment struct {
	at      time.Time
	version uint64
}

// Remember notes the present version again and again until ctx ends. It has noted it once when it returns.
func Remember(ctx context.Context, reader client.Reader) (*History, error) {
	h := &History{}
	if err := h.note(ctx, reader); err != nil {
		return nil, err
	}
	go func() {
		tick := time.NewTicker(historyStep)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_ = h.note(ctx, reader) // a moment less
			case <-ctx.Done():
				return
			}
		}
	}()
	return h, nil
}

func (h *History) note(ctx context.Context, reader client.Reader) error {
	at := time.Now() // what is stored later has a later version
	text, err := Version(ctx, reader)
	if err != nil {
		return err
	}
	version, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.moments) > 1 && at.Sub(h.moments[0].at) > historySpan {
		h.moments = h.moments[1:]
	}
	h.moments = append(h.moments, moment{at, version})
	return nil
}

// at is the version of a moment, or a little earlier; that of the beginning for what was before it.
func (h *History) at(t time.Time) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	later := sort.Search(len(h.moments), func(i int) bool { return h.moments[i].at.After(t) })
	return strconv.FormatUint(h.moments[max(later-1, 0)].version, 10)
}

// when is when a version was stored, or a little later. Of one that is not noted yet it is now.
func (h *History) when(version string) time.Time {
	number, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return time.Now()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	first := sort.Search(len(h.moments), func(i int) bool { return h.moments[i].version >= number })
	if first == len(h.moments) {
		return time.Now()
	}
	return h.moments[first].at
}
