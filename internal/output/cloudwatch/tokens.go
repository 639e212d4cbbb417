package cloudwatch

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"
)

// Tokens is the memory of sequence tokens, for endpoints that still enforce them. It is
// shared by all outputs of a process, so that no request of the process can carry a token
// that another one has used up. It may be used from any goroutine.
//
// The service itself stopped looking at tokens in January 2023: for its hosts nothing is
// remembered and no request waits for another, unless one of them answers that a token is
// wrong. For any other host (LocalStack, older emulators) the requests for one stream
// follow each other and each carries the token from the last answer.
type Tokens struct {
	mu    sync.Mutex // guards what follows
	max   int
	lanes map[string]*list.Element
	order *list.List // of *tokenLane, the most recently used first
	hosts map[string]*tokenHost
}

// tokenHost is what is known about an endpoint.
type tokenHost struct {
	enforced atomic.Bool   // it has answered that a token is wrong
	probed   atomic.Bool   // it has answered a put, one way or the other
	turn     chan struct{} // holds one value while nobody finds that out
}

// maxTokens bounds the streams whose token is remembered. One that was forgotten costs a
// conflict, which the answer resolves.
const maxTokens = 1 << 14

// NewTokens makes an empty memory.
func NewTokens() *Tokens {
	return &Tokens{max: maxTokens, lanes: map[string]*list.Element{}, order: list.New(), hosts: map[string]*tokenHost{}}
}

func (t *Tokens) host(name string) *tokenHost {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.hosts[name]
	if h == nil {
		h = &tokenHost{turn: make(chan struct{}, 1)}
		h.turn <- struct{}{}
		t.hosts[name] = h
	}
	return h
}

// probe lets one request after the other find out whether the endpoint enforces tokens,
// until it is known: so that a process that comes back to a hundred streams meets one
// conflict and not one for each worker. It reports whether the caller is to find out, and
// then to call probedBy.
func (h *tokenHost) probe(ctx context.Context) (bool, error) {
	if h.probed.Load() {
		return false, nil
	}
	select {
	case <-h.turn:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if h.probed.Load() {
		h.turn <- struct{}{}
		return false, nil
	}
	return true, nil
}

// probedBy ends a probe.
func (h *tokenHost) probedBy(answered bool) {
	if answered {
		h.probed.Store(true)
	}
	h.turn <- struct{}{}
}

// tokenLane is the place of one stream.
type tokenLane struct {
	key   string
	users int           // requests that hold it or wait for it; guarded by Tokens.mu
	turn  chan struct{} // holds one value while nobody holds the lane
	token string        // guarded by turn
	known bool          // token is what the service expects; guarded by turn
}

// acquire waits until no other request for the stream is on its way and returns its place.
func (t *Tokens) acquire(ctx context.Context, key string) (*tokenLane, error) {
	t.mu.Lock()
	e := t.lanes[key]
	if e == nil {
		l := &tokenLane{key: key, turn: make(chan struct{}, 1)}
		l.turn <- struct{}{}
		e = t.order.PushFront(l)
		t.lanes[key] = e
		t.evict()
	} else {
		t.order.MoveToFront(e)
	}
	l := e.Value.(*tokenLane)
	l.users++
	t.mu.Unlock()
	select {
	case <-l.turn:
		return l, nil
	case <-ctx.Done():
		t.mu.Lock()
		l.users--
		t.mu.Unlock()
		return nil, ctx.Err()
	}
}

// evict forgets the places used least recently, except those in use. t.mu is held.
func (t *Tokens) evict() {
	for e := t.order.Back(); e != nil && t.order.Len() > t.max; {
		l, prev := e.Value.(*tokenLane), e.Prev()
		if l.users == 0 && e != t.order.Front() {
			t.order.Remove(e)
			delete(t.lanes, l.key)
		}
		e = prev
	}
}

func (t *Tokens) release(l *tokenLane) {
	t.mu.Lock()
	l.users--
	t.mu.Unlock()
	l.turn <- struct{}{}
}
