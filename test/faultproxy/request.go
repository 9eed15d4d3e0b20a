package faultproxy

import (
	"fmt"
	"net/http"
	"strings"
)

// Request is one that a client has sent, in the API server's terms.
type Request struct {
	// Number is the request's place among the writes of this proxy that make up the state of the cluster, from 1; 0 for
	// every other request. Leases and Events are not state: they come by the clock and not by what there is to do.
	Number int
	// Verb is get, list, watch, create, update, patch, delete or deletecollection; of what is no resource, the method.
	Verb string
	// Group is empty for the core group; Resource is the plural.
	Group, Resource, Subresource string
	// Name is empty for lists, and for creates until they are answered.
	Namespace, Name string
	// DryRun says that nothing is to be stored.
	DryRun bool
	// Path is that of the URL.
	Path string
}

func (r Request) String() string {
	of := strings.TrimSuffix(r.Resource+"."+r.Group, ".")
	if r.Subresource != "" {
		of += "/" + r.Subresource
	}
	if r.Resource == "" {
		of = r.Path
	}
	return fmt.Sprintf("%s %s %s", r.Verb, of, strings.TrimPrefix(r.Namespace+"/"+r.Name, "/"))
}

// Writes says whether the request may change something.
func (r Request) Writes() bool {
	switch r.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	}
	return false
}

// state says whether the request is a write that counts.
func (r Request) state() bool {
	return r.Writes() && r.Resource != "leases" && r.Resource != "events" && !strings.HasSuffix(r.Resource, "reviews")
}

// parse reads a request's URL: /api/VERSION/… or /apis/GROUP/VERSION/…, then namespaces/NAMESPACE if there is one, then
// the resource, a name and a subresource.
func parse(r *http.Request) Request {
	out := Request{Verb: strings.ToLower(r.Method), Path: r.URL.Path}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		out.Group, parts = parts[1], parts[3:]
	default:
		return out // discovery, health
	}
	// A namespace itself is /namespaces/NAME; what is in it is /namespaces/NAME/RESOURCE.
	if parts[0] == "namespaces" && len(parts) >= 3 && parts[2] != "status" && parts[2] != "finalize" {
		out.Namespace, parts = parts[1], parts[2:]
	}
	out.Resource = parts[0]
	if len(parts) > 1 {
		out.Name = parts[1]
	}
	out.Subresource = strings.Join(parts[min(len(parts), 2):], "/")
	query := r.URL.Query()
	out.DryRun = query.Has("dryRun")
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		out.Verb = "get"
		if watch := query.Get("watch"); watch == "true" || watch == "1" {
			out.Verb = "watch"
		} else if out.Name == "" {
			out.Verb = "list"
		}
	case http.MethodPost:
		out.Verb = "create"
	case http.MethodPut:
		out.Verb = "update"
	case http.MethodDelete:
		if out.Name == "" {
			out.Verb = "deletecollection"
		}
	}
	return out
}

// Match chooses requests.
type Match func(Request) bool

// Every chooses requests that all of the matches choose.
func Every(matches ...Match) Match {
	return func(r Request) bool {
		for _, match := range matches {
			if !match(r) {
				return false
			}
		}
		return true
	}
}

// Verb chooses requests by what they do.
func Verb(verbs ...string) Match {
	return func(r Request) bool {
		for _, verb := range verbs {
			if r.Verb == verb {
				return true
			}
		}
		return false
	}
}

// Of chooses requests for a resource (plural), its subresources included.
func Of(group, resource string) Match {
	return func(r Request) bool { return r.Group == group && r.Resource == resource }
}

// StatusOf chooses requests for a resource's status.
func StatusOf(group, resource string) Match {
	return func(r Request) bool { return r.Group == group && r.Resource == resource && r.Subresource == "status" }
}

// StateWrite chooses writes that make up the state of the cluster: all but those of leases, Events and reviews.
func StateWrite(r Request) bool { return r.state() }

// NotLease chooses what is not about leases, for scripts that are not about leadership.
func NotLease(r Request) bool { return r.Resource != "leases" }
