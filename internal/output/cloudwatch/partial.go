package cloudwatch

import (
	"crypto/sha256"
	"sync"
)

// partials remembers how many pieces of an oversize event a lane has delivered when the
// next one fails: delivery builds the request anew for its next attempt, and what is
// delivered must not go out again each time.
type partials struct {
	mu    sync.Mutex // guards lanes
	lanes map[string]partial
}

type partial struct {
	sum  [sha256.Size]byte // of the whole event
	next int
}

// maxPartials bounds the lanes remembered. One that was forgotten sends its pieces again.
const maxPartials = 1 << 10

// done says how many pieces of r's event are delivered.
func (p *partials) done(r *request) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l, ok := p.lanes[r.lane]; ok && l.sum == sha256.Sum256(r.body.buf) {
		return l.next
	}
	return 0
}

// note remembers what r has delivered, or forgets it when that is everything.
func (p *partials) note(r *request) {
	if !r.body.pieces {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.next == 0 || r.next == len(r.body.items) {
		delete(p.lanes, r.lane)
		return
	}
	if p.lanes == nil || len(p.lanes) >= maxPartials {
		p.lanes = map[string]partial{}
	}
	p.lanes[r.lane] = partial{sha256.Sum256(r.body.buf), r.next}
}
