package forward

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"sync"

	"weir/internal/event"
)

// recentLimit is how many acknowledged chunk ids are remembered at least; twice as many
// at most. It costs 2 MB when full.
const recentLimit = 32 << 10

// errRepeatFailed says that the first copy of a repeated chunk was not accepted after all.
var errRepeatFailed = errors.New("the first copy of the chunk was not accepted")

// chunkID stands for a tag, a chunk id and a likeness. It is a hash with seeds of this
// process, so that no client can construct a collision.
type chunkID [2]uint64

// likeness is what a repeat of a message has in common with its first copy beside the chunk
// id. Some senders number their chunks and begin anew at each start: what has the number of
// an old chunk, but is another one, must not be taken for it.
type likeness [4]uint64

func likenessOf(b *event.Batch) likeness {
	return likeness{uint64(len(b.Entries)), uint64(b.Count), uint64(b.First), uint64(b.Last)}
}

func (l *likeness) append(dst []byte) []byte {
	for _, n := range l {
		dst = binary.BigEndian.AppendUint64(dst, n)
	}
	return dst
}

// verdict is what Recent knows of a chunk.
type verdict uint8

const (
	fresh   verdict = iota // not seen; it is pending now and must be settled
	pending                // a first copy has been received and waits for its receipt
	acked                  // a first copy is safe
)

// Recent remembers the chunks that were accepted lately, so that a sender who repeats a
// chunk because the acknowledgement got lost is answered without a second copy. It may be
// used from any goroutine and may be shared by inputs.
type Recent struct {
	seeds [2]maphash.Seed

	mu       sync.Mutex // guards what follows
	waiting  map[chunkID]chan struct{}
	cur, old *idSet // two generations: when cur is full it becomes old
}

// NewRecent returns an empty memory. It grows up to 64 Ki ids.
func NewRecent() *Recent {
	return &Recent{
		seeds:   [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		waiting: make(map[chunkID]chan struct{}),
		cur:     &idSet{},
		old:     &idSet{},
	}
}

// id hashes a tag, the chunk id as it came, with its msgpack header, and what the message is
// like.
func (r *Recent) id(tag string, chunk []byte, like *likeness) (id chunkID) {
	var room [8 * len(like)]byte
	l := like.append(room[:0])
	for i, seed := range r.seeds {
		id[i] = (maphash.String(seed, tag)*0x9e3779b97f4a7c15^maphash.Bytes(seed, chunk))*0x9e3779b97f4a7c15 ^ maphash.Bytes(seed, l)
	}
	id[1] |= 1 // never zero, which is an empty slot of an idSet
	return id
}

// begin asks about a chunk. After fresh the caller owes a call of settle.
func (r *Recent) begin(id chunkID) verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.waiting[id]; ok {
		return pending
	}
	if r.cur.has(id) || r.old.has(id) {
		return acked
	}
	r.waiting[id] = nil
	return fresh
}

// settle ends what begin began: the chunks are safe, or were not accepted.
func (r *Recent) settle(ids []chunkID, safe bool) {
	if len(ids) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		if wake := r.waiting[id]; wake != nil {
			close(wake)
		}
		delete(r.waiting, id)
		if !safe {
			continue
		}
		if r.cur.n >= recentLimit {
			r.cur, r.old = r.old, r.cur
			r.cur.reset()
		}
		r.cur.add(id)
	}
}

// wait blocks until a pending chunk is settled. It returns nil if the chunk is safe.
func (r *Recent) wait(ctx context.Context, id chunkID) error {
	r.mu.Lock()
	wake, ok := r.waiting[id]
	if ok && wake == nil {
		wake = make(chan struct{})
		r.waiting[id] = wake
	}
	r.mu.Unlock()
	if ok {
		select {
		case <-wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cur.has(id) || r.old.has(id) {
		return nil
	}
	return errRepeatFailed
}

// ambiguous says that equal chunk ids do not prove that the chunk is a repeat. Fluent Bit
// makes the id from the content (32 hexadecimal digits of a hash), so two chunks with the
// same lines in the same second are equal if their times have no fraction. Then a second
// copy is better than a loss.
func ambiguous(chunk []byte, first, last event.Time) bool {
	if first%1e9 != 0 || last%1e9 != 0 {
		return false
	}
	s, _, err := event.Bytes(chunk, 0)
	if err != nil || len(s) != 32 {
		return false
	}
	for _, c := range s {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
