package cloudwatch

import (
	"container/list"
	"context"
	"sync"
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
	mu     sync.Mutex // guards what follows
	max    int
	lanes  map[string]*list.Element
	order  *list.List // of *tokenLane, the most recently used first
	strict map[string]bool
}

// maxTokens bounds the streams whose token is remembered. One that was forgotten costs a
// conflict, which the answer resolves.
const maxTokens = 1 << 14

// NewTokens makes an empty memory.
func NewTokens() *Tokens {
	return &Tokens{max: maxTokens, lanes: map[string]*list.Element{}, order: list.New(), strict: map[string]bool{}}
}

// tokenLane is the place of one stream.
type tokenLane struct {
	key   string
	users int           // requests that hold it or wait for it; guarded by Tokens.mu
	turn  chan struct{} // holds one value while nobody holds the lane
	token string        // guarded by turn
	known bool          // token is what the service expects; guarded by turn
}

// enforce notes that a host enforces tokens. It reports whether that is news.
func (t *Tokens) enforce(host string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	news := !t.strict[host]
	t.strict[host] = true
	return news
}

func (t *Tokens) enforced(host string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.strict[host]
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
