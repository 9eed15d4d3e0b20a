package faultproxy

import "sync"

// halt is a moment at which the client's writes stand still.
type halt struct {
	at    int
	after bool
	do    func()
	once  sync.Once
	done  chan struct{}
}

// HaltBefore calls do when the client sends its k-th write of state. That one and all that come after it are passed on
// when do returns: whatever happens meanwhile, they were decided before it.
func (p *Proxy) HaltBefore(k int, do func()) { p.haltAt(k, false, do) }

// HaltAfter calls do when the client's k-th write of state has been made, before it knows; it is told when do returns,
// and what it has sent after it is passed on then.
func (p *Proxy) HaltAfter(k int, do func()) { p.haltAt(k, true, do) }

func (p *Proxy) haltAt(k int, after bool, do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.halt = &halt{at: k, after: after, do: do, done: make(chan struct{})}
}

// Halted says whether a halt has come to pass and is over.
func (p *Proxy) Halted() bool {
	p.mu.Lock()
	h := p.halt
	p.mu.Unlock()
	if h == nil {
		return false
	}
	select {
	case <-h.done:
		return true
	default:
		return false
	}
}

// before stands still until the halt is over, for a request that is not to be passed on until then.
func (h *halt) before(r Request) {
	if h != nil && !(h.after && r.Number == h.at) {
		h.stand(r)
	}
}

// answered stands still until the halt is over, for the request whose answer is kept back.
func (h *halt) answered(r Request) {
	if h != nil && h.after && r.Number == h.at {
		h.stand(r)
	}
}

func (h *halt) stand(r Request) {
	if r.Number == h.at {
		h.once.Do(func() {
			defer close(h.done)
			h.do()
		})
	}
	<-h.done
}
