package forward

import (
	"errors"
	"math/bits"
	"sync"
	"sync/atomic"
)

// Sizes of the buffers that connections read into. A connection starts with the
// smallest, doubles it whenever bytes really fill it, and gives it back when idle.
const (
	minBuffer    = 4 << 10
	steadyBuffer = 256 << 10 // reads need not be larger than this
	keepBuffer   = 2 << 20   // larger ones are given back after each message
	freeBuffer   = 1 << 20   // smaller ones are not counted against the limit
)

// defaultMemory is how many bytes all large messages in progress may take together.
const defaultMemory = 512 << 20

// errMemory says that large messages of other connections use up the memory allowed.
var errMemory = errors.New("too many large messages are being received at once")

// errAlone is errMemory of a message for which there is never enough.
var errAlone error = aloneError{}

type aloneError struct{}

func (aloneError) Error() string {
	return "the message needs more memory than there is for messages, even alone: raise memory_limit in <system>, or let the sender make smaller ones"
}

func (aloneError) Is(target error) bool { return target == errMemory }

// memory hands out buffers of sizes that are powers of two, and keeps the sum of large
// ones within a limit.
type memory struct {
	limit int64
	used  atomic.Int64
	pools [12]sync.Pool // 4 KiB to 8 MiB
}

// block is a buffer with its home.
type block struct{ b []byte }

func class(size int) int { return max(0, bits.Len(uint(size-1))-12) }

// get returns a block of at least size bytes.
func (m *memory) get(size int) (*block, error) {
	k := class(size)
	size = minBuffer << k
	if size > freeBuffer && m.used.Add(int64(size)) > m.limit {
		m.used.Add(-int64(size))
		if int64(size) > m.limit {
			return nil, errAlone
		}
		return nil, errMemory
	}
	if k < len(m.pools) {
		if b, _ := m.pools[k].Get().(*block); b != nil {
			return b, nil
		}
	}
	return &block{make([]byte, size)}, nil
}

// put takes back a block; nil is allowed.
func (m *memory) put(b *block) {
	if b == nil {
		return
	}
	if len(b.b) > freeBuffer {
		m.used.Add(-int64(len(b.b)))
	}
	if k := class(len(b.b)); k < len(m.pools) {
		m.pools[k].Put(b)
	}
}

// grow returns a block of twice the size with the first n bytes of b, and takes back b.
func (m *memory) grow(b *block, n int) (*block, error) {
	g, err := m.get(2 * len(b.b))
	if err != nil && len(b.b) > freeBuffer && 3*int64(len(b.b)) > m.limit {
		err = errAlone // both are there for a moment
	}
	if err != nil {
		return b, err
	}
	copy(g.b, b.b[:n])
	m.put(b)
	return g, nil
}
