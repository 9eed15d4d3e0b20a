package faultproxy

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// oldList is a past that lists are answered from.
type oldList struct {
	match   Match
	version string
}

// Version is the version of everything that is stored now: what ListsOf takes to show this moment later.
func Version(ctx context.Context, reader client.Reader) (string, error) {
	var namespaces corev1.NamespaceList
	if err := reader.List(ctx, &namespaces, client.Limit(1)); err != nil {
		return "", fmt.Errorf("ask for the present version: %w", err)
	}
	return namespaces.ResourceVersion, nil
}

// ListsOf answers the lists that match as they were at a version, until Present. A client that would have its list by a
// watch is told to ask for a list. What has happened since the version, the watches then tell; Hold keeps it back.
//
// The API server itself answers so from its own cache when that is behind. It knows the past of about five minutes.
func (p *Proxy) ListsOf(version string, match Match) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.old = append(p.old, oldList{match: match, version: version})
}

// Present answers lists from the present again, and keeps no event back for being of now.
func (p *Proxy) Present() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.old, p.behind = nil, nil
}

// behind is a past that moves on with the time.
type behind struct {
	history *History
	by      time.Duration
	match   Match
}

// Behind shows what matches as an API server does whose cache is behind, until Present: a list is of so long ago, and
// each event comes so long after what it tells of. Clients that watch already keep what they know and learn the rest
// late; Relist takes them back in time. What is read by name is of now, as it is from an API server that is behind, and
// so is a list that is asked for whole and of no version: it is to be of now, and no cache fills itself by one.
func (p *Proxy) Behind(history *History, by time.Duration, match Match) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.behind = &behind{history: history, by: by, match: match}
}

// past is the version that a list is to be answered from; empty for the present.
func (p *Proxy) past(request Request, query url.Values) string {
	for _, old := range p.old {
		if old.match(request) {
			return old.version
		}
	}
	present := request.Verb == "list" && query.Get("resourceVersion") == "" && query.Get("limit") == ""
	if b := p.behind; b != nil && !present && b.match(request) {
		return b.history.at(time.Now().Add(-b.by))
	}
	return ""
}

// oldList turns a list into one of the past. It returns why a watch that would be a list too cannot be had.
func (p *Proxy) oldList(r *http.Request, request Request) (refused string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	query := r.URL.Query()
	streamed := request.Verb == "watch" && query.Get("sendInitialEvents") == "true"
	if !streamed && (request.Verb != "list" || query.Get("continue") != "") {
		return ""
	}
	version := p.past(request, query)
	switch {
	case version == "":
		return ""
	case streamed:
		return "sendInitialEvents is forbidden: the test wants this to be a list"
	}
	query.Set("resourceVersion", version)
	query.Set("resourceVersionMatch", "Exact")
	r.URL.RawQuery = query.Encode()
	return ""
}
