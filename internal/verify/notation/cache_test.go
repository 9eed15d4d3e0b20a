package notation

import (
	"fmt"
	"testing"
	"time"
)

func TestCacheIsBounded(t *testing.T) {
	now := time.Now()
	c := NewCache(CacheOptions{MaxBytes: 100, MaxAge: time.Minute})
	for i := range 50 {
		c.put(fmt.Sprintf("key-%02d", i), i, 14, now, now.Add(time.Hour)) // 20 with its key
		if _, _, found := c.get("key-00", now); !found {
			t.Fatal("what is used most recently is dropped")
		}
		if c.bytes > 100 || len(c.entries) != c.recent.Len() || len(c.entries) > 5 {
			t.Fatalf("it holds %d bytes in %d entries", c.bytes, len(c.entries))
		}
	}
	if _, _, found := c.get("key-10", now); found {
		t.Error("what was not used for longest is kept")
	}
	c.put("large", 0, 101, now, now.Add(time.Hour))
	if _, _, found := c.get("large", now); found || c.bytes > 100 {
		t.Error("what is larger than the whole cache is kept")
	}
	c.put("key-00", 1, 50, now, now.Add(time.Hour))
	if value, _, _ := c.get("key-00", now); value != 1 {
		t.Error("the older of two values is kept")
	}
}

func TestCacheKnowsFreshFromValid(t *testing.T) {
	now := time.Now()
	c := NewCache(CacheOptions{MaxAge: time.Minute})
	c.put("long", 1, 1, now, now.Add(time.Hour))
	c.put("short", 1, 1, now, now.Add(time.Second))
	for _, test := range []struct {
		key          string
		after        time.Duration
		fresh, found bool
	}{
		{"long", 0, true, true},
		{"long", time.Minute, true, true},
		{"long", time.Minute + 1, false, true},
		{"long", time.Hour, false, true},
		{"short", time.Second, true, true},
		{"short", time.Second + 1, false, false},
		{"long", time.Hour + 1, false, false},
		{"absent", 0, false, false},
	} {
		if _, fresh, found := c.get(test.key, now.Add(test.after)); fresh != test.fresh || found != test.found {
			t.Errorf("%s after %s: fresh %v, found %v", test.key, test.after, fresh, found)
		}
	}
	if c.bytes != 0 || len(c.entries) != 0 {
		t.Errorf("what is out of date still takes %d bytes", c.bytes)
	}
}
