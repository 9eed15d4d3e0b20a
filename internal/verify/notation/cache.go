package notation

import (
	"container/list"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// CacheOptions bound a Cache. A zero field means its default.
type CacheOptions struct {
	// MaxBytes bounds the memory that is used, roughly. Default 64 MiB.
	MaxBytes int64
	// MaxAge is how long an answer is used before its issuer is asked again.
	// Default 15 minutes. When the issuer then does not answer, what it last said
	// counts for as long as it said.
	MaxAge time.Duration
}

// Cache keeps what authorities answered about revocation, after the answer was
// proven to be theirs. It is safe for concurrent use, and for verifiers that
// trust different authorities.
type Cache struct {
	options CacheOptions
	// flight has each list fetched once at a time, as lists may be large.
	flight singleflight.Group

	mu      sync.Mutex
	bytes   int64
	entries map[string]*list.Element // of *cached
	recent  *list.List               // the most recently used first
}

type cached struct {
	key   string
	value any
	size  int64
	// fresh is until when it is used without asking, valid until when at all.
	fresh, valid time.Time
}

// NewCache makes an empty Cache.
func NewCache(options CacheOptions) *Cache {
	if options.MaxBytes == 0 {
		options.MaxBytes = 64 << 20
	}
	if options.MaxAge == 0 {
		options.MaxAge = 15 * time.Minute
	}
	return &Cache{options: options, entries: map[string]*list.Element{}, recent: list.New()}
}

// get returns what is kept under key and still valid, and whether it may be used
// without asking again.
func (c *Cache) get(key string, now time.Time) (value any, fresh, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element, found := c.entries[key]
	if !found {
		return nil, false, false
	}
	entry := element.Value.(*cached)
	if now.After(entry.valid) {
		c.drop(element)
		return nil, false, false
	}
	c.recent.MoveToFront(element)
	return entry.value, !now.After(entry.fresh), true
}

// put keeps value until valid, dropping what was not used for longest.
func (c *Cache) put(key string, value any, size int64, now, valid time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, found := c.entries[key]; found {
		c.drop(element)
	}
	size += int64(len(key))
	if size > c.options.MaxBytes {
		return
	}
	fresh := now.Add(c.options.MaxAge)
	if fresh.After(valid) {
		fresh = valid
	}
	c.entries[key] = c.recent.PushFront(&cached{key: key, value: value, size: size, fresh: fresh, valid: valid})
	c.bytes += size
	for c.bytes > c.options.MaxBytes {
		c.drop(c.recent.Back())
	}
}

func (c *Cache) drop(element *list.Element) {
	entry := c.recent.Remove(element).(*cached)
	delete(c.entries, entry.key)
	c.bytes -= entry.size
}
