package faultproxy

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Distortion is what goes wrong with the events of watches. What a watch tells first in place of a list is spared of
// repetition and loss, as are bookmarks: they are no events.
type Distortion struct {
	// When chooses watches; nil chooses all.
	When Match
	// Late is how long after its time each event comes. The order stays.
	Late time.Duration
	// Twice is how probable it is that an event comes twice; 1 is for certain.
	Twice float64
	// Lost is how probable it is that an event does not come. The client learns of it by its next list.
	Lost float64
}

// hold keeps events back.
type hold struct {
	match    Match
	released chan struct{}
}

// Distort replaces what goes wrong with watches, those that are open included. The first that matches a watch counts.
func (p *Proxy) Distort(distortions ...Distortion) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.distortions = distortions
}

// Hold keeps back all events of the watches that match, until release is called; it may be called more than once. A
// client that starts meanwhile does not get its lists either, where it has them by watching.
func (p *Proxy) Hold(match Match) (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	held := &hold{match: match, released: make(chan struct{})}
	p.holds = append(p.holds, held)
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		close(held.released)
		kept := p.holds[:0]
		for _, h := range p.holds {
			if h != held {
				kept = append(kept, h)
			}
		}
		p.holds = kept
	})
}

// Relist ends the watches that match as the API server does when it does not remember that far back: the client has to
// list again, and then knows what it has lost.
func (p *Proxy) Relist(match Match) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.streams {
		if match(s.request) {
			s.expire()
		}
	}
}

const (
	// maxEvent bounds one event; an object is a few megabytes at most.
	maxEvent = 16 << 20
	// maxPending bounds the events that wait to be late.
	maxPending = 4096
)

// stream is one watch on its way through.
type stream struct {
	proxy   *Proxy
	request Request
	id      uint64 // of the watch's path and selectors: the decider of its chances
	initial bool   // what comes is what a list would say
	expired chan struct{}
	expire  func()
}

type event struct {
	line    []byte
	arrived time.Time
}

// distortWatch puts a stream between the API server's answer to a watch and the client.
func (p *Proxy) distortWatch(response *http.Response) error {
	request, _ := response.Request.Context().Value(requestKey{}).(Request)
	if request.Verb != "watch" || response.StatusCode != http.StatusOK {
		return nil
	}
	if kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return fmt.Errorf("%s: asked for JSON and got %q", request, response.Header.Get("Content-Type"))
	}
	query := response.Request.URL.Query()
	name := fnv.New64a()
	_, _ = io.WriteString(name, request.Path+"?"+query.Get("labelSelector")+"&"+query.Get("fieldSelector"))
	s := &stream{
		proxy:   p,
		request: request,
		id:      name.Sum64(),
		initial: query.Get("sendInitialEvents") == "true",
		expired: make(chan struct{}),
	}
	s.expire = sync.OnceFunc(func() { close(s.expired) })

	ctx, cancel := context.WithCancel(response.Request.Context())
	events := make(chan event, maxPending)
	upstream := response.Body
	reader, writer := io.Pipe()
	response.Body = &watchBody{PipeReader: reader, end: func() {
		cancel()
		_ = upstream.Close()
	}}
	p.mu.Lock()
	p.streams[s] = struct{}{}
	p.mu.Unlock()
	go receive(ctx, upstream, events)
	go func() {
		err := s.deliver(ctx, events, writer)
		p.mu.Lock()
		delete(p.streams, s)
		p.mu.Unlock()
		_ = writer.CloseWithError(err) // never fails
	}()
	return nil
}

// watchBody is what the client reads; its end is the end of everything behind it.
type watchBody struct {
	*io.PipeReader
	end func()
}

func (b *watchBody) Close() error {
	b.end()
	return b.PipeReader.Close()
}

// receive reads events, one a line, until the watch ends, and notes when each came.
func receive(ctx context.Context, from io.Reader, events chan<- event) {
	defer close(events)
	lines := bufio.NewReader(from)
	for {
		line, err := readLine(lines)
		if err != nil {
			return
		}
		select {
		case events <- event{line, time.Now()}:
		case <-ctx.Done():
			return
		}
	}
}

