package executor

import (
	"context"
	"maps"
	"sync"

	"golang.org/x/time/rate"
)

const (
	// shareOfReads is which part of the reads for all tenants is one tenant's, after the first readsAtFirst.
	shareOfReads = 5
	// readsAtFirst is how many a tenant may have at once: more than the Executors of most name altogether.
	readsAtFirst = 1024
	// fewShares is how many tenants may be remembered without looking for those that need not be.
	fewShares = 256
)

// shares bounds how often something is read for the Executors of namespaces: a tenant who names what is not there, a
// thousand times, has it looked for at the tenant's own cost. Reads for the cluster's are not bounded.
type shares struct {
	all *rate.Limiter
	one rate.Limit

	mu sync.Mutex
	of map[string]*rate.Limiter // by namespace; of one that is not here, nothing was read lately
}

// newShares allows all tenants together so many reads per second.
func newShares(perSecond float64) *shares {
	return &shares{
		all: rate.NewLimiter(rate.Limit(perSecond), max(1, int(perSecond))),
		one: rate.Limit(perSecond / shareOfReads),
		of:  map[string]*rate.Limiter{},
	}
}

// wait returns when something may be read for a namespace's Executor; without a namespace, at once. It ends with ctx.
func (s *shares) wait(ctx context.Context, namespace string) error {
	if namespace == "" {
		return nil
	}
	if err := s.limiter(namespace).Wait(ctx); err != nil {
		return err
	}
	return s.all.Wait(ctx)
}

// has says whether so much may be read for a namespace's Executor without waiting for its share.
func (s *shares) has(namespace string, reads int) bool {
	return namespace == "" || s.limiter(namespace).Tokens() >= float64(min(reads, readsAtFirst))
}

func (s *shares) limiter(namespace string) *rate.Limiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.of[namespace]; found != nil {
		return found
	}
	if len(s.of) >= fewShares {
		maps.DeleteFunc(s.of, func(_ string, l *rate.Limiter) bool { return l.Tokens() >= readsAtFirst })
	}
	made := rate.NewLimiter(s.one, readsAtFirst)
	s.of[namespace] = made
	return made
}
