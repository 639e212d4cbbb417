package pipeline

import (
	"strings"
	"sync"
)

// Resolver finds the route of a tag; nil means that no <match> takes it. It is called once
// for each tag that is not remembered.
type Resolver func(tag string) *Node

// Routes remembers the routes of tags, so that patterns are matched once for each tag and
// not for each batch. It may be used from any goroutine.
type Routes struct {
	resolve Resolver
	mu      sync.RWMutex // guards known
	known   map[string]*Node
}

// tagsKnown bounds the routes remembered; Fluentd remembers 1024. Ten thousand tags that take
// turns must all fit, since a full memory begins anew.
const tagsKnown = 16384

// NewRoutes makes Routes that ask resolve.
func NewRoutes(resolve Resolver) *Routes {
	return &Routes{resolve: resolve, known: map[string]*Node{}}
}

// Route gives the route of a tag, nil if there is none.
func (r *Routes) Route(tag string) *Node {
	r.mu.RLock()
	n, ok := r.known[tag]
	r.mu.RUnlock()
	if ok {
		return n
	}
	tag = strings.Clone(tag) // it may be borrowed, and the resolver may keep it
	n = r.resolve(tag)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.known) >= tagsKnown {
		clear(r.known)
	}
	r.known[tag] = n
	return n
}
