package forward

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"weir/internal/event"
	"weir/internal/input"
)

// ackQueue is how many groups of a connection may wait for their receipts. When they are
// more the connection is not read until some are done.
const ackQueue = 256

// writeTimeout is how long a client may take to accept acknowledgements.
const writeTimeout = 60 * time.Second

// ackGroup is what one receipt answers: the messages of one batch.
type ackGroup struct {
	receipt input.Receipt
	bytes   []byte    // the encoded answers, concatenated
	ids     []chunkID // to be settled
	n       int       // answers in bytes
	arrived time.Time

	repeat bool // no batch: ids[0] is a chunk whose first copy came before
}

// ackGroups recycles groups.
type ackGroups struct{ pool sync.Pool }

func (p *ackGroups) get() *ackGroup {
	if g, _ := p.pool.Get().(*ackGroup); g != nil {
		return g
	}
	return new(ackGroup)
}

func (p *ackGroups) put(g *ackGroup) {
	*g = ackGroup{bytes: g.bytes[:0], ids: g.ids[:0]}
	if cap(g.bytes) <= 64<<10 {
		p.pool.Put(g)
	}
}

// add notes one message to be answered. chunk is the value of its option.
func (g *ackGroup) add(chunk []byte, json bool) {
	g.n++
	if json {
		g.bytes = append(g.bytes, `{"ack":`...)
		g.bytes = event.AppendJSON(g.bytes, chunk, event.Yajl)
		g.bytes = append(g.bytes, '}')
		return
	}
	g.bytes = append(g.bytes, 0x81)
	g.bytes = event.AppendStr(g.bytes, "ack")
	g.bytes = append(g.bytes, chunk...)
}

// answer queues a group for the acker, which is started by the first one: many clients
// never ask for answers. It blocks while too many wait; the acker takes until the queue is
// closed, so that ends.
func (c *conn) answer(work context.Context, g *ackGroup) {
	if c.queue == nil {
		c.queue = make(chan *ackGroup, ackQueue)
		c.acking.Go(func() {
			a := acker{c: c}
			a.run(work)
		})
	}
	c.queue <- g
}

// acker answers the messages of a connection in order, each when its batch is safe.
type acker struct {
	c    *conn
	out  []byte
	n    int
	wait []time.Time // arrival of the answers in out, with how many
	ns   []int
}

// run ends when the queue is closed. It settles every group even if the client has gone,
// so that a repeat over another connection is recognised.
func (a *acker) run(ctx context.Context) {
	// A context that has ended turns Wait into a question: is it safe already?
	asking, cancel := context.WithCancel(ctx)
	cancel()
	for g := range a.c.queue {
		a.take(ctx, g)
		for more := true; more && a.n < 1024; {
			select {
			case g, more = <-a.c.queue:
				if !more {
					break
				}
				if !g.repeat && g.receipt.Wait(asking) == nil {
					a.safe(g)
					continue
				}
				a.flush()
				a.take(ctx, g)
			default:
				more = false
			}
		}
		a.flush()
	}
}

// take waits until the group's batch is safe.
func (a *acker) take(ctx context.Context, g *ackGroup) {
	if g.repeat {
		if a.c.broken.Load() {
			a.c.in.groups.put(g)
			return
		}
		if err := a.c.in.recent.wait(ctx, g.ids[0]); err != nil {
			a.fail(ctx, g, err)
			return
		}
		a.c.in.n.repeats.Add(1)
		g.ids = g.ids[:0]
		a.safe(g)
		return
	}
	if err := g.receipt.Wait(ctx); err != nil {
		a.c.in.recent.settle(g.ids, false)
		a.fail(ctx, g, err)
		return
	}
	a.safe(g)
}

// safe settles a group and notes its answers for the next write.
func (a *acker) safe(g *ackGroup) {
	a.c.in.recent.settle(g.ids, true)
	a.out = append(a.out, g.bytes...)
	a.n += g.n
	a.wait = append(a.wait, g.arrived)
	a.ns = append(a.ns, g.n)
	a.c.in.groups.put(g)
}

// fail gives up a group without an answer; the connection ends, so that the client sends
// the messages again.
func (a *acker) fail(ctx context.Context, g *ackGroup, err error) {
	if ctx.Err() == nil {
		a.c.in.notices.warnRare(kindAck, "forward: no acknowledgement, connection will be closed",
			slog.String("peer", a.c.peer), slog.Any("reason", err))
	}
	a.c.in.groups.put(g)
	a.c.stopReading()
}

func (a *acker) flush() {
	if len(a.out) > 0 && !a.c.broken.Load() {
		if err := a.c.write(a.out); err != nil {
			a.c.broken.Store(true)
			a.c.stopReading()
		} else {
			now := time.Now()
			for i, at := range a.wait {
				a.c.in.n.answered(a.ns[i], now.Sub(at))
			}
			a.c.answered.Store(true)
		}
	}
	if cap(a.out) > 64<<10 {
		a.out = nil
	}
	a.out, a.n, a.wait, a.ns = a.out[:0], 0, a.wait[:0], a.ns[:0]
}
