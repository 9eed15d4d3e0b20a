package faultproxy

import (
	"encoding/json"
	"slices"
	"strconv"
)

// Outcome is what became of a request: a status code, or one of the words below.
type Outcome string

// Outcomes without an answer.
const (
	OutcomeCut    Outcome = "cut"
	OutcomeHung   Outcome = "hung"
	OutcomeKilled Outcome = "killed"
)

// Count is what requests are counted by.
type Count struct {
	Verb, Group, Resource, Subresource string
	Outcome                            Outcome
}

// Written is a write that the API server has seen, or would have seen but for a fault.
type Written struct {
	Request
	// Outcome is what the client was told; Committed says that the API server did what was asked, told or not.
	Outcome   Outcome
	Committed bool
	// UID, Version and Generation are those of the object afterwards; empty when nothing came back.
	UID        string
	Version    string
	Generation int64
}

// Counts are the requests so far that are finished, watches included.
func (p *Proxy) Counts() map[Count]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make(map[Count]int, len(p.counts))
	for key, n := range p.counts {
		out[key] = n
	}
	return out
}

// Sent is how many requests of a kind have been finished, whatever came of them.
func (p *Proxy) Sent(match Match) int {
	n := 0
	for key, times := range p.Counts() {
		if match(Request{Verb: key.Verb, Group: key.Group, Resource: key.Resource, Subresource: key.Subresource}) {
			n += times
		}
	}
	return n
}

// Writes are the writes of state so far, in the order in which they were finished.
func (p *Proxy) Writes() []Written {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.writes)
}

// Begun is how many writes of state have come in.
func (p *Proxy) Begun() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.begun
}

// Pending is how many writes of state have come in and are not finished.
func (p *Proxy) Pending() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.begun - len(p.writes)
}

// finished counts a request. answer is what the API server said, if it was asked and the request was a write.
func (p *Proxy) finished(r Request, outcome Outcome, code int, answer []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[Count{r.Verb, r.Group, r.Resource, r.Subresource, outcome}]++
	if !r.state() {
		return
	}
	written := Written{Request: r, Outcome: outcome, Committed: code >= 200 && code < 300}
	if written.Committed {
		var made struct {
			Metadata struct {
				Name, UID, ResourceVersion string
				Generation                 int64
			}
		}
		// Whatever has no metadata, such as the answer to a delete, leaves them empty.
		if json.Unmarshal(answer, &made) == nil {
			written.UID, written.Version, written.Generation = made.Metadata.UID, made.Metadata.ResourceVersion, made.Metadata.Generation
			if written.Name == "" {
				written.Name = made.Metadata.Name
			}
		}
	}
	p.writes = append(p.writes, written)
}

func codeOutcome(code int) Outcome { return Outcome(strconv.Itoa(code)) }
