package faultproxy

import "sync"

// kill is the end of the client at one of its writes.
type kill struct {
	at    int
	after bool
	do    func()
	once  sync.Once
	done  chan struct{}
}

// KillBefore kills the client when it sends its k-th write of state, which is not passed on. kill must return when the
// client is gone. Of what the client has sent at the same time, only what came earlier is passed on.
func (p *Proxy) KillBefore(k int, kill func()) { p.killAt(k, false, kill) }

// KillAfter kills the client when its k-th write of state has been made, before it knows.
func (p *Proxy) KillAfter(k int, kill func()) { p.killAt(k, true, kill) }

func (p *Proxy) killAt(k int, after bool, do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kill = &kill{at: k, after: after, do: do, done: make(chan struct{})}
}

// Spare takes back a kill and a halt that have not come to pass.
func (p *Proxy) Spare() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kill != nil && p.begun < p.kill.at {
		p.kill = nil
	}
	if p.halt != nil && p.begun < p.halt.at {
		p.halt = nil
	}
}

// Killed says whether the client has been killed.
func (p *Proxy) Killed() bool {
	p.mu.Lock()
	k := p.kill
	p.mu.Unlock()
	if k == nil {
		return false
	}
	select {
	case <-k.done:
		return true
	default:
		return false
	}
}

// reaches says whether a request is the fatal one or comes after it. What comes after it waits for the end, so that
// nothing later than the chosen write is ever made.
func (k *kill) reaches(r Request) bool { return r.Number >= k.at }

// strike kills the client if the request is the fatal one, and waits until it is dead.
func (k *kill) strike(number int) {
	if number == k.at {
		k.once.Do(func() {
			k.do()
			close(k.done)
		})
	}
	<-k.done
}
