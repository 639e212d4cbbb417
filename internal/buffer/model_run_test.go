package buffer

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"weir/internal/ledger"
)

func (m *model) drain() {
	m.fs.Heal()
	m.fs.SetCapacity(0)
	time.Sleep(3 * time.Second)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := m.b.Seal(ctx); err != nil {
		m.t.Fatalf("seal: %v", err)
	}
	for {
		k, err := m.b.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			m.t.Fatalf("drain: %v", err)
		}
		m.take(k)
		k.Release()
	}
	m.skipEnded(len(m.batches))
	var parts []Part
	for _, r := range m.held {
		parts = append(parts, Part{Seq: r.Seq, Span: r.Span, Fate: ledger.Fate{Class: ledger.Delivered}})
	}
	if err := m.b.Settle(parts, m.tellAll()...); err != nil {
		m.t.Fatalf("settle the rest: %v\n%s", err, m.logged.String())
	}
	m.check()
	m.accounted()
	if s := m.b.Stats(); s.PendingEvents != 0 || int(s.Mark) < len(m.batches) || s.Untold != 0 {
		m.t.Fatalf("drained %d batches, but %+v", len(m.batches), s)
	}
	if err := m.b.Close(ctx); err != nil {
		m.t.Fatalf("close: %v", err)
	}
}

// TestModel is the buffer against a slice: P1 (the balance), P2 (what was acknowledged is
// there), P3 (what was settled does not come again, except after a power cut) and P4
// (order), whatever fails and whenever the process or the power dies.
func TestModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(struct{ rapid.TB }{t}, func(rt *rapid.T) {
			m := newModel(rt)
			defer func() {
				m.fs.Kill()
				abort(m.b)
			}()
			rt.Repeat(map[string]func(*rapid.T){
				"":        func(*rapid.T) { m.check() },
				"append":  m.append,
				"append2": m.append,
				"flush":   m.flush,
				"next":    m.next,
				"next2":   m.next,
				"view":    m.view,
				"settle":  m.settle,
				"settle2": m.settle,
				"kill":    m.kill,
				"miss":    m.miss,
				"miss2":   m.miss,
				"told":    func(t *rapid.T) { m.tellSome(t) },
				"rewind":  m.rewind,
				"giveup":  m.giveUp,
				"cut":     m.cut,
				"reopen":  m.reopen,
				"fault":   m.fault,
				"fill":    m.fill,
				"heal":    func(*rapid.T) { m.fs.Heal(); m.fs.SetCapacity(0) },
				"wait":    func(*rapid.T) { time.Sleep(1100 * time.Millisecond) },
			})
			m.drain()
		})
	})
}
