package rollout

import (
	"cmp"

	"k8s.io/apimachinery/pkg/types"
)

// rank is the place of a candidate in the queue: the class decides, then a hash that is stable for a gateway of a
// release, so that every pass finds the same order and it is not the same tenant who goes first in every release.
type rank struct {
	class  class
	hash   uint64
	member *Member
}

type class uint8

const (
	// broken by an earlier attempt of this rollout: it is down already.
	broken class = iota
	// healthy, or new.
	healthy
	// unready on the last completed revision already.
	unready
)

func (a rank) compare(b rank) int {
	return cmp.Or(
		cmp.Compare(a.class, b.class),
		cmp.Compare(a.hash, b.hash),
		cmp.Compare(a.member.UID, b.member.UID),
	)
}

// queue keeps the first few of many candidates, and counts all. Its memory is bounded by its limit, not by the fleet.
type queue struct {
	limit int
	total int
	// heap has the last of those kept at its root.
	heap []rank
}

func (q *queue) add(r rank) {
	q.total++
	switch {
	case len(q.heap) < q.limit:
		q.heap = append(q.heap, r)
		q.up(len(q.heap) - 1)
	case q.limit > 0 && r.compare(q.heap[0]) < 0:
		q.heap[0] = r
		q.down(0, len(q.heap))
	}
}

// sorted empties the queue's heap into the order of admission.
func (q *queue) sorted() []rank {
	for n := len(q.heap) - 1; n > 0; n-- {
		q.heap[0], q.heap[n] = q.heap[n], q.heap[0]
		q.down(0, n)
	}
	return q.heap
}

func (q *queue) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if q.heap[i].compare(q.heap[parent]) <= 0 {
			return
		}
		q.heap[i], q.heap[parent] = q.heap[parent], q.heap[i]
		i = parent
	}
}

func (q *queue) down(i, n int) {
	for {
		child := 2*i + 1
		if child >= n {
			return
		}
		if right := child + 1; right < n && q.heap[right].compare(q.heap[child]) > 0 {
			child = right
		}
		if q.heap[child].compare(q.heap[i]) <= 0 {
			return
		}
		q.heap[i], q.heap[child] = q.heap[child], q.heap[i]
		i = child
	}
}

// hasher hashes gateway UIDs under a release UID: 64-bit FNV-1a over both, finished with the mixer of MurmurHash3,
// because FNV alone leaves strings that differ in their last bytes close together.
type hasher uint64

func newHasher(release types.UID) hasher {
	return hasher(fnv1a(14695981039346656037, string(release)))
}

func (h hasher) of(gateway types.UID) uint64 {
	x := fnv1a(uint64(h), string(gateway))
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	return x
}

func fnv1a(state uint64, text string) uint64 {
	for i := 0; i < len(text); i++ {
		state ^= uint64(text[i])
		state *= 1099511628211
	}
	return state
}