func readLine(lines *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := lines.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case len(line) > maxEvent:
			return nil, fmt.Errorf("an event of more than %d bytes", maxEvent)
		}
	}
}

// deliver writes the events as late, as often and as few as they are to come.
func (s *stream) deliver(ctx context.Context, events <-chan event, to io.Writer) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.expired:
			return s.tooOld(to)
		case next, more := <-events:
			if !more {
				return io.EOF
			}
			times, due := s.fate(next)
			if err := s.detain(ctx, due); errors.Is(err, errExpired) {
				return s.tooOld(to)
			} else if err != nil {
				return err
			}
			for range times {
				if _, err := to.Write(next.line); err != nil {
					return err
				}
			}
		}
	}
}

var errExpired = errors.New("the watch is to be begun anew")

// detain waits until an event is due and nothing holds it back.
func (s *stream) detain(ctx context.Context, due time.Time) error {
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.expired:
		return errExpired
	case <-ctx.Done():
		return ctx.Err()
	}
	for held := s.held(); held != nil; held = s.held() {
		select {
		case <-held.released:
		case <-s.expired:
			return errExpired
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// fate says how often an event comes, and when.
func (s *stream) fate(e event) (times int, due time.Time) {
	var about struct {
		Type   string
		Object struct {
			Metadata struct {
				Annotations     map[string]string
				ResourceVersion string
			}
		}
	}
	if json.Unmarshal(e.line, &about) != nil {
		return 1, e.arrived // the client may make of it what it can
	}
	s.proxy.mu.Lock()
	defer s.proxy.mu.Unlock()
	var d Distortion
	for _, candidate := range s.proxy.distortions {
		if candidate.When == nil || candidate.When(s.request) {
			d = candidate
			break
		}
	}
	due = e.arrived.Add(d.Late)
	if b := s.proxy.behind; b != nil && b.match(s.request) {
		due = later(due, b.history.when(about.Object.Metadata.ResourceVersion).Add(b.by))
	}
	switch {
	case about.Type == "BOOKMARK":
		if about.Object.Metadata.Annotations["k8s.io/initial-events-end"] == "true" {
			s.initial = false
		}
		return 1, due
	case about.Type == "ERROR":
		return 1, e.arrived
	case s.initial:
		return 1, due
	}
	// Counted over all watches of the same, so that a watch that is opened anew does not meet the same chances again.
	s.proxy.turns[s.id]++
	turn := s.proxy.turns[s.id]
	switch {
	case d.Lost > 0 && chance(s.proxy.seed, s.id, turn, d.Lost):
		return 0, due
	case d.Twice > 0 && chance(s.proxy.seed, s.id+1, turn, d.Twice):
		return 2, due
	}
	return 1, due
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// held is what keeps the stream's events back, or nil.
func (s *stream) held() *hold {
	s.proxy.mu.Lock()
	defer s.proxy.mu.Unlock()
	for _, h := range s.proxy.holds {
		if h.match(s.request) {
			return h
		}
	}
	return nil
}

// tooOld ends a watch as the API server does when it has forgotten what the client knows.
func (s *stream) tooOld(to io.Writer) error {
	line, err := json.Marshal(map[string]any{"type": "ERROR", "object": status(http.StatusGone, "too old resource version: injected by the test")})
	if err != nil {
		return err
	}
	if _, err := to.Write(append(line, '\n')); err != nil {
		return err
	}
	return io.EOF
}

// jsonOnly is an Accept header without the forms that are not JSON. What is asked for in another form only is asked
// for in JSON: the parameters (as=Table, as=PartialObjectMetadata) stay.
func jsonOnly(accept string) string {
	var kept, other []string
	for part := range strings.SplitSeq(accept, ",") {
		kind, parameters, _ := strings.Cut(strings.TrimSpace(part), ";")
		if parameters != "" {
			parameters = ";" + parameters
		}
		switch kind {
		case "application/json":
			kept = append(kept, kind+parameters)
		case "application/vnd.kubernetes.protobuf", "application/cbor":
			other = append(other, "application/json"+parameters)
		}
	}
	if len(kept) == 0 {
		kept = other
	}
	if len(kept) == 0 {
		return "application/json"
	}
	return strings.Join(kept, ",")
}
