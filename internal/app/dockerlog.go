package app

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// crowdEvery is how often a line of one text is written. A fault of the service concerns
// every container, and each of them would say so.
const crowdEvery = 10 * time.Second

// crowd is a handler that lets one line of each text pass in a while, and then says how
// many were left out.
type crowd struct {
	next slog.Handler
	said *crowdSaid
}

type crowdSaid struct {
	mu sync.Mutex // guards of
	of map[string]*crowdLine
}

type crowdLine struct {
	at      time.Time
	level   slog.Level
	skipped int
}

func newCrowd(next slog.Handler) *crowd {
	return &crowd{next: next, said: &crowdSaid{of: map[string]*crowdLine{}}}
}

// Enabled implements slog.Handler.
func (c *crowd) Enabled(ctx context.Context, l slog.Level) bool { return c.next.Enabled(ctx, l) }

// WithAttrs implements slog.Handler.
func (c *crowd) WithAttrs(a []slog.Attr) slog.Handler { return &crowd{c.next.WithAttrs(a), c.said} }

// WithGroup implements slog.Handler.
func (c *crowd) WithGroup(name string) slog.Handler { return &crowd{c.next.WithGroup(name), c.said} }

// Handle implements slog.Handler.
func (c *crowd) Handle(ctx context.Context, r slog.Record) error {
	c.said.mu.Lock()
	l := c.said.of[r.Message]
	if l != nil && r.Time.Sub(l.at) < crowdEvery {
		l.skipped++
		c.said.mu.Unlock()
		return nil
	}
	if l == nil {
		l = &crowdLine{}
		c.said.of[r.Message] = l
	}
	l.at, l.level = r.Time, r.Level
	c.said.mu.Unlock()
	return c.next.Handle(ctx, r)
}

// flush says what was left out, of texts whose time is over or of all.
func (c *crowd) flush(all bool) {
	now := time.Now()
	type left struct {
		text string
		crowdLine
	}
	var list []left
	c.said.mu.Lock()
	for text, l := range c.said.of {
		if all || now.Sub(l.at) >= crowdEvery {
			if l.skipped > 0 {
				list = append(list, left{text, *l})
			}
			delete(c.said.of, text)
		}
	}
	c.said.mu.Unlock()
	for _, l := range list {
		slog.New(c.next).Log(context.Background(), l.level, "the same of more containers, or again", "text", l.text, "times", l.skipped)
	}
}
