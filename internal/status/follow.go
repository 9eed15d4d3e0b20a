package status

import (
	"context"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// How a kind is followed.
const (
	firstPause = time.Second
	longPause  = 30 * time.Second
	watchFor   = 5 * time.Minute // the server ends a watch then, and another goes on from there
	watchGrace = 30 * time.Second
)

// follow keeps the collection current until the context ends, and calls changed after each change. A watch that ends is
// gone on with from where it ended; if the server no longer knows that place, everything is listed again. In trouble it
// asks ever less often, and what was there stays, with the trouble beside it.
func (c *collection) follow(ctx context.Context, from client.WithWatch, version string, changed func()) {
	pause := firstPause
	for ctx.Err() == nil {
		if version == "" {
			var err error
			if version, err = c.read(ctx, from); err != nil {
				changed()
				if !sleep(ctx, pause) {
					return
				}
				pause, version = min(2*pause, longPause), ""
				continue
			}
			changed()
		}
		began := time.Now()
		reached, err := c.watch(ctx, from, version, changed)
		version = reached
		switch {
		case err == nil, apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		case apierrors.IsForbidden(err): // who may list and not watch is told what a list says, every now and then
		default:
			c.fail(err)
			changed()
		}
		if time.Since(began) > longPause {
			pause = firstPause
			if err == nil {
				continue
			}
		}
		if !sleep(ctx, pause) {
			return
		}
		pause = min(2*pause, longPause)
	}
}

// watch takes in events until the watch ends, and returns the version that it got to: none after an error, because what
// was missed has to be listed.
func (c *collection) watch(ctx context.Context, from client.WithWatch, version string, changed func()) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*watchFor+watchGrace)
	defer cancel()
	seconds := int64(watchFor.Seconds()) + rand.Int64N(int64(watchFor.Seconds())) // so that not all come again at once
	raw := &metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true, TimeoutSeconds: &seconds}
	events, err := from.Watch(ctx, c.fresh(), append([]client.ListOption{&client.ListOptions{Raw: raw}}, c.options...)...)
	if err != nil {
		return "", err
	}
	defer events.Stop()
	for {
		select {
		case <-ctx.Done():
			return "", nil
		case event, open := <-events.ResultChan():
			if !open {
				return version, nil
			}
			if event.Type == watch.Error {
				return "", apierrors.FromObject(event.Object)
			}
			o, ok := event.Object.(client.Object)
			if !ok {
				continue
			}
			version = o.GetResourceVersion()
			if event.Type != watch.Bookmark && c.keep(o) {
				c.take(event.Type, o)
				changed()
			}
		}
	}
}

func (c *collection) take(what watch.EventType, o client.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := client.ObjectKeyFromObject(o)
	if what == watch.Deleted {
		delete(c.objects, key)
		return
	}
	c.objects[key] = slim(o)
}

func (c *collection) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trouble = err
}

// sleep waits, and says whether to go on.
func sleep(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause + rand.N(pause/2))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
