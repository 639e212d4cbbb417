package forward

import (
	"log/slog"
	"sync"
	"time"
)

// notices keeps the log readable when clients misbehave: of each kind of trouble it lets
// a few lines pass, then one per interval, with the number of those left out.
type notices struct {
	log *slog.Logger
	mu  sync.Mutex // guards kinds
	by  [kinds]notice
}

type notice struct {
	begun time.Time // of the current interval
	shown int
	more  int // left out since the last line
}

const (
	noticeInterval = time.Minute
	noticeBurst    = 5
)

// kind is a kind of trouble.
type kind uint8

const (
	kindMalformed kind = iota
	kindHandshake
	kindInvalid
	kindBroken
	kindSize
	kindRefused
	kindAck
	kindAccept
	kinds
)

// warn logs unless lines of this kind have been too many lately.
func (n *notices) warn(k kind, text string, attrs ...any) {
	now := time.Now()
	n.mu.Lock()
	c := &n.by[k]
	if now.Sub(c.begun) >= noticeInterval {
		c.begun, c.shown = now, 0
	}
	if c.shown >= noticeBurst {
		c.more++
		n.mu.Unlock()
		return
	}
	c.shown++
	more := c.more
	c.more = 0
	n.mu.Unlock()
	if more > 0 {
		attrs = append(attrs, slog.Int("similar_lines_left_out", more))
	}
	n.log.Warn(text, attrs...)
}
